"""What runs measure, as files that others read: lines, TensorBoard's events, PEFT's folders.

Inside :func:`recording`, every run of :mod:`lora_bridge.runs` has a folder of its own, in which are

- ``metrics.jsonl``: a line for every measurement, ``{"run": name, "block": {..}, "round": t,
  "time": seconds, "values": {name: number or array}}``. An array whose places have names is an
  object of these, ``"loss": {"arc": 1.2, "boolq": 0.7}``, any other is a list. Numbers that are not
  finite are null; arrays of more than 64 numbers are left out.
- ``adapters/round-000020/NAME``: a folder of PEFT (:mod:`lora_bridge.peft_io`) for everybody who
  has adapters after that round, where these are asked for.

A run that goes on after a kill writes no point twice, and one that is made anew replaces what is
there. :class:`TensorBoard` makes event files of these lines, while they are written or later, with
tags such as ``loss/arc``; it needs the extra ``tensorboard``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from linsys.json_text import from_json
from linsys.validate import InputError, check_integer, check_path
from lora_bridge.failures import writing_explained
from lora_bridge.peft_io import save_adapter
from lora_bridge.runs import Adapters, Labels, Values, Watch, watched

__all__ = ["Recorder", "TensorBoard", "read_metrics", "recording", "short_name"]

FILE = "metrics.jsonl"
#: Larger arrays are not written.
_MOST = 64
#: Of a run's name, at most so many characters are kept in its folder's name.
_LONGEST = 60
#: Suffix of our event files' names, so that other programs' files are left alone.
_SUFFIX = ".ratecheck"


@contextmanager
def recording(
    folder: Path | str,
    *,
    tensorboard: Path | str | None = None,
    save_adapters: int | None = None,
) -> Iterator[None]:
    """Inside, all runs write what they measure below a folder.

    Args:
        folder: a folder for each run is made in it, see :func:`short_name`.
        tensorboard: where event files are written as well; None: nowhere.
        save_adapters: adapters are saved after every so many rounds and after the last one, of
            runs that say what theirs are; None: never.

    Raises:
        InputError: a folder that cannot be written; tensorboard is asked for and not installed.

    >>> import torch
    >>> from lora_bridge.runs import repeated
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with recording(folder):
    ...         made = repeated("halving", lambda x, t: x / 2, torch.ones(1), [0, 3],
    ...                         lambda x: {"x": x[0]})
    ...     [(line["run"], line["round"], line["values"]) for line in read_metrics(folder)]
    [('halving', 0, {'x': 1.0}), ('halving', 3, {'x': 0.125})]
    """
    root = check_path("folder", folder)
    events = None if tensorboard is None else TensorBoard(root, tensorboard)
    then = None if events is None else events.update
    try:
        with watched(Recorder(root, save_adapters=save_adapters, then=then)):
            yield
    finally:
        if events is not None:
            events.close()


class Recorder(Watch):
    """Writes the measurements and the adapters of every run that it is told of.

    Args:
        folder: see :func:`recording`.
        block: of an experiment, whose values every line repeats.
        save_adapters: see :func:`recording`.
        then: called when a line was written.
    """

    def __init__(
        self,
        folder: Path,
        *,
        block: Mapping[str, Any] | None = None,
        save_adapters: int | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        if save_adapters is not None:
            check_integer("save_adapters", save_adapters, low=1)
        self.folder, self.block, self.every = folder, dict(block or {}), save_adapters
        self._then = then or (lambda: None)
        self._name = ""
        self._lines: dict[int, dict[str, Any]] = {}
        self._complete = True

    @property
    def _run(self) -> Path:
        return self.folder / short_name(self._name)

    def begin(self, name: str, rounds: int, measurements: int) -> None:
        """Read what was written of a run before it was killed."""
        self._name = name
        lines, self._complete = _lines_of(self._run / FILE)
        self._lines = {line["round"]: line for line in lines}

    def measured(self, t: int, values: Values, labels: Labels) -> None:
        """Write a line, unless an equal one is there; lines of later rounds are dropped.

        Those come from an earlier run of this name, which this one replaces.
        """
        kept = {
            n: _plain(value.tolist(), labels.get(n, ()))
            for n, value in values.items()
            if value.size <= _MOST
        }
        before = self._lines.get(t)
        if not kept or (before is not None and before["values"] == kept):
            return
        earlier = {r: line for r, line in self._lines.items() if r < t}
        append = self._complete and len(earlier) == len(self._lines)
        about = {"run": self._name, **({"block": self.block} if self.block else {})}
        line = {**about, "round": t, "time": time.time(), "values": kept}
        self._lines = {**earlier, t: line}
        with writing_explained("folder of metrics", self.folder):
            self._run.mkdir(parents=True, exist_ok=True)
            if append:
                with (self._run / FILE).open("a", encoding="utf-8") as stream:
                    stream.write(_text([line]))
            else:
                _replace(self._run / FILE, _text(self._lines.values()))
        self._complete = True
        self._then()

    def reached(self, t: int, last: bool, adapters: Callable[[], Adapters]) -> None:
        """Save the adapters, if this round is one to save; those of later rounds are deleted.

        They come from an earlier run of this name, which this one replaces.
        """
        if self.every is None or (t % self.every and not last):
            return
        held = adapters()
        if not held:
            return
        place = self._run / "adapters"
        target = place / f"round-{t:06d}"
        with writing_explained("folder of adapters", place):
            place.mkdir(parents=True, exist_ok=True)
            unfinished = Path(tempfile.mkdtemp(dir=place, prefix="making-"))
            try:
                for name, (bank, X) in held.items():
                    save_adapter(unfinished / name, bank, X)
                for old in place.glob("round-*"):
                    if old >= target:
                        shutil.rmtree(old)
                unfinished.rename(target)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)


@dataclass
class _Followed:
    """How far a file of lines has been read, and whether it is still the same file."""

    inode: int
    read: int = 0


@dataclass
class TensorBoard:
    """Event files of what runs have written, and of what they go on to write.

    Those that it has written of a run before are written anew, so that no point is there twice.

    Args:
        source: a folder of :func:`recording`.
        folder: where they go, in folders named like those of the source.

    Raises:
        InputError: the extra ``tensorboard`` is missing; a folder that cannot be written.
    """

    source: Path
    folder: Path | str
    _files: dict[Path, _Followed] = field(default_factory=dict, init=False)
    _writers: dict[Path, tuple[Path, Any]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.folder = check_path("tensorboard", self.folder)
        check_tensorboard(self.folder)
        with writing_explained("`tensorboard`", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)

    def update(self) -> None:
        """Write the points that were added since the last time."""
        for file in sorted(self.source.rglob(FILE)):
            status = file.stat()
            known = self._files.get(file)
            if known is None or known.inode != status.st_ino:  # new, or written anew
                known = self._files[file] = _Followed(status.st_ino)
                self._begin(file)
            if status.st_size > known.read:
                with file.open("rb") as stream:
                    stream.seek(known.read)
                    content = stream.read()
                content = content[: content.rfind(b"\n") + 1]  # the last line may be incomplete
                known.read += len(content)
                self._write(file, _parsed(content)[0])

    def close(self) -> None:
        """Write the points since the last time, and close the files."""
        try:
            self.update()
        finally:
            for _, writer in self._writers.values():
                writer.close()
            self._writers.clear()

    def _place(self, file: Path) -> Path:
        return Path(self.folder) / file.parent.relative_to(self.source)

    def _begin(self, file: Path) -> None:
        open_file, writer = self._writers.get(file.parent.parent, (None, None))
        if open_file == file and writer is not None:
            writer.close()
            del self._writers[file.parent.parent]
        for old in self._place(file).glob(f"events.out.tfevents.*{_SUFFIX}"):
            old.unlink()

    def _write(self, file: Path, lines: list[dict[str, Any]]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        # one open writer for runs of one folder, since they are computed one after the other
        group = file.parent.parent
        open_file, writer = self._writers.get(group, (None, None))
        with writing_explained("`tensorboard`", Path(self.folder)):
            if open_file != file or writer is None:
                if writer is not None:
                    writer.close()
                place = str(self._place(file))
                writer = SummaryWriter(place, filename_suffix=_SUFFIX)
                self._writers[group] = file, writer
                if lines:
                    writer.add_text("run", lines[0]["run"], 0)
            for line in lines:
                for tag, value in _scalars(line["values"]):
                    writer.add_scalar(tag, value, line["round"], walltime=line["time"])
            writer.flush()


def check_tensorboard(folder: Path | str) -> None:
    """Refuse where the extra is not installed, and a folder that is a file.

    Raises:
        InputError: the extra is missing; a file.
    """
    try:
        import torch.utils.tensorboard  # noqa: F401
    except ImportError:
        raise InputError(
            "extra `tensorboard` must be installed; found no tensorboard: "
            "pip install 'ratecheck[tensorboard]', or in a clone '.[tensorboard]'"
        ) from None
    if Path(folder).is_file():
        raise InputError(f"`tensorboard` must be a folder; found the file {folder}")


def read_metrics(folder: Path | str) -> list[dict[str, Any]]:
    """The lines of all runs below a folder, run by run, rounds in order.

    ``pandas.json_normalize(read_metrics(folder))`` is a table of them, with columns such as
    ``values.loss.arc``.
    """
    files = sorted(check_path("folder", folder).rglob(FILE))
    return [line for file in files for line in _lines_of(file)[0]]


def short_name(name: str) -> str:
    """A folder's name for a run's: without its algorithm's options, and with a digest of all.

    >>> short_name("FSLoRA(gamma=0.1, ranks=(1, 2)) r=4 test 0")
    'FSLoRA_r=4_test_0-f998f94c'
    """
    short = name
    while (inner := re.sub(r"\([^()]*\)|\{[^{}]*\}", "", short)) != short:
        short = inner
    short = re.sub(r"[^\w=.,+-]+", "_", short).strip("_.")[:_LONGEST]
    if short == name:
        return name
    return f"{short}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _plain(value: Any, labels: Sequence[Sequence[str]]) -> Any:
    """A number, nested objects by labels or nested lists; None for what JSON has no number for."""
    if isinstance(value, list):
        parts = [_plain(part, labels[1:]) for part in value]
        return dict(zip(labels[0], parts, strict=True)) if labels else parts
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _scalars(values: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every number with its tag: the name, and the labels or places in an array."""
    for name, value in values.items():
        if isinstance(value, list | dict):
            parts = value.items() if isinstance(value, dict) else enumerate(value)
            yield from _scalars({f"{name}/{place}": part for place, part in parts})
        elif value is not None:
            yield name, float(value)


def _text(lines: Any) -> str:
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)


def _lines_of(file: Path) -> tuple[list[dict[str, Any]], bool]:
    """The lines of a file, and whether all of it can be read."""
    try:
        return _parsed(file.read_bytes())
    except OSError:
        return [], True


def _parsed(content: bytes) -> tuple[list[dict[str, Any]], bool]:
    """The lines, and whether all are complete: a full disk, or a kill, cuts the last one."""
    lines, complete = [], content.endswith(b"\n") or not content
    for text in content.splitlines():
        try:
            line = from_json(text)
            lines.append(
                {name: line[name] for name in line.keys() | {"run", "round", "time", "values"}}
            )
        except (ValueError, KeyError, AttributeError):
            complete = False
    return lines, complete


def _replace(file: Path, text: str) -> None:
    handle, unfinished = tempfile.mkstemp(dir=file.parent, prefix="making-")
    os.close(handle)
    try:
        Path(unfinished).write_text(text, encoding="utf-8")
        os.replace(unfinished, file)
    finally:
        Path(unfinished).unlink(missing_ok=True)
