"""Where the Parquet files of a sweep lie: a folder, or an object store that fsspec knows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from linsys.folder_lock import folder_lock
from linsys.validate import InputError
from ratecheck._store.files import sealed, unsealed, write_whole, writing

#: The key of a file's metadata that says which part of the sweep it is.
_KEY = b"ratecheck"


def joined_tables(tables: Sequence[Mapping[str, Any]], what: str) -> Any:
    """Columns of several tables below one another, as an Arrow table.

    As between the files of a sweep, a column is of the widest type that it has in some table, and
    empty where a table has none.

    Args:
        tables: arrays by column.
        what: they are of, for errors.

    Raises:
        ValueError: a column is of numbers here and of text there.

    >>> import numpy as np
    >>> one, other = {"y": np.array([1])}, {"y": np.array([0.5]), "z": np.array([2.0])}
    >>> joined_tables([one, other], "a test").to_pydict()
    {'y': [1.0, 0.5], 'z': [None, 2.0]}
    """
    import pyarrow as pa

    parts = [pa.table(dict(one)) for one in tables]
    try:
        joined = pa.concat_tables(parts, promote_options="permissive") if parts else pa.table({})
    except pa.ArrowException as error:
        raise ValueError(
            f"columns of {what} must be of numbers or of text in all tables; found {error}"
        ) from None
    return joined.combine_chunks()


@dataclass(frozen=True)
class Place:
    """A folder by its path or address; files in it are whole or absent.

    Object stores show a file when all of it has arrived. On a disk it is written under another name
    and renamed.
    """

    address: str

    @classmethod
    def of(cls, out: Path | str, *below: str) -> Place:
        """The folder of these names below a path or an address such as "s3://bucket/results"."""
        text = str(out).removeprefix("file://")
        if not text or text.endswith("://"):
            raise InputError(
                f"output folder must be a path, or an address such as s3://bucket; found {out!r}"
            )
        return cls("/".join([text.rstrip("/") or text, *below]))

    @property
    def _remote(self) -> Any:
        """The file system of an address; None for a path."""
        if "://" not in self.address:
            return None
        try:
            import fsspec
        except ImportError:
            raise InputError(
                f"fsspec must be installed for {self.address}; found none: "
                "pip install 'ratecheck[dask]', or in a clone '.[dask]'"
            ) from None
        try:
            return fsspec.core.url_to_fs(self.address)[0]
        except (ValueError, ImportError) as error:
            raise InputError(
                f"output folder must be a path or an address that fsspec reads; found "
                f"{self.address}: {error}"
            ) from None

    def path(self, name: str) -> str:
        """A file's path, as its file system has it."""
        whole = f"{self.address}/{name}"
        return whole if self._remote is None else str(self._remote._strip_protocol(whole))

    def names(self) -> list[str]:
        """The names of all Parquet files."""
        system = self._remote
        if system is None:
            return sorted(path.name for path in Path(self.address).glob("*.parquet"))
        try:
            listed = system.ls(self.address, detail=False)
        except FileNotFoundError:
            return []
        return sorted(n for p in listed if (n := str(p).rpartition("/")[2]).endswith(".parquet"))

    def write(self, name: str, table: Any, said: dict[str, Any]) -> None:
        """Write an Arrow table and what is said of it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        sink = pa.BufferOutputStream()
        meta = {_KEY: sealed({**said, "of": self._of(name)})}
        options = {"compression": "zstd", "write_page_checksum": True}
        pq.write_table(table.replace_schema_metadata(meta), sink, **options)
        content = sink.getvalue().to_pybytes()
        with writing("output folder", Path(self.address)):
            if self._remote is not None:
                self._remote.pipe_file(f"{self.address}/{name}", content)
                return
            Path(self.address).mkdir(parents=True, exist_ok=True)
            write_whole(Path(self.address) / name, content)

    def said(self, name: str) -> dict[str, Any] | None:
        """What is said of a file, and its size in bytes; None without a whole, undamaged one.

        On a disk all of it is read against its checksums; of an address the end alone, as the rest
        would have to be fetched: it is checked when it is used.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            system, path = self._remote, self.path(name)
            with (
                Path(path).open("rb") if system is None else system.open(path) as stream,
                pq.ParquetFile(stream, pre_buffer=False, page_checksum_verification=True) as file,
            ):
                said = unsealed(file.schema_arrow.metadata[_KEY])
                if said is None or said.pop("of", None) != self._of(name):
                    return None  # damaged, or another part's file under this name
                if said["rows"] != file.metadata.num_rows:
                    return None
                if said["columns"] != file.schema_arrow.names:
                    return None
                # in this thread: one that still has the stream when Python ends aborts it
                if system is None and file.read(use_threads=False).num_rows != said["rows"]:
                    return None
                return {**said, "bytes": stream.seek(0, 2)}
        except (OSError, pa.ArrowException, KeyError, TypeError, ValueError):
            return None

    def _of(self, name: str) -> str:
        """What a file is of: its folder's name, which stands for the sweep, and its own."""
        return f"{self.address.rpartition('/')[2]}/{name}"

    def dataset(self, names: list[str]) -> Any:
        """These files as one data set of pyarrow, of which nothing but the columns is read yet.

        A column is of the widest type that it has in some file, and empty where a file has none.
        """
        import pyarrow as pa
        from pyarrow import dataset

        files = partial(
            dataset.dataset,
            [self.path(name) for name in names],
            format=dataset.ParquetFileFormat(page_checksum_verification=True),
            filesystem=self._remote,
        )
        schemas = [one.physical_schema.remove_metadata() for one in files().get_fragments()]
        try:
            joined = pa.unify_schemas(schemas, promote_options="permissive")
        except pa.ArrowException as error:
            raise InputError(
                f"columns of a sweep must be of numbers or of text in all of its files; found in "
                f"{self.address}: {error}"
            ) from None
        return files(schema=joined)

    @contextlib.contextmanager
    def alone(self, on_wait: Callable[[], None]) -> Iterator[None]:
        """Keep a folder to this process; an object store has no such lock, and needs none."""
        if self._remote is not None:
            yield
            return
        with writing("output folder", Path(self.address)):
            Path(self.address).mkdir(parents=True, exist_ok=True)
        with folder_lock(Path(self.address), on_wait):
            yield
