"""The revision: whatever may change a stored number changes it, and nothing else does."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import experiments
import ratecheck as rc
from linsys import InputError
from ratecheck._discover import registry
from ratecheck._experiment.seeds import derive
from ratecheck._store import revision

DECAY = Path(__file__).parent / "extra" / "toy" / "rates" / "decay.py"


@pytest.fixture
def edited(sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the sources that the revision looks at, free to be edited."""
    copy = tmp_path / "sources"
    shutil.copytree(sources, copy)
    monkeypatch.setattr(revision, "_HOME", copy)
    revision._our_module_file.cache_clear()
    yield copy
    revision._our_module_file.cache_clear()
    revision._numerical_sources.cache_clear()


def assert_source_changes_the_key(edited: Path, toy: Path) -> None:
    def key() -> str:
        revision._numerical_sources.cache_clear()  # as a new process would
        return revision.revision(registry.find_experiment(str(toy)))

    seen = [key()]
    module = edited / "linsys" / "validate.py"
    module.write_text(module.read_text() + "\n# changed\n")
    seen.append(key())
    (edited / "linsys" / "new.py").write_text("")
    seen.append(key())
    toy.write_text(toy.read_text() + "\n# changed\n")
    seen.append(key())
    assert len(set(seen)) == len(seen)
    (edited / "linsys" / "notes.txt").write_text("no source")
    assert key() == seen[-1]


def test_source_changes_the_key(edited: Path, tmp_path: Path) -> None:
    assert_source_changes_the_key(edited, Path(shutil.copy(DECAY, tmp_path)))


def test_a_key_without_sources_fails_that_test(
    edited: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revision, "_NUMERICAL", ())
    with pytest.raises(AssertionError):
        assert_source_changes_the_key(edited, Path(shutil.copy(DECAY, tmp_path)))


def test_what_the_experiment_imports_counts_and_what_draws_it_does_not() -> None:
    imported = revision._imported([(DECAY, "")])
    assert {"ratecheck._experiment.seeds", "ratecheck._experiment.table"} <= set(imported)
    assert not {
        "ratecheck._experiment.panels",
        "ratecheck._experiment.plots",
        "ratecheck._experiment.ticks",
        "ratecheck._rates.laws",
        "ratecheck._rates.rates",
        "ratecheck._store.store",
    } & set(imported)


def test_where_the_seeds_come_from_counts(decay: rc.Experiment[Any], edited: Path) -> None:
    before = revision.revision(decay)
    seeds = edited / "ratecheck" / "_experiment" / Path(inspect.getfile(derive)).name
    seeds.write_text(seeds.read_text() + "\n# changed\n")
    assert revision.revision(decay) != before


def test_a_module_of_models_changes_the_key_of_what_imports_it_only(edited: Path) -> None:
    fslora, synthetic = (
        registry.find_experiment(name) for name in ("bridge/fslora", "fslora/fig2")
    )
    before = [revision.revision(experiment) for experiment in (fslora, synthetic)]
    bank = edited / "lora_bridge" / "bank.py"
    bank.write_text(bank.read_text() + "\n# changed\n")
    assert revision.revision(fslora) != before[0]
    assert revision.revision(synthetic) == before[1]


