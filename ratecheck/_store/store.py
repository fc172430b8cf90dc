"""The result store: a Parquet shard per block, whole or absent, and a manifest per configuration.

A result lives in ``<out>/<paper>/<name>/<configuration>-<revision>/``. The two halves of the
folder's name are digests: of the parameters, the seed and the content of data files; and of the
source code behind the numbers. A shard is written under a temporary name in the same folder and
renamed; it carries a digest of its own content, so that a damaged one is noticed, discarded and
computed again. Only one that took a second or more is flushed to the disk before it counts as
stored: the disk may take longer than a short block, and what a power cut damages is noticed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from linsys.folder_lock import folder_lock
from linsys.json_text import from_json
from linsys.validate import InputError
from ratecheck._experiment import seeds
from ratecheck._experiment.model import Block, Columns, Config, Experiment
from ratecheck._experiment.table import Table
from ratecheck._store.files import check_writable, digest, newest_first, write_whole, writing
from ratecheck._store.machine import machine, versions
from ratecheck._store.revision import file_digest, revision

_FORMAT = "1"
#: A temporary file this old (seconds) belongs to a killed run, not to one that is writing.
_STALE = 3600.0
#: Seconds between two manifests, and at least so many times what the last one took: each lists all
#: blocks, of which there may be a hundred thousand.
_MANIFEST, _REST = 1.0, 50.0
#: A block of fewer seconds is computed again after a power cut rather than waited for at the disk.
_SHORT = 1.0


class Store:
    """All results below one folder, which is checked to be writable before anything is computed.

    Args:
        root: the folder; it is made when something is stored.
        writable: False for reading alone.

    Raises:
        InputError: a folder that cannot be written.

    Example::

        store = rc.Store("results")
        table = rc.run(experiment, config, store)  # computes what is not stored yet
    """

    def __init__(self, root: Path | str, *, writable: bool = True) -> None:
        self.root = Path(root)
        self.figures = self.root / "figures"
        if writable:
            check_writable("output folder", self.root)

    def check_figures(self) -> None:
        """Refuse a folder of figures that cannot be written, before anything is computed."""
        if os.path.lexists(self.figures):  # else it will be made in the root, which is writable
            check_writable("figures folder", self.figures)

    def result(self, experiment: Experiment[Any], config: Config) -> Result:
        """The place of one configuration's shards under the current source code."""
        parameters = digest(_key(experiment, config))
        return Result(
            self.root / experiment.id, parameters, revision(experiment), experiment.id, config
        )

    def saved(self, experiment: Experiment[Any], config: Config, blocks: Sequence[Block]) -> int:
        """How many blocks have a shard of the current source code, without reading them."""
        if not (self.root / experiment.id).is_dir():  # a revision takes longer than this look
            return 0
        return self.result(experiment, config).saved(blocks)

    def holds(self, experiment: Experiment[Any], config: Config) -> bool:
        """Whether there is a complete result, of the current source code or of older."""
        try:
            self.latest(experiment, config, list(experiment.blocks(config)))
        except InputError:
            return False
        return True

    def latest(
        self, experiment: Experiment[Any], config: Config, blocks: Sequence[Block]
    ) -> Result:
        """The complete result of the current source code, or else the newest of any."""
        current = self.result(experiment, config)
        others = newest_first(current.folder.parent.glob(f"{current.parameters}-*"))
        for folder in [current.folder, *others]:
            result = Result(
                current.home,
                current.parameters,
                folder.name.partition("-")[2],
                experiment.id,
                config,
            )
            if all(result.load(block) is not None for block in blocks):
                return result
        raise InputError(
            f"{self.root} must hold a complete result of {experiment.id} with these parameters "
            "to redraw; found none"
        )


