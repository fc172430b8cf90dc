"""Sweeps: every combination once, the same rows by whatever computes them, resumed after a stop."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._commands.sweeps import Map
from ratecheck._processes.cluster import on_cluster
from ratecheck._sweep import phase, sweep as module
from ratecheck._sweep.axes import MOST, axes_of, checked
from ratecheck._sweep.phase import phase_map
from ratecheck._sweep.place import Place

DECAY = str(Path(__file__).parent / "extra" / "toy" / "rates" / "decay.py")
#: 12 configurations, of which 4 are refused.
AXES: dict[str, Any] = {"replicates": [1, 2, 3], "rates": [(0.5,), (1.0,)], "seed": [0, 1]}


def swept(out: Path | str, **given: Any) -> rc.Sweep:
    return rc.sweep(DECAY, given.pop("axes", AXES), out, threads=given.pop("threads", 1), **given)


def rows(done: rc.Sweep) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = done.dataset().to_table().to_pylist()
    return listed


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> rc.Sweep:
    return swept(tmp_path_factory.mktemp("whole"), part=2)


def test_every_combination_has_the_rows_of_a_run(
    whole: rc.Sweep, decay: rc.Experiment[Any], tmp_path: Path
) -> None:
    assert (whole.configurations, whole.refused, whole.missing) == (12, 4, 0)
    assert whole.reasons == ("`replicates` must be at least 2; found 1",)
    wanted = []
    for replicates, rates, seed in itertools.product(*AXES.values()):
        if replicates > 1:
            config = decay.config_type(replicates=replicates, rates=rates, seed=seed)
            table = rc.run(decay, config, rc.Store(tmp_path))
            own = {"replicates": replicates, "rates": rates[0], "seed": seed}
            for k in range(table.rows):
                wanted.append({**own, **{name: table[name][k].item() for name in table}})
    assert rows(whole) == wanted
    assert whole.rows == len(wanted)


SAME_NAME = """
from dataclasses import dataclass
import ratecheck as rc

@dataclass(frozen=True, kw_only=True)
class Same(rc.Config):
    x: int = rc.param(1, low=1, doc="also a column")
    levels: tuple[float, ...] = rc.param((0.0,), doc="a list")

