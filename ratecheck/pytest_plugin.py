"""pytest: the claims of collected modules are tests by themselves.

``pytest claims/`` makes one test of every claim that these files make. Only files are imported that
make claims, as others may be programs: one that is given by its own path; of folders that are
given, or of ``testpaths``, those whose text makes a claim; those that the table
``[tool.ratecheck]`` of the project names; and the test files that pytest imports anyway.
``pytest --ratecheck claims/`` imports all files that are given, also where a helper makes the
claims. Without a path and a table, ``pytest --ratecheck`` takes those that mention ratecheck, and
with a table what it names also where ``testpaths`` does not. Two claims of one id are an error. A
file imports what it imports in the command: what lies beside it, in its project or in the current
folder. With

    [tool.pytest.ini_options]
    ratecheck_claims = ["*/claims/*.py"]

in ``pyproject.toml`` these files are collected, and without the option no others. A test is named
after its claim, so that ``-k`` and ``--deselect`` choose among them; it fails where the verdict is
not the one that the claim expects, or where the claim breaks any other rule of
:mod:`ratecheck._conformance.claims`. Claims whose search takes long carry the marker ``slow`` where
their ids match a pattern of

    ratecheck_slow = ["mine.theorem_*"]

A claim that passed is not judged again until something changes that its verdict depends on: its
file and what that imports, ratecheck, the options. ``--cache-clear`` forgets all of them.

Where no file makes claims, nothing but this file is imported; where some were passed over, a line
of the summary says so.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ratecheck._user_modules import put_on_path, search_folders

if TYPE_CHECKING:
    from ratecheck._claims.claim import Entry
    from ratecheck._conformance.claims import Known

#: Claims that are tests already, by id, and where they are: a module may hold those of others.
_SEEN = pytest.StashKey[dict[str, "tuple[Entry, str]"]]()
#: What says where to look, "paths", "testpaths" or "nothing", and which files the project names
#: that are of no installed paper; None without a table.
_ASKED = pytest.StashKey[tuple[str, list[str] | None]]()
#: Files with claims that nothing asks for.
_PASSED_OVER = pytest.StashKey[set[Path]]()
#: Files that mention ratecheck and whose text makes no claim.
_NOT_IMPORTED = pytest.StashKey[set[Path]]()
#: How the text of a file makes a claim: by what nothing else is called, or by what many things are
#: called, together with what a decorator of a paper cannot do without.
_MAKES_CLAIMS = re.compile(
    rb"\b(changed|claim|Claim|RateClaim|StatisticalClaim|NotChecked)\s*\("
    rb"|\breplace\s*\([^()]*\bid\s*="
)
_MAY_DECORATE = re.compile(
    rb"\.\s*(count|distributional|identity|lower|qualitative|rate|statement|statistical|upper)\b"
)
_PLACE = re.compile(rb"\bref\b|\*\*[A-Za-z_]\w*\s*[,)]")
#: What a file imports: the module, and of "from" the names.
_IMPORTS = re.compile(
    rb"^[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n]*)|import[ \t]+([^\n]*))",
    re.MULTILINE,
)
#: A paper's folders whose files make no claims.
_OTHER_PARTS = {"bridge", "figures", "rates"}
#: So many files are named in a line.
_LISTED = 3
#: CPU seconds of compilation after which a terminal is told why nothing happens.
_LONG = 1.0
#: What the report of a claim says that was not judged again.
_UNCHANGED = ("ratecheck", "unchanged")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("ratecheck", "claims as tests")
    group.addoption(
        "--ratecheck",
        action="store_true",
        help="import all files that are given, or that the project names, for their claims",
    )
    group.addoption("--ratecheck-effort", metavar="EFFORT", help="quick (default), normal or hunt")
    group.addoption("--ratecheck-seed", metavar="N", help="of all searches; 0 by default")
    group.addoption("--ratecheck-limit", metavar="S", help="CPU seconds for a claim's search")
    parser.addini("ratecheck_claims", "patterns of files whose claims are tests", "args")
    parser.addini("ratecheck_slow", "patterns of ids whose tests carry the marker slow", "args")
    parser.addini("ratecheck_effort", "as --ratecheck-effort", default="quick")
    parser.addini("ratecheck_seed", "as --ratecheck-seed", default="0")
    parser.addini("ratecheck_limit", "as --ratecheck-limit", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of what takes long, and find out whose claims are asked for."""
    config.addinivalue_line("markers", "slow: takes long, of ratecheck's claims and experiments")
    _check_options(config)
    if (told := getattr(config, "workerinput", None)) is not None:  # a process of xdist
        config.stash[_ASKED] = told["ratecheck"]
        return
    sources = config.ArgsSource
    where = {sources.ARGS: "paths", sources.TESTPATHS: "testpaths"}
    named = _named_by_the_project()
    config.stash[_ASKED] = where.get(config.args_source, "nothing"), named
    if config.getoption("ratecheck") and config.args_source == sources.TESTPATHS:
        places = [Path(place).resolve() for place in config.args]
        config.args += [
            path for path in named or () if not any(map(Path(path).is_relative_to, places))
        ]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of xdist, whose paths are always given, whose claims are asked for."""
    node.workerinput["ratecheck"] = node.config.stash[_ASKED]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of xdist passed over, as all of them collect the same files."""
    told = getattr(node, "workeroutput", {}).get("ratecheck", ((), ()))
    for key, paths in zip((_PASSED_OVER, _NOT_IMPORTED), told, strict=True):
        node.config.stash.setdefault(key, set()).update(map(Path, paths))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a process of xdist, tell the one that started it which files were passed over."""
    if (told := getattr(session.config, "workeroutput", None)) is not None:
        told["ratecheck"] = [
            [str(path) for path in session.config.stash.get(key, ())]
            for key in (_PASSED_OVER, _NOT_IMPORTED)
        ]


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take the Python files that were asked for; a private module has no claims of its own."""
    name = file_path.name
    is_private = name.startswith("_") and not parent.session.isinitpath(file_path)
    if file_path.suffix != ".py" or is_private or name in ("__init__.py", "conftest.py"):
        return None
    if _is_asked_for(file_path, parent.session):
        put_on_path(file_path.resolve().parent)
        return ClaimsFile.from_parent(parent, path=file_path)
    return None


