"""The ``ratecheck`` command: figures, rates, claims and benchmarks of the papers.

Answers go to stdout, everything else to stderr. Exit code 0; 1 when a check fails (one that the
measurement does not decide is no failure); 2 when the arguments or the input are wrong; 130 after
Ctrl-C. Numerical libraries are imported by the commands that need them, so that help comes at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from experiments._job import Job, Outcome
    from experiments._model import Experiment

app = typer.Typer(
    name="ratecheck",
    help="Reproduce the figures of papers, measure their rates and audit what they claim.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _folder(text: str | Path) -> Path:
    if not str(text).strip():  # as a path it would be the current folder
        raise typer.BadParameter(f"must name a folder; found {str(text)!r}")
    return Path(text)


Ids = Annotated[
    list[str], typer.Argument(metavar="ID...", help='Ids, patterns ("affpcl/*") or Python files.')
]
Profile = Annotated[str, typer.Option(metavar="quick|paper", help="Size of the experiment.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Seed of all random numbers.", show_default="the profile's"),
]
Threads = Annotated[
    int | None, typer.Option(help="Cores to use; changes no number.", show_default="all")
]
Out = Annotated[
    Path,
    typer.Option(
        envvar="RATECHECK_OUT",
        help="Folder of results and figures.",
        parser=_folder,
        metavar="PATH",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help='Change a parameter that "show" names; lists: a,b,c.'
    ),
]
Redraw = Annotated[
    bool, typer.Option("--redraw", help="Draw from stored results; compute nothing.")
]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Write no figures.")]
Quick = Annotated[bool, typer.Option("--quick", help="A short run, to see that it works.")]
Variables = Annotated[
    str | None, typer.Option("--in", metavar="t,n,...", help="Only rates in these variables.")
]

RESULTS = Path("results")

#: Base of what is wrong with arguments: click's class or typer's own, depending on the version.
_USAGE_ERROR: Any = typer.BadParameter.__bases__[0]
_INTERRUPTED = "interrupted; the same command resumes"


@app.command("list")
def list_(out: Out = RESULTS, as_json: Json = False) -> None:
    """List figures, rates and sections of claims, and how much the results folder holds."""
    from experiments import _registry, _report
    from experiments._store import Store
    from experiments.audit import _command, _print

    store = Store(out, writable=False)
    found = [_registry.get(name) for name in _registry.names()]
    rows = [_report.listing(experiment, store) for experiment in found]
    sections = _command.sections(out)
    if as_json:
        print(_report.dump([*rows, *sections]))
    else:
        _report.show_listing(rows)
        _print.show_sections(sections)


@app.command()
def show(
    reference: Annotated[str, typer.Argument(metavar="ID", help="Id or Python file.")],
    as_json: Json = False,
) -> None:
    """Say what an experiment claims and which parameters ``run --set`` can change."""
    from experiments import _registry, _report

    experiment = _registry.get(reference)
    if as_json:
        print(_report.dump(_report.description(experiment)))
    else:
        _report.show_description(experiment)


@app.command()
def run(
    ids: Ids,
    profile: Profile = "quick",
    seed: Seed = None,
    threads: Threads = None,
    out: Out = RESULTS,
    as_json: Json = False,
    settings: Settings = None,
    redraw: Redraw = False,
    no_figures: NoFigures = False,
) -> None:
    """Run experiments: table, figure and verdict. What is finished is kept; a rerun resumes."""
    from experiments import _registry, _report

    references = _registry.match(ids)
    overrides = tuple(settings or ())
    job = _job(
        out, profile, threads, seed=seed, overrides=overrides, redraw=redraw, figures=not no_figures
    )
    for reference in references:  # wrong arguments are found before the first computation
        job.prepare(reference)
    outcomes = []
    for reference in references:
        outcomes.append(_perform(job, reference))
        if not as_json:
            _report.show(outcomes[-1])
    if as_json:
        dicts = [outcome.to_dict() for outcome in outcomes]
        print(_report.dump(dicts[0] if references == ids and len(ids) == 1 else dicts))
    _figures_or_error(outcomes)
    _exit(all(outcome.ok for outcome in outcomes))


@app.command()
def rates(
    paper: Annotated[str, typer.Argument(help="Short name of the paper, such as affpcl.")],
    variables: Variables = None,
    profile: Profile = "quick",
    seed: Seed = None,
    threads: Threads = None,
    out: Out = RESULTS,
    as_json: Json = False,
) -> None:
    """Measure the rates of a paper: predicted and measured exponents with intervals."""
    from experiments import _report

    chosen = _rates_of(paper, variables)
    job = _job(out, profile, threads, seed=seed, figures=False)
    outcomes = [_perform(job, experiment.id) for experiment in chosen]
    if as_json:
        checks = [(o.experiment.id, check) for o in outcomes for check in o.analysis.checks]
        print(_report.dump([{"experiment": name, **check.to_dict()} for name, check in checks]))
    else:
        _report.show_rates(outcomes, title=f"Rates of {paper}")
    _exit(all(outcome.ok for outcome in outcomes))


@app.command()
def reproduce(
    profile: Profile = "quick", seed: Seed = None, threads: Threads = None, out: Out = RESULTS
) -> None:
    """Run every figure and every rate, judge every claim, then say what held and where to look."""
    from experiments import _registry, _report
    from experiments._runner import Interrupted
    from experiments.audit import _command

    job = _job(out, profile, threads, seed=seed)
    outcomes: list[Outcome] = []
    failures: dict[str, str] = {}
    for name in _registry.names():
        try:
            outcomes.append(_perform(job, name))
        except Interrupted:
            raise
        except Exception as error:  # one broken experiment must not cost the others
            failures[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            _note(f"{name} did not run: {failures[name]}")
        else:
            _note(f"{name}: {_report.said(outcomes[-1])}")
    _report.show_summary(job.store.root, outcomes, failures)
    results = _command.judge((), out, "quick", seed or 0, job.threads)
    if results:
        _command.show(results, out, tables=False)
    _figures_or_error(outcomes)
    held = all(outcome.ok for outcome in outcomes) and all(result.ok for result in results)
    _exit(held and not failures)


@app.command()
def audit(
    claims: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID...]",
            help='Ids, papers, sections, patterns ("affpcl.d*") or Python files.',
            show_default="every claim",
        ),
    ] = None,
    effort: Annotated[
        str, typer.Option(metavar="quick|normal|hunt", help="How hard to search.")
    ] = "quick",
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    threads: Threads = None,
    limit: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Time that one claim may take.", show_default="the effort's"
        ),
    ] = None,
    out: Out = RESULTS,
    as_json: Json = False,
    list_claims: Annotated[bool, typer.Option("--list", help="List the claims only.")] = False,
    show_claims: Annotated[bool, typer.Option("--show", help="Say all about the claims.")] = False,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Evaluate the instance in a counterexample's file."),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Also write verdicts.json and verdicts.md.", parser=_folder
        ),
    ] = None,
) -> None:
    """Search for counterexamples of claims; what is judged is kept, and a rerun resumes."""
    from experiments.audit import _command

    if replay is not None:
        _exit(_command.replay(replay, claims or (), as_json))
    elif list_claims or show_claims:
        _command.tell(claims or (), out, as_json, in_full=show_claims)
    else:
        workers = _cores() if threads is None else threads
        results = _command.judge(claims or (), out, effort, seed, workers, limit, write)
        _command.show(results, out, as_json)
        _exit(all(result.ok for result in results))


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="Name of a benchmark, such as affpcl.")],
    quick: Quick = False,
    as_json: Json = False,
) -> None:
    """Time our code against the best peers on this machine, in the same run."""
    import importlib

    from experiments import _registry, _report
    from experiments._names import known

    known("benchmark", name, _registry.benchmarks())
    with redirect_stdout(sys.stderr):
        rows = importlib.import_module(f"experiments.benchmarks.{name}").run(quick)
    if as_json:
        print(_report.dump([row.to_dict() for row in rows]))
    else:
        _report.show_bench(rows)
    _exit(all(row.correct for row in rows))


@app.command()
def version() -> None:
    """Print the versions that results are marked with."""
    from experiments._machine import versions

    for name, number in versions().items():
        print(f"{name} {number}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave with its exit code; a user's error is one line on stderr."""
    try:
        code = app(args=arguments, prog_name="ratecheck", standalone_mode=False) or 0
    except _USAGE_ERROR as error:
        message, code = error.format_message(), 2  # empty where the help was the answer
    except typer.Abort:  # Ctrl-C outside a computation, in older versions of typer
        message, code = _INTERRUPTED, 130
    except Exception as error:
        from experiments._runner import Interrupted
        from linsys import InputError

        if not isinstance(error, InputError | Interrupted):
            raise
        message, code = str(error), 2 if isinstance(error, InputError) else 130
    else:
        message = _INTERRUPTED if code == 130 else ""
    if message:
        _note(f"ratecheck: {message}")
    sys.exit(code)


