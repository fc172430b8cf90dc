"""What an experiment is: a frozen configuration, pure functions and the theory's prediction.

One file holds one figure or one rate. ``blocks`` cuts the work into pieces that are stored one by
one, ``compute`` does one piece, ``analyse`` turns the whole stored table into curves and checks.
``panels`` says what the axes of the picture show; where that is not enough, ``draw`` makes it::

    class DecayConfig(Config):
        rates: tuple[float, ...] = param((0.5, 1.0), above=0, doc="exponents")
        replicates: int = param(30, low=30, doc="runs for every exponent")

    def blocks(config: DecayConfig) -> list[Block]:
        return [{"rate": rate} for rate in config.rates]

    def compute(config: DecayConfig, block: Block, context: Context) -> Columns:
        t = np.geomspace(1, 100, 9)
        rng = np.random.default_rng(config.derive("noise", block["rate"]))
        noise = rng.lognormal(sigma=0.1, size=(config.replicates, t.size))
        axes = {"replicate": np.arange(config.replicates), "t": t}
        return long_table(axes, mse=noise * t ** -block["rate"])

    def analyse(config: DecayConfig, table: Table) -> Analysis:
        series, checks = [], []
        for rate in config.rates:
            part = table.where(rate=rate)
            t, mse = part.unique("t"), part.grid("mse", "replicate", "t")
            series.append(Series(f"rate {rate:g}", "decay", t, *mean_band(mse)))
            measured = slope_interval(t, mse, rng=config.seed)
            checks.append(rate_check(f"slope at rate {rate:g}", -rate, measured, tolerance=0.01))
        return Analysis(series, checks)

    EXPERIMENT = Experiment(
        id="paper/decay", title="Power-law decay", source="Theorem 1", variable="t",
        profiles={"quick": DecayConfig(), "paper": DecayConfig(replicates=100)},
        blocks=blocks, compute=compute, analyse=analyse,
        panels={"decay": Panel(x="t", y="mean squared error", log="xy", slope=-1.0)},
    )

The numbers of a block may depend on the configuration and the block only, never on ``context``: a
block computed with one thread or sixteen, today or after a kill, is the same block.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linsys.validate import InputError, shown
from ratecheck._experiment import seeds
from ratecheck._experiment.panels import Layout, Panel
from ratecheck._experiment.parameters import Parameters, check_parameters, param
from ratecheck._experiment.table import Table
from ratecheck._names import check_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One piece of the work: plain values that name it, ``{"level": 0.05, "first_replicate": 0}``.
Block = Mapping[str, Any]
#: What one block yields: columns of equal length, one row per point of a curve (a single value
#: fills its column).
Columns = Mapping[str, ArrayLike]
Vector = Sequence[float] | NDArray[Any]
#: Sizes of an experiment: for seconds, for a real model without a card, and the paper's own.
PROFILES = ("quick", "laptop", "paper")


class Config(Parameters):
    """Base of every configuration: frozen, checked on construction, with the seed of its numbers.

    A class on it is a frozen dataclass with keywords, and needs no decorator that says so.

    Its parameters are declared with :func:`param`; what concerns several of them a class checks in
    ``__post_init__``, after that of its base.

    They may be ``int``, ``float``, ``bool``, ``str``, ``Path`` (a data file: its content enters
    the store's key), ``Literal[...]``, tuples of these, and ``X | None``.

    ``not_in_key`` names fields that change numbers by rounding alone, such as how much goes through
    a model at once. They are no part of the store's key: what is stored or kept stays valid when
    memory turns out to be too small.

    Raises:
        InputError: a value that is out of its parameter's range or of another type, in one line.

    >>> class Sizes(Config):
    ...     agents: int = 10
    >>> Sizes(agents=20)
    Sizes(seed=0, agents=20)
    """

    not_in_key: ClassVar[frozenset[str]] = frozenset()
    seed: int = param(0, high=math.inf, doc="of all random numbers.")

    def __post_init__(self) -> None:
        check_parameters(self)
        seeds.unify(self)

    def derive(self, *names: str | float) -> int:
        """A seed below 2^63 for one purpose, from this seed and names that do not depend on order.

        >>> Config(seed=1).derive("samples", 0.05) == Config(seed=1).derive("samples", 0.3)
        False
        """
        return seeds.derive(self.seed, names)

    def to_dict(self) -> dict[str, Any]:
        """The parameters as plain JSON values."""
        return {f.name: plain(getattr(self, f.name)) for f in dataclasses.fields(self)}


@dataclass(frozen=True)
class Context:
    """How, never what, to compute: numbers must not depend on anything here.

    ``folder`` is where ``compute`` may keep what it needs to go on after a kill, or None; it is not
    made before that, and removed when the block is stored. ``watch`` is a
    :class:`lora_bridge.runs.Watch` that is told how far runs are, or None.

    >>> Context(threads=2).threads
    2
    """

    threads: int = 1
    folder: Path | None = None
    watch: Any = None


@dataclass(frozen=True, eq=False)
class Series:
    """One curve of a panel: y against x, an optional band ``lo`` to ``hi``; all (points,).

    Raises:
        InputError: arrays that are not (points,) of numbers, or one end of a band alone.

    >>> Series("ours", "error", [1, 10], [0.5, 0.05], lo=[0.4, 0.04], hi=[0.6, 0.06]).panel
    'error'
    """

    name: str
    panel: str
    x: Vector
    y: Vector
    lo: Vector | None = None
    hi: Vector | None = None

    def __post_init__(self) -> None:
        if (self.lo is None) != (self.hi is None):
            raise InputError(f"series `{self.name}` must have both `lo` and `hi` or neither")
        points = np.shape(self.x)
        for key in ("x", "y", "lo", "hi"):
            value = getattr(self, key)
            if value is None:
                continue
            array = np.array(value, dtype=np.float64)
            if array.ndim != 1 or array.shape != points:
                raise InputError(
                    f"`{key}` of series `{self.name}` must be 1-D and as long as `x`, {points}; "
                    f"found {array.shape}"
                )
            if np.isnan(array).any():
                raise InputError(f"`{key}` of series `{self.name}` must hold numbers; found NaN")
            array.setflags(write=False)
            object.__setattr__(self, key, array)

    def to_dict(self) -> dict[str, Any]:
        """The curve as plain JSON values; an infinite value becomes None."""
        keys = ("name", "panel", "x", "y", "lo", "hi")
        return {key: plain(getattr(self, key)) for key in keys}


#: What a check says of the paper; the last is a prediction of ours that the measurement refutes.
OUTCOMES = (
    "agrees with the paper",
    "contradicts the paper",
    "our own prediction",
    "undecided",
    "our own prediction fails",
)


@dataclass(frozen=True)
class Check:
    """A prediction of the theory beside what was measured.

    ``predicted`` is a number (an exponent, a ratio) or an ordering in words ("AffPCL <
    independent"). ``lo`` and ``hi`` bound the measured value; both None where it has no interval.
    ``ok`` is True where the measurement confirms the prediction, False where it contradicts it, and
    None (JSON: null) where it decides neither; only False is a failure. ``verdict`` says the same
    in words, for the tables that people read.

    ``ours`` says that the prediction is not the paper's but derived here, and ``paper`` what the
    paper states where that is something else: a measurement that confirms such a prediction
    contradicts the paper. :func:`ratecheck.our_own` makes such a check.

    ``tolerance`` is how far a finite range may bend a predicted exponent; tables show it beside.

    Raises:
        InputError: a number that is not finite, or ``paper`` without ``ours``.

    >>> Check("exponent", -1.0, -1.02, -1.1, -0.95, ok=True, tolerance=0.05).outcome
    'agrees with the paper'
    """

    name: str
    predicted: float | str
    measured: float | str
    lo: float | None
    hi: float | None
    ok: bool | None
    verdict: str = ""
    ours: bool = False
    paper: str = ""
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if self.paper and not self.ours:
            raise InputError(
                f"`paper` of check `{self.name}` must come with `ours`; found {self.paper!r} alone"
            )
        if self.ok is not None:
            object.__setattr__(self, "ok", bool(self.ok))
        for key in ("measured", "predicted", "lo", "hi"):
            value = getattr(self, key)
            if value is None or isinstance(value, str):
                continue
            if not np.isfinite(value):
                raise InputError(f"`{key}` of check `{self.name}` must be finite; found {value}")
            object.__setattr__(self, key, float(value))

    @property
    def outcome(self) -> str:
        """What the measurement says of the paper, one of :data:`OUTCOMES`.

        >>> Check("sign", "below 0", 0.5, 0.4, 0.6, ok=False).outcome
        'contradicts the paper'
        >>> Check("sign", "above 0", 0.5, 0.4, 0.6, ok=True, ours=True, paper="below 0").outcome
        'contradicts the paper'
        """
        if self.ok is None:
            return "undecided"
        if not self.ours:
            return "agrees with the paper" if self.ok else "contradicts the paper"
        if not self.ok:
            return "our own prediction fails"
        return "contradicts the paper" if self.paper else "our own prediction"

    def to_dict(self) -> dict[str, Any]:
        """The check as plain JSON values."""
        keys = ("name", "predicted", "measured", "lo", "hi", "ok", "outcome", "paper")
        return {key: getattr(self, key) for key in keys}


@dataclass(frozen=True)
class Analysis:
    """What the stored table says: curves, checks, and notes that the reader must know.

    >>> line = Series("ours", "error", [1, 10], [0.5, 0.05])
    >>> agrees = Check("exponent", -1.0, -1.0, None, None, ok=True)
    >>> Analysis([line], [agrees], notes=["exact values"]).notes
    ['exact values']
    """

    series: Sequence[Series]
    checks: Sequence[Check] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Grid:
    """Blocks for all combinations of some values, the last of them varying fastest.

    Args:
        axes: name in a block to the values that it takes, or to the parameter that holds them; a
            whole number in their place stands for 0, 1, .. below it.

    Raises:
        InputError: an axis that is neither values, nor a number, nor a parameter.

    >>> class Sizes(Config):
    ...     instances: int = 2
    ...     agents: tuple[int, ...] = (5, 10)
    >>> Grid({"instance": "instances", "n": "agents"})(Sizes())[1:3]
    [{'instance': 0, 'n': 10}, {'instance': 1, 'n': 5}]
    >>> Grid({"run": 2})(Sizes())
    [{'run': 0}, {'run': 1}]
    """

    axes: Mapping[str, str | int | Collection[Any]]

    def __post_init__(self) -> None:
        if not isinstance(self.axes, Mapping):
            raise InputError(
                "`axes` of a grid must be a dict, such as {'n': (1, 2)} or {'n': 'agents'}; "
                f"found {shown(self.axes)}"
            )
        for name, axis in self.axes.items():
            if not isinstance(axis, str):
                _check_values(name, axis)

    def __call__(self, config: Config) -> list[Block]:
        """The blocks of one configuration."""
        for name, axis in self.axes.items():
            if isinstance(axis, str) and not hasattr(config, axis):
                known = [field.name for field in dataclasses.fields(config)]
                check_name(f"axis `{name}` of a grid", axis, known)
        given = self.axes.values()
        values = [getattr(config, axis) if isinstance(axis, str) else axis for axis in given]
        for name, value in zip(self.axes, values, strict=True):
            _check_values(name, value)
        ranges = [range(value) if isinstance(value, int) else value for value in values]
        return [dict(zip(self.axes, one, strict=True)) for one in itertools.product(*ranges)]


def _check_values(name: str, values: Any) -> None:
    """Refuse what is neither a number of blocks nor the values that a name takes in them."""
    if not isinstance(values, int) and (
        not isinstance(values, Collection) or isinstance(values, str)
    ):
        raise InputError(
            f"axis `{name}` of a grid must be a list of values, how many there are, or a "
            f"parameter of these; found {shown(values)}"
        )


C = TypeVar("C", bound=Config)
#: One description for all panels, or one for each of them by name.
Panels = Panel | Mapping[str, Panel]


@dataclass(frozen=True)
class Experiment(Generic[C]):
    """One figure or rate of one paper; see the module's text for a complete example.

    ``id`` is "paper/name" and equals the module: ``experiments/affpcl/figures/fig1.py`` holds
    "affpcl/fig1". Without ``draw`` the figure is :func:`ratecheck.draw_panels` of the curves: in
    ``panels``, one description for all panels or one for each by name, and in ``layout``; either
    may be a function of the configuration. ``variable`` is what a rate is measured against ("t",
    "n", "delta"), and makes it one: without ``kind`` what has none is a figure.

    ``blocks`` is a function or a :class:`Grid`; without it all is one block. ``parallel`` says who
    uses the threads: "threads" gives them all to ``compute``, block after block; "blocks" computes
    several blocks at once in processes, one thread each.

    Raises:
        InputError: an id, a kind, a function or a profile that no experiment can have.

    >>> def compute(config, block, context):
    ...     return {"t": [1.0, 10.0], "error": [1.0, 0.1]}
    >>> def analyse(config, table):
    ...     return Analysis([Series("ours", "error", table["t"], table["error"])], [])
    >>> profiles = {"quick": Config(), "paper": Config()}
    >>> functions = {"compute": compute, "analyse": analyse}
    >>> about = {"title": "Errors", "source": "Theorem 1", "kind": "figure"}
    >>> Experiment(id="mine/errors", profiles=profiles, **functions, **about).paper
    'mine'
    """

    id: str
    title: str
    source: str
    profiles: Mapping[str, C]
    compute: Callable[[C, Block, Context], Columns]
    analyse: Callable[[C, Table], Analysis]
    kind: Literal["figure", "rate"] = ""  # type: ignore[assignment]
    blocks: Callable[[C], Sequence[Block]] = Grid({})
    draw: Callable[[C, Analysis], Figure] | None = None
    panels: Panels | Callable[[C], Panels] = field(default_factory=dict)
    layout: Layout | Callable[[C], Layout] = field(default_factory=Layout)
    variable: str = ""
    parallel: Literal["threads", "blocks"] = "threads"

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9_]+/[a-z0-9_]+", self.id):
            raise InputError(
                "`id` must look like paper/name, in lower case letters, digits and _; found "
                f"{self.id!r}"
            )
        if not {"quick", "paper"} <= set(self.profiles) <= set(PROFILES):
            raise InputError(
                f"`profiles` of {self.id} must be quick and paper, and may be laptop; "
                f"found {sorted(self.profiles)}"
            )
        if not self.kind:
            object.__setattr__(self, "kind", "rate" if self.variable else "figure")
        if self.kind not in ("figure", "rate"):
            raise InputError(f"`kind` of {self.id} must be figure or rate; found {self.kind!r}")
        if (self.kind == "rate") != bool(self.variable):
            raise InputError(f"{self.id}: `variable` must be given for a rate, and only there")
        if self.parallel not in ("threads", "blocks"):
            raise InputError(
                f"`parallel` of {self.id} must be threads or blocks; found {self.parallel!r}"
            )

        kinds = {type(config) for config in self.profiles.values()}
        if len(kinds) > 1:
            names = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise InputError(f"`profiles` of {self.id} must be of one class; found {names}")
        if isinstance(self.blocks, Grid):
            axes = {axis for axis in self.blocks.axes.values() if isinstance(axis, str)}
            for axis in sorted(axes):
                if not hasattr(self.profiles["quick"], axis):
                    raise InputError(
                        f"`blocks` of {self.id} must name parameters of "
                        f"{self.config_type.__name__}; found {axis!r}"
                    )

    @property
    def config_type(self) -> type[C]:
        """The class of its configurations."""
        return type(self.profiles["quick"])

    @property
    def paper(self) -> str:
        """The paper's short name, the first half of the id."""
        return self.id.partition("/")[0]


@dataclass(frozen=True)
class BenchRow:
    """One benchmark against one peer in the same run; ``correct`` says that both agree.

    >>> BenchRow("solve", "NumPy", ours_s=0.5, peer_s=1.5, correct=True).ratio
    3.0
    """

    name: str
    peer: str
    ours_s: float
    peer_s: float
    correct: bool

    @property
    def ratio(self) -> float:
        """The peer's seconds over ours: how many times faster we are."""
        return self.peer_s / self.ours_s

    def to_dict(self) -> dict[str, Any]:
        """The row as plain JSON values."""
        keys = ("name", "peer", "ours_s", "peer_s", "ratio", "correct")
        return {key: getattr(self, key) for key in keys}


def plain(value: Any) -> Any:
    """The value as JSON can hold it: lists for arrays, text for paths, None for infinity."""
    return seeds.encoded(value, lambda number: None)
