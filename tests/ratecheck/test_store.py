"""The store: computed is kept, damaged is noticed, different has another key."""

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

import ratecheck as rc
from linsys import InputError
from ratecheck._discover import registry
from ratecheck._experiment import seeds
from ratecheck._experiment.model import plain
from ratecheck._run.runner import redraw, run
from ratecheck._store import files, revision, store as store_module
from ratecheck._store.revision import file_digest
from ratecheck._store.store import Result, Store

DECAY = Path(__file__).parent / "extra" / "toy" / "rates" / "decay.py"
ROOT = Path(__file__).parents[2]
Counted = tuple[rc.Experiment[Any], list[float]]


@pytest.fixture
def counted(decay: rc.Experiment[Any]) -> Counted:
    """The toy with a list of the blocks that were really computed."""
    done: list[float] = []

    def compute(config: Any, block: rc.Block, context: rc.Context) -> rc.Columns:
        done.append(block["rate"])
        return decay.compute(config, block, context)

    return dataclasses.replace(decay, compute=compute), done


def same(one: rc.Table, other: rc.Table) -> None:
    assert list(one) == list(other)
    for name in one:
        assert one[name].dtype.kind == other[name].dtype.kind
        np.testing.assert_array_equal(one[name], other[name])


def assert_second_run_computes_nothing(counted: Counted, store: Store) -> None:
    experiment, done = counted
    config = experiment.profiles["quick"]
    first = run(experiment, config, store)
    second = run(experiment, config, store)
    same(first, second)
    assert done == [0.5, 1.0, 1.5]


def test_second_run_computes_nothing(counted: Counted, tmp_path: Path) -> None:
    assert_second_run_computes_nothing(counted, Store(tmp_path))


def test_a_store_that_forgets_fails_that_test(
    counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Result, "load", lambda self, block: None)
    with pytest.raises(AssertionError):
        assert_second_run_computes_nothing(counted, Store(tmp_path))


def test_only_missing_blocks_are_computed(counted: Counted, tmp_path: Path) -> None:
    experiment, done = counted
    store, config = Store(tmp_path), experiment.profiles["quick"]
    whole = run(experiment, config, store)
    store.result(experiment, config).shard({"rate": 1.0}).unlink()
    same(run(experiment, config, store), whole)
    assert done == [0.5, 1.0, 1.5, 1.0]


def test_threads_do_not_enter_the_key(counted: Counted, tmp_path: Path) -> None:
    experiment, done = counted
    for threads in (1, 2):
        run(experiment, experiment.profiles["quick"], Store(tmp_path), threads=threads)
    assert len(done) == 3


