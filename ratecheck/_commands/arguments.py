"""Arguments and options of the ``ratecheck`` commands, without any numerical library."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from ratecheck._discover.table import results
from ratecheck._store import RESULTS

#: The model of the profile for it, where none is given.
LAPTOP_MODEL = "smollm2"


def folder(text: str | Path) -> Path:
    """The path of a folder that is named."""
    if not str(text).strip():  # as a path it would be the current folder
        raise typer.BadParameter(f"must name a folder; found {str(text)!r}")
    return Path(text)


def _in_project(
    context: typer.Context, option: typer.CallbackParam, value: Path | str
) -> Path | str:
    """A folder as the user gives it; one that is not given is in the root of the project."""
    source = context.get_parameter_source(option.name or "")
    if source is None or source.name != "DEFAULT":  # click's or typer's own enumeration
        return value
    return type(value)(results() / Path(value).relative_to(RESULTS))


def _positive(limit: float | None) -> float | None:
    """A limit of seconds, which only endless or no time cannot be."""
    if limit is not None and not 0 < limit < math.inf:
        from linsys.validate import InputError

        raise InputError(f"`limit` must be a positive number of seconds; found {limit}")
    return limit


def report_file(places: Sequence[str] = ()) -> str:
    """The file of the page on these papers, files and folders, in the folder of the results.

    >>> report_file(), report_file(["affpcl", "notes/lemma.py"])
    ('report.html', 'report-affpcl-notes-lemma.html')
    """
    return f"{'-'.join(['report', *map(_in_words, places)])}.html"


def _in_words(place: str) -> str:
    """A path from the current folder in one word, by its last part if it is not below that."""
    path, here = Path(place).resolve(), Path.cwd().resolve()
    inside = path.relative_to(here).parts if path.is_relative_to(here) else ()
    return "-".join(inside or [path.name]).removesuffix(".py")


def examples(*lines: str) -> str:
    """Lines of commands as the end of a help text, each on a line of its own."""
    return "\n\n".join(["Examples:", *(f"ratecheck {line}" for line in lines)])


def _completed(what: str) -> Callable[[str], list[str]]:
    """What a shell completes; what finds it is imported when a shell asks, and not for the help."""

    def complete(incomplete: str) -> list[str]:
        from ratecheck._commands import completion

        found: list[str] = getattr(completion, what)(incomplete)
        return found

    return complete


Id = Annotated[
    list[str],
    typer.Argument(
        metavar="ID",
        help='Id, Python file, or a figure as the paper calls it ("fslora Figure 5").',
        autocompletion=_completed("experiments"),
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[TEXT]",
        help='What the paper calls it, such as "Lemma D.1"; a paper before it, or alone.',
        show_default="everything",
    ),
]
OnModel = Annotated[
    str,
    typer.Argument(
        help="Name of an experiment on models, such as affpcl.",
        autocompletion=_completed("bridges"),
    ),
]
PaperName = Annotated[
    str | None,
    typer.Argument(
        help="Short name of the paper, such as affpcl, or a folder or file.",
        show_default="your project",
        autocompletion=_completed("papers_of"),
    ),
]
Places = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[PAPER...]",
        help="Short names of papers, or files and folders of your own, to show alone.",
        show_default="all papers, and the project's",
        autocompletion=_completed("papers_of"),
    ),
]
Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...",
        help='Ids, patterns ("affpcl/*"), figures ("fslora Figure 5"), files or folders.',
        autocompletion=_completed("experiments"),
    ),
]
Profile = Annotated[str, typer.Option(metavar="quick|paper", help="Size of the experiment.")]
ModelProfile = Annotated[
    str,
    typer.Option(
        metavar="quick|laptop|paper",
        help="Size: for the built-in model; for one of 10^8 weights without a card (smollm2, "
        "unless --model names another); for a large one, by --model, on a card.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(help="Seed of all random numbers.", show_default="the profile's"),
]
Threads = Annotated[
    int | None, typer.Option(help="Cores to use; changes no number.", show_default="all")
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        envvar="RATECHECK_SCHEDULER",
        metavar="tcp://HOST:PORT|local",
        help="Compute on a Dask cluster, of this scheduler or of this machine.",
        show_default="processes of this machine",
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        envvar="RATECHECK_OUT",
        help="Folder of results and figures.",
        parser=folder,
        callback=_in_project,
        metavar="PATH",
        show_default="results, in the root of the project",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help='Change a parameter that "show" names; lists: a,b,c.'
    ),
]
Swept = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUES",
        help="Values of a parameter: 2,5,10 or linspace(0,1,11), geomspace(1,100,5), range(0,20); "
        "of a list with semicolons: 0,0.1;0,0.5.",
    ),
]
Part = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Configurations of one file, which are computed by one process.",
        show_default="so many that there are a thousand files",
    ),
]
Map = Annotated[
    str | None,
    typer.Option("--map", metavar="X,Y,VALUE", help="Draw the median of a column over two others."),
]
By = Annotated[str | None, typer.Option(help="With --map: a column with a panel for each value.")]
Levels = Annotated[
    list[float] | None, typer.Option("--level", help="With --map: draw the line of this value.")
]
Mean = Annotated[bool, typer.Option("--mean", help="With --map: the mean, not the median.")]
Against = Annotated[
    str | None, typer.Option(help="With --map: a column whose lines at the levels are dashed.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=NUMBER", help="With --map: only rows with this value of a column."),
]
SweepOut = Annotated[
    str,
    typer.Option(
        "--out",
        envvar="RATECHECK_OUT",
        callback=_in_project,
        metavar="PATH",
        show_default="results, in the root of the project",
        help="Folder of results, or an address that fsspec knows, such as s3://bucket/results.",
    ),
]
Redraw = Annotated[
    bool, typer.Option("--redraw", help="Draw from stored results; compute nothing.")
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print every row, not the summary alone."),
]
NoFigures = Annotated[bool, typer.Option("--no-figures", help="Write no figures.")]
Quick = Annotated[bool, typer.Option("--quick", help="A short run, to see that it works.")]
Variables = Annotated[
    str | None, typer.Option("--in", metavar="t,n,...", help="Only rates in these variables.")
]
File = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="The page.", show_default="OUT/report.html, or OUT/report-PAPER.html"
    ),
]
Open = Annotated[bool, typer.Option("--open", help="Show the page in the browser.")]
_MODELS = "A folder, a GGUF file, a name of `ratecheck model`, or hub:NAME to download one."
_SMALL = "a small one, made here"
Model = Annotated[Path | None, typer.Option(metavar="MODEL", help=_MODELS, show_default=_SMALL)]
ModelOfRun = Annotated[
    Path | None,
    typer.Option(
        metavar="MODEL", help=_MODELS, show_default=f"{_SMALL}; smollm2 with --profile laptop"
    ),
]
Data = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Your texts.", show_default="generated ones")
]
Adapter = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="A PEFT adapter.", show_default="none")
]
PlanOnly = Annotated[
    bool,
    typer.Option(
        "--plan",
        help="Say what it will take, from two rounds of the runs of blocks tried for a minute; "
        "stop.",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help='Fewer rounds or draws, so that it takes about so long, planning included: "20m".',
        show_default="as long as it takes",
    ),
]
TensorBoard = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Also write event files of what is measured, which TensorBoard reads.",
        parser=folder,
        show_default="none",
    ),
]
SaveAdapters = Annotated[
    int | None,
    typer.Option(
        metavar="ROUNDS",
        help="Save adapters in PEFT's form after so many rounds each, and after the last.",
        show_default="never",
    ),
]
Prompt = Annotated[
    str | None,
    typer.Option(
        metavar="chat|plain|FILE",
        help="Form of the prompts: the model's chat template, none, or a template of Jinja.",
        show_default="the model's own",
    ),
]
Claims = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID...]",
        help='Ids, papers, sections, patterns ("affpcl.d*"), "Lemma D.1 (f)", files or folders.',
        show_default="those of your project, else every claim",
        autocompletion=_completed("claims"),
    ),
]
Constant = Annotated[
    bool, typer.Option("--constant", help="Say by what bounds have to be multiplied to hold.")
]
Effort = Annotated[str, typer.Option(metavar="quick|normal|hunt", help="How hard to search.")]
Limit = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="CPU time that one claim may take, compilation aside.",
        callback=_positive,
        show_default="the effort's",
    ),
]
ProofLimit = Annotated[
    float | None,
    typer.Option(
        "--limit",
        metavar="SECONDS",
        help="CPU time that one claim may take, compilation aside.",
        callback=_positive,
        show_default="300, for a constant 60, for --check none",
    ),
]
Replay = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Evaluate the instance in a counterexample's file."),
]
Write = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Also write verdicts.json, verdicts.md and findings.md.",
        parser=folder,
    ),
]
Check = Annotated[
    list[Path] | None, typer.Option(metavar="FILE...", help="Verify the certificates in files.")
]
Certificates = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Folder of the certificates.",
        parser=folder,
        callback=_in_project,
        show_default="results/certificates, in the root of the project",
    ),
]
Enclose = Annotated[
    bool, typer.Option("--constant", help="Enclose the best constants of bounds that hold.")
]
Sizes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="n=2,d=1",
        help="With --constant: the size of every axis.",
        show_default="the smallest that say something",
    ),
]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--write",
        metavar="FOLDER",
        help="Also write certificates.json, a claim to a line.",
        parser=folder,
    ),
]