def _is_asked_for(path: Path, session: pytest.Session) -> bool:
    """Whether the claims of a file are tests; remembered where it has some and they are not."""
    config = session.config
    where, named = config.stash[_ASKED]
    if patterns := config.getini("ratecheck_claims"):
        if any(map(path.match, patterns)):
            return True
        if not config.getoption("ratecheck"):
            return False
    is_of_project = str(path.resolve()) in (named or ())
    is_named = is_of_project and path.parent.name not in _OTHER_PARTS
    if session.isinitpath(path):  # pytest imports it, whatever it says
        return True
    if config.getoption("ratecheck"):
        if where == "paths":
            return True
        return is_named if named else b"ratecheck" in path.read_bytes()
    if is_of_project:
        return is_named
    is_imported = any(map(path.match, config.getini("python_files")))  # by pytest anyway
    is_given = where == "paths" or (where == "testpaths" and not named)
    if not _makes_claims(path):
        is_unknown = is_given and not is_imported and named is None
        if is_unknown and b"ratecheck" in path.read_bytes():
            config.stash.setdefault(_NOT_IMPORTED, set()).add(path)
        return False
    if is_given or is_imported:
        return True
    config.stash.setdefault(_PASSED_OVER, set()).add(path)
    return False


def _makes_claims(path: Path) -> bool:
    """Whether the text of a file makes claims, of ratecheck's or of a neighbour's."""
    text = path.read_bytes()
    if not (_MAKES_CLAIMS.search(text) or (_MAY_DECORATE.search(text) and _PLACE.search(text))):
        return False
    return b"ratecheck" in text or _knows_ratecheck(path.resolve(), set())


def _knows_ratecheck(path: Path, seen: set[Path]) -> bool:
    """Whether a file mentions ratecheck, or imports one of the user's that does."""
    seen.add(path)
    text = path.read_bytes()
    if b"ratecheck" in text:
        return True
    return any(
        _knows_ratecheck(other, seen) for other in _imported_by(path, text) if other not in seen
    )


def _imported_by(path: Path, text: bytes) -> Iterator[Path]:
    """The user's files that a file may import, by what its text says."""
    for match in _IMPORTS.finditer(text):
        origin, members, modules = (
            part.decode(errors="replace") if part else "" for part in match.groups()
        )
        if modules:
            names = [part.split()[0] for part in modules.split(",") if part.split()]
            folders = search_folders(path.parent)
        else:
            inner = origin.lstrip(".")
            level = len(origin) - len(inner)
            names = [inner, *(f"{inner}.{one}".strip(".") for one in re.findall(r"\w+", members))]
            folders = [*path.parents][level - 1 : level] if level else search_folders(path.parent)
        for folder, name in product(folders, names):
            place = folder.joinpath(*name.split("."))
            files = (place.with_name(f"{place.name}.py"), place / "__init__.py")
            yield from (file.resolve() for file in files if name and file.is_file())