EXPERIMENT = rc.Experiment(
    id="same/name", title="A column named as a parameter", source="none", kind="figure",
    profiles={"quick": Same(), "paper": Same()}, blocks=rc.Grid({"k": (0, 1)}),
    compute=lambda config, block, context: {"x": [10 * config.x + block["k"]]},
    analyse=lambda config, table: rc.Analysis([], []),
)
"""


def test_a_column_of_the_table_keeps_its_name(tmp_path: Path) -> None:
    path = tmp_path / "same.py"
    path.write_text(SAME_NAME)
    axes = {"x": [1, 2], "levels": [(0.0,), (0.0, 0.5)]}
    done = rc.sweep(str(path), axes, tmp_path, threads=1, part=1)
    assert done.dataset().to_table().to_pydict() == {
        "set_x": [1, 1, 1, 1, 2, 2, 2, 2],
        "levels": ["0.0", "0.0", "0.0,0.5", "0.0,0.5"] * 2,
        "k": [0, 1] * 4,
        "x": [10, 11, 10, 11, 20, 21, 20, 21],
    }


def test_a_cluster_writes_the_same_rows(whole: rc.Sweep, tmp_path: Path) -> None:
    with on_cluster("local", folder=tmp_path, workers=2):
        assert rows(swept(tmp_path, part=3)) == rows(whole)


@pytest.mark.slow
def test_processes_write_the_same_rows(whole: rc.Sweep, tmp_path: Path) -> None:
    assert rows(swept(tmp_path, threads=2, part=5)) == rows(whole)


def test_what_is_stored_is_not_computed_again(
    whole: rc.Sweep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, begun, told = module._compute, list[int](), list[tuple[float, int]]()

    def once(*task: Any) -> Any:
        begun.append(task[0])
        if len(begun) == 4:
            raise KeyboardInterrupt
        return real(*task)

    monkeypatch.setattr(module, "_compute", once)
    with pytest.raises(module.Interrupted, match="6 of 12 configurations are saved"):
        swept(tmp_path, part=2)
    assert begun == [0, 2, 4, 6]
    (folder,) = (tmp_path / "toy" / "decay").iterdir()
    (folder / "part-00000004.parquet").write_bytes(b"PAR1 damaged PAR1")
    done = swept(tmp_path, part=2, progress=lambda d, total: told.append((d, total)))
    assert begun == [0, 2, 4, 6, 4, 6, 8, 10]
    assert told == [(d, 12) for d in (4, 6, 8, 10, 12)]
    assert rows(done) == rows(whole)
    swept(tmp_path, part=2)
    assert len(begun) == 8


def test_ctrl_c_reads_no_file_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = swept(tmp_path, part=2)
    names = done.place.names()
    assert len(names) == 6
    for name in names[3:]:
        Path(done.place.path(name)).unlink()
    real, read, computed = Place.said, list[str](), module._compute

    def counted(place: Place, name: str) -> Any:
        read.append(name)
        return real(place, name)

    def stopped(*task: Any) -> Any:
        if task[0] == 8:
            # a worker had written its file, and its answer did not arrive
            computed(*task)
            raise KeyboardInterrupt
        return computed(*task)

    monkeypatch.setattr(Place, "said", counted)
    monkeypatch.setattr(module, "_compute", stopped)
    with pytest.raises(module.Interrupted, match="10 of 12 configurations are saved"):
        swept(tmp_path, part=2)
    # three that were there, two as they are written, and that of the worker once more
    assert read == [*names[:5], names[4]]

    def stops(place: Place, name: str) -> Any:
        if name == names[2]:
            raise KeyboardInterrupt
        return counted(place, name)

    read.clear()
    monkeypatch.setattr(Place, "said", stops)
    with pytest.raises(module.Interrupted, match="10 of 12 configurations are saved"):
        swept(tmp_path, part=2)
    assert read == names[:2]


def test_a_mistake_in_an_experiment_costs_its_part_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: rc.Sweep
) -> None:
    monkeypatch.setenv("TOY_FAIL", "1.0")
    axes = {"rates": [(0.5,), (1.0,)], "replicates": 2}
    done = swept(tmp_path, axes=axes)
    assert (done.missing, done.rows) == (1, 18)
    assert done.problems == ("RuntimeError: the toy broke (1 parts)",)
    monkeypatch.delenv("TOY_FAIL")
    assert swept(tmp_path, axes=axes).missing == 0


def test_an_object_store_holds_a_sweep(whole: rc.Sweep, tmp_path: Path) -> None:
    address = f"memory://{tmp_path.name}"
    done = swept(address)
    assert done.place.address.startswith(f"{address}/toy/decay/sweep-")
    assert len(done.place.names()) == 12
    assert rows(done) == rows(whole)
    assert rows(swept(address)) == rows(whole)
    assert rows(swept(f"file://{tmp_path}")) == rows(whole)
    assert Place.of(f"file://{tmp_path}", "a").address == f"{tmp_path}/a"
    with pytest.raises(InputError, match="must be written by it alone; found 2 threads"):
        swept(address, threads=2)
    with pytest.raises(InputError, match="an address that fsspec reads; found nowhere://x"):
        swept("nowhere://x")


def test_any_reader_of_parquet_reads_it(whole: rc.Sweep) -> None:
    folder = Path(whole.place.address)
    one = pq.read_table(folder / whole.files[0])
    assert one.column("replicates").to_pylist()[0] == 2
    filtered = pyarrow.dataset.dataset([str(folder / name) for name in whole.files])
    assert filtered.count_rows(filter=pyarrow.dataset.field("seed") == 1) == whole.rows // 2


def test_memory_does_not_grow_with_the_configurations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten times as many rows in files of the same size: the peak stays within a factor of two."""
    peaks = []
    for count in (5, 50):
        axes = {"seed": range(count), "rates": [(0.5,)], "replicates": [100]}
        tracemalloc.start()
        done = swept(tmp_path / str(count), axes=axes, part=5)
        assert sum(table.rows for table in done.tables()) == count * 900
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 2 * peaks[0]