def test_a_failed_block_is_not_stored_and_the_others_stay(
    decay: rc.Experiment[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, config = Store(tmp_path), decay.profiles["quick"]
    monkeypatch.setenv("TOY_FAIL", "1.0")
    with pytest.raises(RuntimeError, match="the toy broke"):
        run(decay, config, store)
    result = store.result(decay, config)
    assert [result.load({"rate": rate}) is not None for rate in config.rates] == [
        True,
        False,
        False,
    ]
    monkeypatch.delenv("TOY_FAIL")
    assert run(decay, config, store).rows == 3 * 30 * 9


def readers(load: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads in which a file is read."""
    seen = set()

    class Watched(io.FileIO):
        def read(self, *size: Any) -> Any:
            seen.add(threading.get_ident())
            return super().read(*size)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode: Watched(path, mode))
        assert load() is not None
    return seen


def test_a_shard_is_read_by_no_thread_that_python_may_end_before(
    decay: rc.Experiment[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, config = Store(tmp_path), decay.profiles["quick"]
    run(decay, config, store)
    result, block = store.result(decay, config), {"rate": 0.5}
    here = {threading.get_ident()}
    assert readers(lambda: result.load(block), monkeypatch) == here

    def by_threads() -> object:
        with result.shard(block).open("rb") as stream:
            return pq.read_table(stream)

    assert readers(by_threads, monkeypatch) != here


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"mse": [1.0, float("nan")]}, "found NaN in 1 rows"),
        ({"mse": [1.0, 2.0], "t": [1]}, r"must have shape \(2,\); found \(1,\)"),
        ({"mse": [[1.0]]}, "must have shape"),
        ({"mse": []}, "must have rows; found none"),
        ({}, "must have rows; found none"),
        ({"mse": [None]}, "must hold numbers or text; found object"),
    ],
)
def test_what_cannot_be_stored_honestly_is_refused(
    decay: rc.Experiment[Any], tmp_path: Path, columns: rc.Columns, message: str
) -> None:
    bad = dataclasses.replace(decay, compute=lambda config, block, context: columns)
    store = Store(tmp_path)
    with pytest.raises(InputError, match=message):
        run(bad, decay.profiles["quick"], store)
    assert store.result(bad, decay.profiles["quick"]).load({"rate": 0.5}) is None


@pytest.mark.slow
@settings(max_examples=40)  # each one waits for the disk
@given(
    rows=st.integers(1, 5),
    floats=st.floats(allow_nan=False),
    whole=st.integers(-(2**63), 2**63 - 1),
    truth=st.booleans(),
    text=st.text("aµ, |é").map(lambda t: t + "."),
)
def test_every_kind_of_column_comes_back_unchanged(
    rows: int, floats: float, whole: int, truth: bool, text: str
) -> None:
    config = registry.find_experiment(str(DECAY)).profiles["quick"]
    columns = {
        "float": np.linspace(0, 1, rows) + (0 if np.isinf(floats) else floats),
        "infinite": floats,
        "int": np.full(rows, whole),
        "bool": np.resize([truth, not truth], rows),
        "text": np.resize(np.array([text, "other"]), rows),
    }
    with tempfile.TemporaryDirectory() as folder:
        result = Result(Path(folder), "parameters", "revision", "toy/decay", config)
        saved = result.save({"rate": 0.5}, columns, 0.1)
        loaded = result.load({"rate": 0.5})
    assert loaded is not None
    same(saved, loaded)
    assert loaded["text"].tolist() == np.resize([text, "other"], rows).tolist()
    assert loaded["rate"].tolist() == [0.5] * rows


def assert_any_damage_is_noticed(result: Result, block: rc.Block, whole: bytes) -> None:
    """Cut or change it anywhere: it reads as absent or, where a byte carries nothing, as before."""
    path, table = result.shard(block), result.load(block)
    assert table is not None
    rng = np.random.default_rng(0)
    for size in (0, 3, 8, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert result.load(block) is None
    noticed = 0
    for position in rng.integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged))
        loaded = result.load(block)
        noticed += loaded is None
        if loaded is not None:
            same(loaded, table)
    assert noticed > 50


@pytest.fixture
def stored(decay: rc.Experiment[Any], tmp_path: Path) -> tuple[Result, rc.Block, bytes]:
    store, config, block = Store(tmp_path), decay.profiles["quick"], {"rate": 1.0}
    run(decay, config, store)
    result = store.result(decay, config)
    return result, block, result.shard(block).read_bytes()


def test_any_damage_is_noticed(stored: tuple[Result, rc.Block, bytes]) -> None:
    assert_any_damage_is_noticed(*stored)


def test_without_the_digest_damage_would_pass(
    decay: rc.Experiment[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_content_digest", lambda table, meta: "no digest")
    store, config, block = Store(tmp_path), decay.profiles["quick"], {"rate": 1.0}
    run(decay, config, store)
    result = store.result(decay, config)
    with pytest.raises(AssertionError):
        assert_any_damage_is_noticed(result, block, result.shard(block).read_bytes())


def test_a_damaged_shard_is_computed_again(counted: Counted, tmp_path: Path) -> None:
    experiment, done = counted
    store, config = Store(tmp_path), experiment.profiles["quick"]
    whole = run(experiment, config, store)
    path = store.result(experiment, config).shard({"rate": 0.5})
    path.write_bytes(path.read_bytes()[:-20])
    same(run(experiment, config, store), whole)
    assert done == [0.5, 1.0, 1.5, 0.5]


def test_a_shard_of_another_block_is_not_taken(stored: tuple[Result, rc.Block, bytes]) -> None:
    result, block, whole = stored
    other = result.shard({"rate": 0.5})
    other.write_bytes(whole)
    assert result.load({"rate": 0.5}) is None
    assert result.load(block) is not None


def test_shards_and_manifest_say_what_they_are(
    decay: rc.Experiment[Any], stored: tuple[Result, rc.Block, bytes]
) -> None:
    result, block, _ = stored
    meta = {k.decode(): v.decode() for k, v in pq.read_schema(result.shard(block)).metadata.items()}
    manifest = json.loads((result.folder / "manifest.json").read_text())
    for told in (meta, manifest):
        assert told["experiment"] == "toy/decay"
        assert told["revision"] == revision.revision(decay)
        assert int(told["seed"]) == 0
    assert json.loads(meta["parameters"]) == manifest["parameters"] == result.config.to_dict()
    assert {"python", "numpy", "scipy", "numba"} <= set(manifest["versions"])
    assert manifest["versions"] == json.loads(meta["versions"])
    assert manifest["machine"]["cpu"]
    assert manifest["machine"]["cores"] >= 1
    assert [entry["block"] for entry in manifest["blocks"]] == [
        {"rate": r} for r in (0.5, 1.0, 1.5)
    ]
    assert all(entry["wall_s"] >= 0 for entry in manifest["blocks"])


def test_a_resumed_manifest_keeps_the_earlier_blocks(
    decay: rc.Experiment[Any], stored: tuple[Result, rc.Block, bytes]
) -> None:
    result, block, _ = stored
    result.shard(block).unlink()
    (result.folder / ".stale.tmp").write_bytes(b"x")
    run(decay, result.config, Store(result.home.parents[1]))
    manifest = json.loads((result.folder / "manifest.json").read_text())
    assert sorted(entry["block"]["rate"] for entry in manifest["blocks"]) == [0.5, 1.0, 1.5]


@pytest.mark.parametrize("listed", [None, 0, 2], ids=["missing", "empty", "of two blocks"])
def test_blocks_that_a_killed_run_stored_last_are_listed_by_the_next_one(
    decay: rc.Experiment[Any], stored: tuple[Result, rc.Block, bytes], listed: int | None
) -> None:
    result, _, _ = stored
    path = result.folder / "manifest.json"
    whole = json.loads(path.read_text())
    if listed is None:
        path.unlink()
    else:
        path.write_text(json.dumps({**whole, "blocks": whole["blocks"][:listed]}))
    run(decay, result.config, Store(result.home.parents[1]))
    assert json.loads(path.read_text())["blocks"] == whole["blocks"]
    written = path.stat().st_mtime_ns
    run(decay, result.config, Store(result.home.parents[1]))
    assert path.stat().st_mtime_ns == written


def test_seed_and_parameters_enter_the_key(decay: rc.Experiment[Any], tmp_path: Path) -> None:
    base, store = decay.profiles["quick"], Store(tmp_path)
    changes = [{}, {"seed": 1}, {"replicates": 31}, {"rates": (0.5,)}, {"noise": "gamma"}]
    folders = {store.result(decay, dataclasses.replace(base, **c)).folder for c in changes}
    assert len(folders) == len(changes)


def test_a_data_file_counts_by_its_content(decay: rc.Experiment[Any], tmp_path: Path) -> None:
    store = Store(tmp_path / "out")

    def key(name: str) -> str:
        config = dataclasses.replace(decay.profiles["quick"], data=tmp_path / name)
        return store.result(decay, config).parameters

    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").write_text("{}")
    before = key("a.json")
    assert before == key("b.json")
    (tmp_path / "a.json").write_text("[]")
    assert before != key("a.json")
    with pytest.raises(InputError, match=r"`data` must be readable; found .*c\.json"):
        key("c.json")


def test_parameters_that_say_how_are_no_part_of_the_key(
    decay: rc.Experiment[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(replicates: int) -> str:
        config = dataclasses.replace(decay.profiles["quick"], replicates=replicates)
        return Store(tmp_path).result(decay, config).parameters

    assert key(20) != key(21)
    monkeypatch.setattr(decay.config_type, "not_in_key", frozenset({"replicates"}))
    assert key(20) == key(21)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LimitConfig(rc.Config):
    limit: float | None = None
    pair: tuple[int, float] = (1, 1.0)
    whole_or_not: int | float = 0


def assert_keys_differ(decay: rc.Experiment[Any], tmp_path: Path) -> None:
    inf = float("inf")
    limits = [None, inf, -inf, float("nan"), 0.0, 1e300]
    keys = {store_module._key(decay, LimitConfig(limit=limit)) for limit in limits}
    assert len(keys) == len(limits)
    assert len({rc.Config().derive("u", value) for value in (*limits, "inf", "nan")}) == 8
    result = Store(tmp_path).result(decay, LimitConfig())
    assert len({result.shard({"a": limit}) for limit in limits}) == len(limits)


def test_infinite_values_have_keys_of_their_own(decay: rc.Experiment[Any], tmp_path: Path) -> None:
    assert_keys_differ(decay, tmp_path)


def test_null_for_infinity_fails_that_test(
    decay: rc.Experiment[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeds, "text", lambda value: json.dumps(plain(value)))
    with pytest.raises(AssertionError):
        assert_keys_differ(decay, tmp_path)


def test_a_whole_number_is_a_float_where_one_is_annotated(decay: rc.Experiment[Any]) -> None:
    one = LimitConfig(limit=3, pair=(2, 5))
    other = LimitConfig(limit=3.0, pair=(2, 5.0))
    assert store_module._key(decay, one) == store_module._key(decay, other)
    assert one.derive("u", one.limit, one.pair[1]) == other.derive("u", other.limit, other.pair[1])
    assert [type(v) for v in one.pair] == [int, float]
    assert type(LimitConfig(whole_or_not=3).whole_or_not) is int
    assert type(LimitConfig(limit=2**53 + 1).limit) is int  # it has no equal among the floats


def test_redraw_takes_older_source_code_but_never_a_part(
    decay: rc.Experiment[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, config = Store(tmp_path), decay.profiles["quick"]
    whole = run(decay, config, store)
    old = store.result(decay, config)
    monkeypatch.setattr(store_module, "revision", lambda experiment: "0" * 16)
    table, result = redraw(decay, config, store)
    same(table, whole)
    assert result.folder == old.folder
    old.shard({"rate": 0.5}).unlink()
    with pytest.raises(InputError, match="must hold a complete result of toy/decay"):
        redraw(decay, config, store)


def test_unwritable_folders_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"output folder must be writable; found .*file/results"):
        Store(tmp_path / "file" / "results")


def test_whole_files_replace_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    files.write_whole(path, b"old")

    def fails(*arguments: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "fsync", fails)
    with pytest.raises(OSError, match="disk full"):
        files.write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("seconds", "flushed"), [(0.5, False), (1.5, True)])
def test_only_what_takes_long_waits_for_the_disk(
    stored: tuple[Result, rc.Block, bytes],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    flushed: bool,
) -> None:
    result, block, _ = stored
    table = result.load(block)
    assert table is not None
    calls: list[int] = []
    monkeypatch.setattr(files.os, "fsync", calls.append)
    result.save_shard(block, {name: table[name] for name in table}, seconds)
    assert bool(calls) is flushed


def test_a_kill_before_the_rename_leaves_the_old_content_and_one_file_to_clean(
    decay: rc.Experiment[Any],
    stored: tuple[Result, rc.Block, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result, block, whole = stored
    path = result.shard(block)
    code = (
        "import os, signal, sys, pathlib; from ratecheck._store import files;"
        "os.replace = lambda *names: os.kill(os.getpid(), signal.SIGTERM);"
        "files.write_whole(pathlib.Path(sys.argv[1]), b'new')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=False)
    assert done.returncode != 0
    assert path.read_bytes() == whole
    assert len(list(result.folder.glob(".*.tmp"))) == 1
    result.clean()  # it may belong to a run that is still writing
    assert len(list(result.folder.glob(".*.tmp"))) == 1
    monkeypatch.setattr(store_module, "_STALE", -1.0)
    run(decay, result.config, Store(result.home.parents[1]))
    assert list(result.folder.glob(".*.tmp")) == []


def test_a_data_folder_counts_by_its_files_names_and_contents(tmp_path):
    (tmp_path / "a.json").write_text("1")
    digests = [file_digest(tmp_path, "data")]
    (tmp_path / "a.json").write_text("2")
    digests.append(file_digest(tmp_path, "data"))
    (tmp_path / "a.json").rename(tmp_path / "b.json")
    digests.append(file_digest(tmp_path, "data"))
    assert len(set(digests)) == 3
    with pytest.raises(InputError, match="`data` must be readable"):
        file_digest(tmp_path / "missing", "data")