def _named_by_the_project() -> list[str] | None:
    """The files that the table of the current project names, None without a table."""
    from ratecheck._discover.table import find_table

    if find_table(lambda fault: None) is None:  # which imports nothing
        return None
    from linsys.validate import InputError
    from ratecheck._discover import project

    try:
        return [str(path.resolve()) for path in project.files(project.raise_fault)]
    except InputError as error:
        raise pytest.UsageError(str(error)) from None


class ClaimsFile(pytest.Module):
    """A Python file whose claims are tests."""

    def collect(self) -> Iterator[ClaimItem]:
        """One test for every claim that no other file had before."""
        try:
            module = self.obj
        except (pytest.Collector.CollectError, pytest.skip.Exception):
            if self._is_tests():  # which say so
                return
            raise
        if "ratecheck._claims.claim" not in sys.modules:  # so it makes none
            return
        from linsys.validate import InputError
        from ratecheck._claims.claim import claims_of
        from ratecheck._conformance.claims import kept_ratios
        from ratecheck._discover import project

        is_ours = project.is_installed(self.path)
        known = kept_ratios(_results_beside(self.path))
        seen = self.session.stash.setdefault(_SEEN, {})
        try:
            claims = claims_of(module)
        except InputError as error:
            raise self.CollectError(str(error)) from None
        for claim in claims:
            if not self._imports(claim) and self._is_new(claim, seen):
                if not is_ours:
                    self._check_id(claim)
                yield ClaimItem.from_parent(
                    self, name=claim.id, entry=claim, known=known.get(claim.id)
                )

    def _is_new(self, claim: Entry, seen: dict[str, tuple[Entry, str]]) -> bool:
        """Whether no file had a claim before; another one of its id is refused."""
        from ratecheck._claims.claim import place_of, two_of_one_id
        from ratecheck._claims.made import file_of

        function = getattr(claim, "function", None) or getattr(claim, "regimes", None)
        made = file_of(claim, function) or str(self.path)
        place = place_of(claim, made)
        if not place.startswith(f"{made}:"):  # the function is another file's
            place = made
        if claim.id not in seen:
            seen[claim.id] = claim, place
            return True
        other, before = seen[claim.id]
        if other is not claim and place != before:  # not of one file, read by two names
            raise self.CollectError(str(two_of_one_id(claim.id, before, place)))
        return False

    def _is_tests(self) -> bool:
        """Whether pytest imports the file for its tests as well."""
        patterns = self.config.getini("python_files")
        return self.session.isinitpath(self.path) or any(map(self.path.match, patterns))

    def _check_id(self, claim: Entry) -> None:
        """Refuse a claim of a user's that is called as those of an installed paper."""
        from linsys.validate import InputError
        from ratecheck._discover import papers

        try:
            papers.check_free(claim.paper, f"claim {claim.id} in {self.path}")
        except InputError as error:
            raise self.CollectError(str(error)) from None

    def _imports(self, claim: Any) -> bool:
        """Whether a claim belongs to the module of its function, and is only imported here."""
        home = sys.modules.get(getattr(getattr(claim, "function", None), "__module__", ""))
        if home is None or home is self.obj:
            return False
        return any(value is claim for value in vars(home).values())


def _results_beside(path: Path) -> Path:
    """The results of a paper, beside the folder of this file, which may be the root."""
    return path.parent.parent / "results"


class ClaimItem(pytest.Item):
    """A claim as a test."""

    def __init__(self, *, entry: Entry, known: Known | None, **options: Any) -> None:
        super().__init__(**options)
        self.entry, self.known = entry, known
        if any(fnmatchcase(self.name, pattern) for pattern in self.config.getini("ratecheck_slow")):
            self.add_marker("slow")

    def runtest(self) -> None:
        """Judge the claim, if it did not pass as it is before."""
        from ratecheck._conformance.claims import check_claim
        from ratecheck._conformance.passed import Passed

        module: Any = self.parent
        options, others = _options(self.config), _others(self)
        passed = None
        if (cache := getattr(self.config, "cache", None)) is not None:  # -p no:cacheprovider
            folder = cache.mkdir("ratecheck")
            passed = Passed(folder, self.entry, module.obj, options, others, self.known)
            if passed.is_known():
                self.user_properties.append(_UNCHANGED)
                return
        with _compilation_told(self.config):
            check_claim(self.entry, options, others=others, known=self.known)
        if passed is not None:
            passed.remember()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show the claim and its instance in place of our source code."""
        from linsys.validate import InputError
        from ratecheck._claims.space import Fault

        if isinstance(excinfo.value, AssertionError):
            from ratecheck._verdicts.verdict import with_option

            return with_option(str(excinfo.value), "--ratecheck-limit")
        if isinstance(excinfo.value, Fault | InputError):
            return f"{self.name} cannot be checked: {' '.join(str(excinfo.value).split())}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name the claim, as no function of the module."""
        return self.path, None, f"claim {self.name}"


