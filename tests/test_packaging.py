from __future__ import annotations

import email
import pkgutil
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("linsys", "mgda", "lora_bridge", "ratecheck", "experiments")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
#: What the extras install, by the names under which it is imported.
OPTIONAL = [
    *("cvxpy", "flint", "flwr", "jax", "jinja2", "latex2mathml", "peft", "quadprog"),
    *("safetensors", "sklearn", "tensorboard", "threadpoolctl", "torch", "torchjd", "transformers"),
]


@pytest.fixture(scope="module")
def wheel(wheel_file: Path) -> dict[str, str]:
    """The files of the built wheel by name, those of its metadata without their folder."""
    with zipfile.ZipFile(wheel_file) as archive:
        return {
            re.sub(r"^.*\.dist-info/", "", name): archive.read(name).decode(errors="replace")
            for name in archive.namelist()
        }


def run_without(blocked: list[str], code: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a fresh interpreter that has everything but the ``blocked`` libraries."""
    block = f"""
import sys
from importlib.machinery import PathFinder

class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        top = name.partition(".")[0]
        return None if top in {blocked} else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Without
sys.path.insert(0, {str(ROOT)!r})
"""
    return subprocess.run(
        [sys.executable, "-c", block + code], capture_output=True, text=True, check=False
    )


def test_wheel_holds_the_packages_and_nothing_else(wheel: dict[str, str]) -> None:
    on_disk = [path for name in PACKAGES for path in (ROOT / name).rglob("*.py")]
    assert {name for name in wheel if name.endswith(".py")} == {
        path.relative_to(ROOT).as_posix() for path in on_disk
    }
    assert {name for name in wheel if name.endswith(".j2")} == {
        f"ratecheck/_report/page.{kind}.j2" for kind in ("html", "css", "js")
    }
    assert {name.split("/")[0] for name in wheel if "/" in name} == {*PACKAGES, "licenses"}
    assert {name for name in wheel if name.endswith("py.typed")} == {
        f"{name}/py.typed" for name in PACKAGES
    }


def test_metadata_names_license_and_python(wheel: dict[str, str]) -> None:
    metadata = email.message_from_string(wheel["METADATA"])
    assert metadata["Name"] == "ratecheck"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra") or []) == set(PROJECT["optional-dependencies"])
    required = [r for r in metadata.get_all("Requires-Dist") or [] if "extra ==" not in r]
    assert not [r for r in required if re.match(r"(torch|jax|peft|transformers|flwr)\b", r)]


def test_version_is_the_same_everywhere(wheel: dict[str, str]) -> None:
    version = PROJECT["version"]
    assert email.message_from_string(wheel["METADATA"])["Version"] == version
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert cited.group(1) == version
    released = re.findall(r"^## \[(\d[^]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released[0] == version


def test_command_resolves(wheel: dict[str, str]) -> None:
    target = PROJECT["scripts"]["ratecheck"]
    assert f"ratecheck = {target}" in wheel["entry_points.txt"].splitlines()
    assert callable(pkgutil.resolve_name(target))


def test_pytest_finds_the_plugin(wheel: dict[str, str]) -> None:
    target = PROJECT["entry-points"]["pytest11"]["ratecheck"]
    assert f"ratecheck = {target}" in wheel["entry_points.txt"].splitlines()
    assert callable(pkgutil.resolve_name(f"{target}:pytest_collect_file"))


def test_every_pin_satisfies_what_the_project_asks_for() -> None:
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line and not line.startswith("#")
    )
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    asked = [
        *PROJECT["dependencies"],
        *(
            r
            for extra in ("bench", "certify", "images", "llm", "notebook", "page")
            for r in EXTRAS[extra]
        ),
        *groups["test"],
        *groups["lint"],
    ]
    for requirement in asked:
        name, bound = re.fullmatch(r"([A-Za-z0-9-]+)>=([\d.]+)", requirement).groups()  # type: ignore[union-attr]
        pinned, least = (
            tuple(int(part) for part in re.findall(r"\d+", text)) for text in (pins[name], bound)
        )
        assert pinned >= least, requirement


def test_synthetic_side_needs_no_deep_learning_library() -> None:
    blocked = ["torch", "peft", "transformers", "jax", "flwr"]
    done = run_without(blocked, "import linsys, mgda; print(linsys.__name__, mgda.__name__)")
    assert done.stdout == "linsys mgda\n", done.stderr


def test_synthetic_side_does_not_load_torch_where_it_is_installed() -> None:
    done = run_without([], "import linsys, mgda; print('torch' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


def test_command_line_needs_no_deep_learning_library() -> None:
    done = run_without(["torch", "jax"], "import ratecheck._commands.app; print('ok')")
    assert done.stdout == "ok\n", done.stderr


@pytest.mark.slow
def test_an_audit_and_a_plain_experiment_need_no_extra(tmp_path: Path) -> None:
    code = (
        "from ratecheck._commands.app import app; import ratecheck as rc;"
        "rc.assert_holds('affpcl.d1a');"
        "options = ['--threads', '1', '--out', {out!r}];"
        "app(['list', *options[2:]], standalone_mode=False);"
        "app(['run', {picture!r}, *options], standalone_mode=False)"
    )
    picture = ROOT / "tests" / "ratecheck" / "extra" / "toy" / "figures" / "picture.py"
    done = run_without(OPTIONAL, code.format(out=str(tmp_path), picture=str(picture)))
    assert done.returncode == 0, done.stderr
    assert "affpcl/fig1" in done.stdout
    assert (tmp_path / "figures" / "toy-picture-quick.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "extra", "missing"),
    [
        (["report"], "page", "jinja2, latex2mathml"),
        (["reproduce"], "page", "jinja2, latex2mathml"),
        (["run", "affpcl/fig2", "--threads", "1"], "images", "threadpoolctl"),
        (["certify", "affpcl.d1f_sec12"], "certify", "flint"),
    ],
)
def test_what_needs_an_extra_names_it_in_a_line(
    arguments: list[str], extra: str, missing: str, tmp_path: Path
) -> None:
    command = [*arguments, "--out", str(tmp_path)]
    done = run_without(OPTIONAL, f"from ratecheck._commands.app import main; main({command})")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"ratecheck: extra `{extra}` must be installed; found no {missing}: "
        f"pip install 'ratecheck[{extra}]', or in a clone '.[{extra}]'\n"
    )


def test_a_theorem_beside_a_claim_costs_nobody_the_verdict_who_cannot_prove_it(
    tmp_path: Path,
) -> None:
    text = (ROOT / "docs" / "certificates.md").read_text()
    program = next(one for one in re.findall(r"```python\n(.*?)```", text, re.S) if "gram" in one)
    (tmp_path / "mine.py").write_text(program.replace("print(", "# print("))
    command = ["audit", str(tmp_path / "mine.py"), "--json", "--out", str(tmp_path)]
    done = run_without(OPTIONAL, f"from ratecheck._commands.app import main; main({command})")
    assert (done.returncode, done.stderr) == (0, "")
    assert '"verdict": "holds"' in done.stdout


def test_every_extra_is_asked_for_by_its_name() -> None:
    told = [
        name
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in re.findall(r"check_installed\(\"(\w+)\"|ratecheck\[(\w+)\]", path.read_text())
    ]
    assert {one or other for one, other in told} <= set(EXTRAS)


def test_bridge_without_torch_names_the_install_command() -> None:
    done = run_without(["torch"], "import lora_bridge")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("lora_bridge.NotInstalledError: ")
    assert "pip install 'ratecheck[llm]'" in last


@pytest.mark.slow
def test_bridge_imports_where_torch_is() -> None:
    done = run_without([], "import lora_bridge; print('torch' in sys.modules)")
    assert done.stdout == "True\n", done.stderr