def test_cells_and_summary_are_those_of_the_rows(whole: rc.Sweep) -> None:
    listed = rows(whole)
    (replicates, rate), medians = whole.cells("mse", "replicates", "rate", where={"seed": 1})
    _, means = whole.cells("mse", "replicates", "rate", where={"seed": 1}, statistic="mean")
    assert (replicates.tolist(), rate.tolist()) == ([2, 3], [0.5, 1.0])
    for i, j in np.ndindex(2, 2):
        keys = {"seed": 1, "replicates": replicates[i], "rate": rate[j]}
        values = [r["mse"] for r in listed if all(r[k] == v for k, v in keys.items())]
        assert medians[i, j] == np.median(values)
        assert means[i, j] == pytest.approx(np.mean(values), rel=1e-14)  # summed in another order
    low, mean, high = whole.summary()["t"]
    assert (low, high) == (1.0, pytest.approx(100.0))
    assert mean == pytest.approx(np.mean([row["t"] for row in listed]), rel=1e-12)
    with pytest.raises(InputError, match=r"column must be .*; found 'tt' \(did you mean t\?\)"):
        whole.cells("tt", "seed")
    with pytest.raises(InputError, match=r"rows with .* must exist; found none"):
        whole.cells("mse", "seed", where={"seed": 7})


VALUES = [
    ("replicates=2,5,10", (2, 5, 10)),
    ("replicates=range(2,10,4)", (2, 6)),
    ("replicates=2,geomspace(4,64,5)", (2, 4, 8, 16, 32, 64)),
    ("replicates=linspace(1,3,9)", (1, 2, 3)),
    ("replicates=range(3,0,-2)", (3, 1)),
    (f"seed=range({2**62},{2**62 + 3})", (2**62, 2**62 + 1, 2**62 + 2)),  # no double has them
    ("claimed=range(0,2)", (0.0, 1.0)),
    ("claimed=geomspace(-4,-1,3)", (-4.0, -2.0, -1.0)),
    ("claimed=linspace(0,1,3)", (0.0, 0.5, 1.0)),
    ("rates=0.5,1;2", ((0.5, 1.0), (2.0,))),
    ("rates=linspace(1,2,2)", ((1.0,), (2.0,))),
    ("noise=gamma,lognormal", ("gamma", "lognormal")),
    ("loud=true", (True,)),
]


@pytest.mark.parametrize(("text", "values"), VALUES, ids=[text for text, _ in VALUES])
def test_values_are_read(decay: rc.Experiment[Any], text: str, values: Any) -> None:
    assert axes_of(decay, [text]) == {text.partition("=")[0]: values}


REFUSED = {
    "replicates": "`--set` must look like key=values; found 'replicates'",
    "replicate=2": "did you mean replicates",
    "replicates=2,2": "`replicates` must have distinct values, at least one; found 2",
    "replicates=x": "`replicates` must be a whole number; found 'x'",
    "claimed=linspace(0,1)": "must have ranges of the form .*; found linspace",
    "claimed=linspace(0,x,3)": r"a number as b of linspace\(a,b,k\); found 'x' in linspace",
    "claimed=linspace(0,1,2.5)": r"a whole number as k of linspace\(a,b,k\); found '2.5' in lin",
    "claimed=linspace(0,1,0)": r"at least one value in linspace\(a,b,k\), k of them; found lin",
    f"claimed=linspace(0,1,{10**20})": "at most 10,000,000 configurations; found 100,000,000,000,",
    "claimed=linspace(0,inf,3)": r"finite ends in linspace\(a,b,k\), less than 1.8e308 apart",
    "claimed=linspace(-1e308,1e308,3)": "finite ends in .*, less than 1.8e308 apart",
    "claimed=geomspace(0,1,3)": r"ends in geomspace\(a,b,k\) that are not zero and of one sign",
    "claimed=geomspace(-1,1,3)": r"ends in geomspace\(a,b,k\) that are not zero and of one sign",
    "seed=range(0,10^20)": r"a whole number as b of range\(a,b\); found '10\^20' in range",
    f"seed=range(0,{10**20})": "at most 10,000,000 configurations; found 100,000,000,000,",
    f"seed=range({10**20},{10**20 + 1})": r"ends in range\(a,b\) below 2\^63; found range\(1000000",
    f"seed=range(0,{'9' * 5_000})": "ranges of at most 400 characters; found range\\(0,9{72}$",
    f"seed={10**20}": r"`seed` of a sweep must be below 2\^63; found 100000000000000000000",
    "seed=range(0,5,0)": r"a step other than 0 in range\(a,b,step\); found range\(0,5,0\)",
    "replicates=range(3,3)": "must have distinct values, at least one; found none",
    "noise=linspace(0,1,3)": "`noise` must be a list of values; found linspace",
    f"seed=range(0,{MOST + 1})": "at most 10,000,000 configurations; found 10,000,001",
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_values_are_refused(decay: rc.Experiment[Any], text: str) -> None:
    with pytest.raises(InputError, match=REFUSED[text]):
        checked(decay, axes_of(decay, [text]))


def test_nothing_to_sweep_and_a_parameter_twice_are_refused(decay: rc.Experiment[Any]) -> None:
    with pytest.raises(InputError, match="a sweep must change a parameter"):
        axes_of(decay, [])
    with pytest.raises(InputError, match="`seed` must be given once"):
        axes_of(decay, ["seed=1", "seed=2"])


def test_a_map_shows_the_cells_and_the_lines(whole: rc.Sweep) -> None:
    figure = phase_map(whole, "rate", "t", "mse", by="replicates", levels=[0.1], against="mse")
    panels = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in panels] == ["replicates = 2", "replicates = 3"]
    mesh = panels[0].collections[0]
    _, medians = whole.cells("mse", "replicates", "rate", "t")
    np.testing.assert_array_equal(np.asarray(mesh.get_array()), medians[0].T)
    assert len(panels[0].collections) == 3  # two lines
    whole_numbers, others = np.array([1.0, 128.0]), np.geomspace(0.003, 0.9, 4)
    assert phase._labels(whole_numbers) == ["1", "128"]
    assert phase._labels(others) == ["0.003", "0.02", "0.13", "0.9"]
    assert phase._labels(np.array([0.101, 0.102])) == ["0.101", "0.102"]
    assert panels[0].get_yscale() == "log"
    assert len(phase_map(whole, "rate", "t", "mse").axes[0].collections) == 1
    with pytest.raises(InputError, match="`method` must be a column of numbers"):
        phase_map(whole, "rate", "method", "mse")