def _job(out: Path, profile: str, threads: int | None, **options: Any) -> Job:
    from experiments._job import Job
    from experiments._store import Store

    return Job(
        profile=profile,
        store=Store(out, writable=not options.get("redraw", False)),
        threads=_cores() if threads is None else threads,
        **options,
    )


def _cores() -> int:
    from experiments._machine import cores

    return cores()


def _perform(job: Job, reference: str) -> Outcome:
    from experiments._report import progress_bar

    # what a computation prints is no part of the answer
    with redirect_stdout(sys.stderr), progress_bar(reference) as progress:
        return job.perform(reference, progress)


def _figures_or_error(outcomes: Sequence[Outcome]) -> None:
    """Say after the answer, which stays valid, that figures could not be written."""
    from linsys import InputError

    for outcome in outcomes:
        if outcome.problem:
            raise InputError(outcome.problem)


def _rates_of(paper: str, variables: str | None) -> list[Experiment[Any]]:
    from experiments import _registry
    from experiments._names import known
    from linsys import InputError

    known("paper", paper, _registry.papers())
    found = [_registry.get(name) for name in _registry.names() if name.startswith(f"{paper}/")]
    chosen = [experiment for experiment in found if experiment.kind == "rate"]
    if not chosen:
        raise InputError(f"paper must have rates; found none for {paper}")
    if variables is None:
        return chosen
    names = sorted({experiment.variable for experiment in chosen})
    wanted = [known("variable of `--in`", part.strip(), names) for part in variables.split(",")]
    return [experiment for experiment in chosen if experiment.variable in wanted]


def _note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _exit(ok: bool) -> None:
    if not ok:
        raise typer.Exit(1)