@contextmanager
def _compilation_told(config: pytest.Config) -> Iterator[None]:
    """In the block, say on a terminal that functions are compiled, once that lasts."""
    from ratecheck._processes import compilation

    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not reporter.isatty:
        yield
        return

    def say() -> None:
        capture: Any = config.pluginmanager.get_plugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else nullcontext():
            reporter.write("(compiling, the first time) ", flush=True)

    listener = _Compiling(say)
    compilation.listen(listener, imports=False)
    try:
        yield
    finally:
        compilation.stop_listening(listener)


class _Compiling:
    """Calls a function when something begins to be compiled and others have taken a while."""

    def __init__(self, say: Callable[[], None]) -> None:
        self._say: Callable[[], None] | None = say
        self._depth, self._since, self._took = 0, 0.0, 0.0

    def begins(self) -> None:
        """Something is compiled, maybe within another."""
        now = time.process_time()
        self._since = self._since if self._depth else now
        self._depth += 1
        if self._say is not None and self._took + now - self._since > _LONG:
            self._say()
            self._say = None

    def ends(self) -> None:
        """The last one is over."""
        self._depth -= 1
        if not self._depth:
            self._took += time.process_time() - self._since


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how many claims were not judged again, and how to have those judged that are no tests."""
    passed = terminalreporter.stats.get("passed", ())
    said = [getattr(report, "user_properties", ()) for report in passed]
    # a pair that another process sends is a list
    unchanged = sum(any(tuple(one) == _UNCHANGED for one in told) for told in said)
    if unchanged:
        what = "1 claim has" if unchanged == 1 else f"{unchanged} claims have"
        terminalreporter.write_line(f"{what} not changed since the last pass (--cache-clear)")
    if passed_over := config.stash.get(_PASSED_OVER, ()):
        terminalreporter.write_line(
            f"not judged: claims of {_counted(passed_over, config)}; give pytest the path, or name "
            "it in `files` of [tool.ratecheck] in pyproject.toml"
        )
    if unseen := config.stash.get(_NOT_IMPORTED, ()):
        terminalreporter.write_line(
            f"not imported: {_counted(unseen, config)}, whose text mentions ratecheck and makes no "
            "claim; give pytest the path, or --ratecheck"
        )


def _counted(paths: Collection[Path], config: pytest.Config) -> str:
    """How many files, and the first of them: "3 files (a.py, b.py, ...)"."""
    shown = sorted(os.path.relpath(path, config.invocation_params.dir) for path in paths)
    named = ", ".join(shown[:_LISTED]) + ", ..." * (len(shown) > _LISTED)
    return f"{len(shown)} file{'s' * (len(shown) > 1)} ({named})"


def _check_options(config: pytest.Config) -> None:
    """Refuse what no search can be started with."""
    where, effort = _chosen(config, "effort")
    if effort != "quick":  # the default, for which nothing has to be imported
        from ratecheck._search.search import EFFORTS

        if effort not in EFFORTS:
            known = ", ".join(EFFORTS)
            raise pytest.UsageError(f"`{where}` must be one of {known}; found {effort!r}")
    where, seed = _chosen(config, "seed")
    if not re.fullmatch(r"\d+", seed):
        raise pytest.UsageError(f"`{where}` must be a whole number of at least 0; found {seed!r}")
    where, limit = _chosen(config, "limit")
    if limit:
        try:
            positive = 0 < float(limit) < float("inf")
        except ValueError:
            positive = False
        if not positive:
            raise pytest.UsageError(
                f"`{where}` must be a positive number of seconds; found {limit!r}"
            )


def _chosen(config: pytest.Config, name: str) -> tuple[str, str]:
    """An option or, without it, the line of the configuration: what it is called and its text."""
    value = config.getoption(f"ratecheck_{name}")
    if value is not None:
        return f"--ratecheck-{name}", value
    return f"ratecheck_{name}", str(config.getini(f"ratecheck_{name}"))


def _options(config: pytest.Config) -> Any:
    from ratecheck._conformance.claims import Options

    effort, seed, limit = (_chosen(config, name)[1] for name in ("effort", "seed", "limit"))
    return Options(effort, int(seed), float(limit) if limit else None)


def _others(item: ClaimItem) -> dict[str, Entry]:
    """The claims that its test looks at: of its own module, and of its paper if that is known."""
    from ratecheck._claims.claim import claims_of
    from ratecheck._discover.catalogue import catalogue

    if not item.entry.uses and not item.entry.corrected:
        return {}
    paper = catalogue(item.entry.paper, broken=lambda fault: None)
    module: Any = item.parent
    own = {claim.id: claim for claim in claims_of(module.obj)}
    return {other.id: other.entry for other in paper} | own