@dataclass
class Result:
    """The shards of one configuration."""

    home: Path
    parameters: str
    revision: str
    experiment_id: str
    config: Config
    _blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    _unwritten: bool = False
    _next: float = 0.0

    @property
    def folder(self) -> Path:
        """Where the shards and the manifest lie."""
        return self.home / f"{self.parameters}-{self.revision}"

    def shard(self, block: Block) -> Path:
        """The file of one block."""
        return self.folder / f"{digest(_block_key(block))}.parquet"

    def unfinished(self, block: Block) -> Path:
        """The folder for what a block keeps while it is computed."""
        return self.shard(block).with_suffix(".unfinished")

    def saved(self, blocks: Sequence[Block]) -> int:
        """How many blocks have a shard, without reading them."""
        return sum(self.shard(block).exists() for block in blocks)

    def saved_in_part(self, blocks: Sequence[Block]) -> int:
        """How many other blocks have kept something that their computation goes on from."""
        return sum(
            any(self.unfinished(block).glob("*"))
            for block in blocks
            if not self.shard(block).exists()
        )

    def load(self, block: Block) -> Table | None:
        """The block's table, or None without a whole, undamaged shard of exactly this block."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        path = self.shard(block)
        if not path.exists():
            return None
        try:
            # in this thread: one of pyarrow's that still has the stream when Python ends aborts it
            with path.open("rb") as stream, pq.ParquetFile(stream, pre_buffer=False) as file:
                arrow = file.read(use_threads=False)
            meta = {k.decode(): v.decode() for k, v in (arrow.schema.metadata or {}).items()}
            columns = {n: arrow.column(n).to_numpy() for n in arrow.column_names}
            table = Table(
                {n: c.astype(str) if c.dtype == object else c for n, c in columns.items()}
            )
        except (OSError, pa.ArrowException, UnicodeDecodeError, ValueError):
            return None
        stated = meta.pop("digest", None)
        wanted = meta.get("block") == _block_key(block) and meta.get("format") == _FORMAT
        if not wanted or stated != _content_digest(table, meta):
            return None
        with contextlib.suppress(KeyError, ValueError):
            entry = {"shard": path.name, "block": from_json(meta["block"])}
            self._blocks[path.name] = {**entry, "wall_s": float(meta["wall_s"])}
            self._unwritten |= path.name not in self._listed
        return table

    def save(self, block: Block, columns: Columns, seconds: float) -> Table:
        """Write one block's shard and the manifest; returns the table as stored."""
        table = self.save_shard(block, columns, seconds)
        self.note(block, seconds)
        self.write_manifest()
        return table

    def save_shard(self, block: Block, columns: Columns, seconds: float) -> Table:
        """Write one block's shard, and nothing that another process writes as well."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = checked(self.experiment_id, block, columns)
        meta = {
            "format": _FORMAT,
            "experiment": self.experiment_id,
            "parameters": json.dumps(self.config.to_dict()),
            "seed": str(self.config.seed),
            "revision": self.revision,
            "versions": json.dumps(versions()),
            "block": _block_key(block),
            "wall_s": f"{seconds:.6f}",
        }
        meta["digest"] = _content_digest(table, meta)
        arrow = pa.table({name: pa.array(table[name]) for name in table}).replace_schema_metadata(
            meta
        )
        sink = pa.BufferOutputStream()
        pq.write_table(arrow, sink, compression="zstd")
        with writing("output folder", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            content = sink.getvalue().to_pybytes()
            write_whole(self.shard(block), content, flush=seconds >= _SHORT)
        shutil.rmtree(self.unfinished(block), ignore_errors=True)
        return table

    def note(self, block: Block, seconds: float) -> None:
        """Have the manifest say that a block is stored; it is written now and then."""
        shard = self.shard(block).name
        wall = {"wall_s": round(seconds, 6)}
        self._blocks[shard] = {"shard": shard, "block": from_json(_block_key(block)), **wall}
        self._unwritten = True
        if time.monotonic() >= self._next:
            self.write_manifest()

    def write_manifest(self) -> None:
        """Write the manifest if it does not say of all blocks yet that they are stored."""
        if self._unwritten:
            began = time.monotonic()
            with writing("output folder", self.folder):
                self._write_manifest()
            self._unwritten, ended = False, time.monotonic()
            self._next = ended + max(_MANIFEST, _REST * (ended - began))

    @contextlib.contextmanager
    def locked(self, on_wait: Callable[[], None]) -> Iterator[None]:
        """Keep the result to this process; ``on_wait`` is called before waiting for another one."""
        with writing("output folder", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(self.folder, on_wait):
            yield

    def clean(self) -> None:
        """Remove what killed runs left behind in this folder."""
        for path in self.folder.glob(".*.tmp"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > _STALE:
                    path.unlink()

    @functools.cached_property
    def _listed(self) -> dict[str, dict[str, Any]]:
        """What the manifest says of blocks, by shard, when it is first asked."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            text = (self.folder / "manifest.json").read_text()
            return {entry["shard"]: entry for entry in from_json(text)["blocks"]}
        return {}

    def _write_manifest(self) -> None:
        self._blocks = {**self._listed, **self._blocks}
        manifest = {
            "experiment": self.experiment_id,
            "parameters": self.config.to_dict(),
            "seed": self.config.seed,
            "revision": self.revision,
            "versions": versions(),
            "machine": machine(),
            "blocks": list(self._blocks.values()),
        }
        content = json.dumps(manifest, indent=1).encode()
        write_whole(self.folder / "manifest.json", content)


def _key(experiment: Experiment[Any], config: Config) -> str:
    """What identifies a configuration: its values; a data file counts by content, not place."""
    values = {
        name: getattr(config, name) for name in config.to_dict() if name not in config.not_in_key
    }
    for name, value in values.items():
        if isinstance(value, Path):
            values[name] = f"sha256:{file_digest(value, name)}"
    return seeds.text([_FORMAT, experiment.id, values])


def _block_key(block: Block) -> str:
    return seeds.text(dict(block))


def _content_digest(table: Mapping[str, Any], meta: Mapping[str, str]) -> str:
    whole = hashlib.sha256(json.dumps(meta, sort_keys=True).encode())
    for name in sorted(table):
        column = table[name]
        numeric = column.dtype.kind in "iufb"
        whole.update(f"{name}\0{column.dtype if numeric else 'text'}\0{column.size}\0".encode())
        whole.update(
            np.ascontiguousarray(column).tobytes() if numeric else "\0".join(column).encode()
        )
    return whole.hexdigest()


def checked(experiment_id: str, block: Block, columns: Columns) -> Table:
    """The columns and the block's own values; what cannot be stored unchanged is refused."""
    arrays = {name: np.asarray(value) for name, value in {**block, **columns}.items()}
    rows = max((a.size for a in arrays.values() if a.ndim == 1), default=1)
    if rows == 0 or not columns:
        raise InputError(f"block {dict(block)} of {experiment_id} must have rows; found none")
    for name, array in arrays.items():
        where = f"column `{name}` of {experiment_id}, block {dict(block)},"
        if array.dtype.kind not in "iufbU":
            raise InputError(f"{where} must hold numbers or text; found {array.dtype}")
        if array.ndim > 1 or array.shape not in ((), (rows,)):
            raise InputError(f"{where} must have shape ({rows},); found {array.shape}")
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise InputError(
                f"{where} must hold numbers; found NaN in {int(np.isnan(array).sum())} rows"
            )
        arrays[name] = np.broadcast_to(array, (rows,))
    return Table(arrays)