@pytest.fixture
def with_helpers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder: an experiment that imports a module, that imports another, and so on."""
    folder = tmp_path / "mine"
    (folder / "pack").mkdir(parents=True)
    (folder / "mine.py").write_text(
        DECAY.read_text().replace(
            "import numpy as np", "import numpy as np\nimport rc_helper\nfrom pack import inner"
        )
        + "\nimport experiments.own\n"
    )
    (folder / "experiments").mkdir()
    (folder / "experiments" / "own.py").write_text("")
    (folder / "rc_helper.py").write_text("def f():\n    import rc_deep\n")
    (folder / "rc_deep.py").write_text("import rc_helper\n")  # a circle
    (folder / "pack" / "__init__.py").write_text("")
    (folder / "pack" / "inner.py").write_text("from . import beside\n")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "rc_far.py").write_text("")
    (folder / "pack" / "beside.py").write_text("import rc_far\n")
    monkeypatch.syspath_prepend(folder)
    monkeypatch.syspath_prepend(elsewhere)
    yield tmp_path
    for name in ("mine", "rc_helper", "rc_deep", "rc_far", "pack", "pack.inner", "pack.beside"):
        sys.modules.pop(name, None)


HELPERS = (
    *("mine/rc_helper.py", "mine/rc_deep.py", "elsewhere/rc_far.py"),
    "mine/experiments/own.py",  # a package called as one of ours
    *("mine/pack/__init__.py", "mine/pack/inner.py", "mine/pack/beside.py"),
)


def assert_helpers_change_the_key(root: Path) -> None:
    experiment = registry.find_experiment(str(root / "mine" / "mine.py"))
    seen = [revision.revision(experiment)]
    for name in HELPERS:
        path = root / name
        path.write_text(path.read_text() + "# changed\n")
        seen.append(revision.revision(experiment))
    assert len(set(seen)) == len(seen)


def test_a_user_s_own_modules_change_the_key(with_helpers: Path) -> None:
    assert_helpers_change_the_key(with_helpers)


def test_without_following_imports_that_test_fails(
    with_helpers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mentioned = revision._imported_names
    own = (with_helpers / "mine" / "mine.py").read_bytes()

    def of_the_experiment_alone(source: bytes, package: str) -> frozenset[str]:
        return mentioned(source, package) if source == own else frozenset()

    monkeypatch.setattr(revision, "_imported_names", of_the_experiment_alone)
    with pytest.raises(AssertionError):
        assert_helpers_change_the_key(with_helpers)


def test_what_the_user_s_package_lacks_and_ours_has_changes_the_key(
    with_helpers: Path, edited: Path
) -> None:
    mine = with_helpers / "mine" / "mine.py"
    mine.write_text(mine.read_text() + "import experiments.firm.theory.chain\n")
    experiment = registry.find_experiment(str(mine))
    seen = [revision.revision(experiment)]
    for name in ("firm/theory/chain.py", "firm/__init__.py", "fslora/__init__.py"):
        path = edited / "experiments" / name
        path.write_text(path.read_text() + "# changed\n")
        seen.append(revision.revision(experiment))
    assert len(set(seen[:3])) == 3
    assert seen[3] == seen[2]  # it imports nothing of FSLoRA


def test_where_modules_are_found_does_not_change_the_key(edited: Path) -> None:
    experiment = registry.find_experiment("bridge/fslora")
    before = revision.revision(experiment)
    for name in ("_fallback.py", "_user_modules.py"):
        path = edited / "ratecheck" / name
        path.write_text(path.read_text() + "# changed\n")
    assert revision.revision(experiment) == before


def pollute(folder: Path, names: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a folder with a module of each name first on the path, and load them from there."""
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    for name in names:
        top, _, rest = name.partition(".")
        path = folder / top / f"{rest}.py" if rest else folder / f"{top}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("VALUE = 1\n")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        monkeypatch.setitem(sys.modules, name, module)