def test_the_command_says_a_screen_and_resumes(
    ratecheck: Callable[..., Any], tmp_path: Path
) -> None:
    given = ("sweep", DECAY, "--set", "replicates=1,2,3", "--set", "rates=0.5;1", "--threads", "1")
    said = ratecheck(*given, "--out", tmp_path, "--map", "rate,t,mse")
    assert said.code == 0
    assert "4 of 6 configurations (3 replicates x 2 rates)" in said.out
    assert "2 refused by the experiment: `replicates` must be at least 2; found 1" in said.out
    assert len(said.out.splitlines()) < 25
    picture = Path(said.out.splitlines()[-1].removeprefix("Map: "))
    assert picture.read_bytes().startswith(b"\x89PNG")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    again = ratecheck(*given, "--out", tmp_path, "--json")
    assert json.loads(again.out)["rows"] == 90
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before
    wrong = ratecheck(*given, "--out", tmp_path, "--map", "rate,t")
    assert (wrong.code, wrong.err) == (
        2,
        "ratecheck: `--map` must be three columns, as x,y,value; found 'rate,t'\n",
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--map", "rate,t,mes"], "column of toy/decay must be one of"),
        (["--map", "rate,t,mse", "--by", "rats"], "found 'rats'"),
        (["--map", "rate,t,mse", "--against", "theory"], "found 'theory'"),
        (["--map", "rate,t,mse", "--where", "seeds=1"], "found 'seeds'"),
        (["--map", "rate,t,mse", "--where", "seed"], "`--where` must look like key=number"),
    ],
)
def test_a_map_that_cannot_be_is_refused_before_the_sweep_ends(
    ratecheck: Callable[..., Any], tmp_path: Path, options: list[str], said: str
) -> None:
    given = ("sweep", DECAY, "--set", "replicates=2,3,4,5", "--threads", "1")
    for _ in range(2):  # what the first one stored tells the second
        refused = ratecheck(*given, "--out", tmp_path, *options)
        assert refused.code == 2
        assert said in refused.err
        assert len(list(tmp_path.rglob("*.parquet"))) <= 1


def test_a_file_that_was_damaged_is_computed_again_and_named_where_it_is_read(
    tmp_path: Path,
) -> None:
    done = swept(tmp_path, part=2)
    wanted = rows(done)
    path = Path(done.place.path(done.files[0]))
    whole = path.read_bytes()
    middle = pq.ParquetFile(path).metadata.row_group(0).column(4)
    at = middle.data_page_offset + middle.total_compressed_size - 3  # in the page's data
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
    with pytest.raises(InputError, match=f"files of a sweep must be whole; found in {tmp_path}"):
        done.summary()
    assert rows(swept(tmp_path, part=2)) == wanted