def test_what_is_loaded_or_on_the_path_by_chance_does_not_change_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = registry.find_experiment("bridge/fslora")
    before = revision.revision(experiment)
    pollute(tmp_path / "chance", ("torch", "transformers", "threadpoolctl"), monkeypatch)
    for name in ("ratecheck._experiment.seeds.derive", "lora_bridge.bank.Bank", "lora_bridge"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(experiments, "__path__", [str(DECAY.parents[2])])
    assert revision.revision(experiment) == before


def test_nor_does_it_change_the_key_of_a_user_s_file(
    with_helpers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = registry.find_experiment(str(with_helpers / "mine" / "mine.py"))
    before = revision.revision(experiment)
    chance = tmp_path / "chance"
    chance.mkdir()
    for name in ("rc_helper.py", "rc_deep.py", "pack.py"):  # beside the user's file, so found there
        (chance / name).write_text("")
    monkeypatch.syspath_prepend(chance)
    for name in ("rc_helper.f", "rc_deep", "numpy.random"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert revision.revision(experiment) == before


def test_another_file_s_module_of_the_same_name_is_refused(
    with_helpers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_path = registry.find_experiment(str(with_helpers / "mine" / "mine.py"))
    before = revision.revision(by_path)
    monkeypatch.setitem(sys.modules, "experiments.own", ModuleType("experiments.own"))
    experiment = importlib.import_module("mine").EXPERIMENT
    pollute(tmp_path / "chance", ("rc_deep",), monkeypatch)
    assert revision.revision(by_path) == before  # it has modules of its own
    with pytest.raises(InputError) as raised:
        revision.revision(experiment)
    own, other = with_helpers / "mine" / "rc_deep.py", tmp_path / "chance" / "rc_deep.py"
    said = f"module rc_deep must be the one in {own}; found {other} loaded under this name: "
    assert str(raised.value).startswith(said)


def test_packages_without_an_init_file_count(tmp_path: Path) -> None:
    inner = tmp_path / "lab" / "tools"
    inner.mkdir(parents=True)
    (inner / "fit.py").write_text("")
    mine = tmp_path / "mine.py"
    mine.write_text("from lab.tools import fit\n")
    assert revision._imported([(mine, "")]) == {"lab.tools.fit": inner / "fit.py"}


def test_installed_modules_do_not_count(with_helpers: Path) -> None:
    experiment = registry.find_experiment(str(with_helpers / "mine" / "mine.py"))
    imported = set(revision._imported(revision._roots(experiment)))
    assert not {name for name in imported if name.partition(".")[0] in ("numpy", "os", "linsys")}
    installed = with_helpers / "mine" / "venv" / "site-packages"
    assert not revision._is_users(installed / "x.py", [with_helpers / "mine"])


def test_the_file_of_the_configuration_counts_where_compute_is_another_s(
    with_helpers: Path,
) -> None:
    mine = with_helpers / "mine" / "mine.py"
    (with_helpers / "mine" / "rc_helper.py").write_text(
        "from ratecheck._experiment.table import long_table\n"
        "def compute(config, block, context):\n    return long_table({'t': [1]}, mse=[1.0])\n"
    )
    source = mine.read_text().replace("compute=compute", "compute=rc_helper.compute")
    seen = set()
    for note in ("", "# changed\n"):
        mine.write_text(source + note)
        seen.add(revision.revision(registry.find_experiment(str(mine))))
    assert len(seen) == 2


def test_functions_without_a_file_are_named(decay: rc.Experiment[Any]) -> None:
    scope: dict[str, Any] = {}
    exec("def compute(config, block, context): ...", scope)
    with pytest.raises(InputError, match="functions of toy/decay must be defined in a file"):
        revision.revision(dataclasses.replace(decay, compute=scope["compute"]))


CLAIMS = """
import numpy as np
from mine.theory import factor

@PAPER.upper("lemma", ref="Lemma 1", note="none", on=SPACE, uses=["other"])
def lemma(x):
    'It is small.'
    return factor * x, 2  # a comment
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("It is small.", "It is not large.", True),
        ('note="none"', 'note="where it breaks"', True),
        ("# a comment", "# another", True),
        ("'It is small.'", '"It is small."', True),
        (', note="none"', "", True),
        ('["other"]', '["another"]', True),  # the counterexamples that are tried count beside this
        ("* x, 2", "* x, 3", False),
        ("lemma(x)", "lemma(y)", False),
    ],
)
def test_only_what_is_computed_counts_for_a_claim(
    old: str, new: str, same: bool, tmp_path: Path
) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text(CLAIMS)
    second.write_text(CLAIMS.replace(old, new, 1))
    one, other = (revision.revision_of_meaning(path, "") for path in (first, second))
    assert (one == other) is same


def test_what_a_claim_imports_of_ours_counts_file_by_file(tmp_path: Path) -> None:
    path = Path(experiments.__path__[0], "fslora", "claims", "theorem.py")
    files = revision._imported([(path, "experiments.fslora.claims")], ("experiments", "linsys"))
    assert "linsys.linalg" in files
    assert not any(name.startswith("linsys.bilevel") for name in files)