def test_a_file_whose_columns_have_other_names_is_computed_again(tmp_path: Path) -> None:
    done = swept(tmp_path, part=2)
    wanted = rows(done)
    path = Path(done.place.path(done.files[0]))
    path.write_bytes(path.read_bytes().replace(b"replicate", b"deplicate"))
    assert rows(swept(tmp_path, part=2)) == wanted


ODD = '''"""Columns and mistakes that depend on the configuration."""

from dataclasses import dataclass

import ratecheck as rc


@dataclass(frozen=True, kw_only=True)
class Odd(rc.Config):
    x: float = 0.0


def compute(config, block, context):
    if config.x == 3:
        return {"y": [float("nan")]}
    if config.x == 4:
        raise SystemExit(3)
    if config.x == 5:
        return {"y": ["none"]}
    return {"y": [1 if config.x < 1 else 0.5], **({"more": [1e308]} if config.x > 1 else {})}


EXPERIMENT = rc.Experiment(
    id="mine/odd", title="Odd", source="", kind="figure",
    profiles={"quick": Odd(), "paper": Odd()}, blocks=rc.Grid({"k": (0,)}), compute=compute,
    analyse=lambda config, table: rc.Analysis([], []),
)
'''


def odd(tmp_path: Path, *values: float, part: int = 1) -> rc.Sweep:
    path = tmp_path / "odd.py"
    path.write_text(ODD)
    return rc.sweep(str(path), {"x": list(values)}, tmp_path, threads=1, part=part)


@pytest.mark.parametrize("part", [1, 3, 4])
def test_columns_may_differ_within_a_file_and_from_file_to_file(tmp_path: Path, part: int) -> None:
    done = odd(tmp_path, 0.0, 1.0, 2.0, 2.5, part=part)
    assert (done.missing, done.problems) == (0, ())
    assert done.dataset().to_table().column("y").to_pylist() == [1.0, 0.5, 0.5, 0.5]
    assert done.dataset().to_table().column("more").to_pylist() == [None, None, 1e308, 1e308]
    assert done.summary()["more"] == (1e308, 1e308, 1e308)
    levels, cells = done.cells("more", "k", where={"x": 2.5})
    assert (levels[0].tolist(), cells.tolist()) == ([0], [1e308])


def test_text_and_numbers_in_a_column_cost_their_part_alone(tmp_path: Path) -> None:
    done = odd(tmp_path, 0.0, 5.0, 1.0, 2.0, part=2)
    assert (done.missing, done.rows) == (2, 2)
    (problem,) = done.problems
    assert "must be of numbers or of text in all tables; found" in problem
    with pytest.raises(InputError, match="must be of numbers or of text in all of its files"):
        odd(tmp_path, 0.0, 5.0).dataset()


def test_a_mistake_in_an_experiment_is_no_refusal(tmp_path: Path) -> None:
    done = odd(tmp_path, 0.0, 3.0, 4.0)
    assert (done.refused, done.missing, done.rows) == (0, 2, 1)
    assert "must hold numbers; found NaN" in done.problems[0]
    assert done.problems[1] == "SystemExit: 3 (1 parts)"


def test_a_file_of_another_part_is_not_believed(tmp_path: Path) -> None:
    done = swept(tmp_path, part=2)
    wanted = rows(done)
    one, other = (Path(done.place.path(name)) for name in done.files[:2])
    other.write_bytes(one.read_bytes())
    assert rows(swept(tmp_path, part=2)) == wanted


@pytest.mark.parametrize("out", ["", "file://", "s3://"])
def test_a_folder_has_a_name(out: str) -> None:
    with pytest.raises(InputError, match="output folder must be a path"):
        swept(out)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("n,n,mse", None, [], None, [], False), "must have different axes"),
        (("rate,t,mse", "t", [], None, [], False), "must have different axes"),
        (("rate,t,mse", None, [float("nan")], None, [], False), "must be finite numbers"),
    ],
)
def test_a_map_that_shows_nothing_is_refused(given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Map.of(*given)


@pytest.mark.slow
def test_a_script_without_a_guard_says_so_and_ends(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"import ratecheck as rc\nrc.sweep({DECAY!r}, {{'replicates': [2, 3]}}, 'out', threads=2)\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert 'must call sweep below `if __name__ == "__main__":`' in done.stderr
