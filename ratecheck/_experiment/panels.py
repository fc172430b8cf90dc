"""What a figure shows, as data: its curves, its axes and its guides; ``plots.py`` draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from linsys.validate import InputError, check_choice


@dataclass(frozen=True)
class Look:
    """How one curve is drawn.

    Attributes:
        colour: of line, markers and band.
        marker: matplotlib's name of a marker; empty: none.
        line: matplotlib's name of a line style; "none": markers alone.
        width: of the line, in points.
        size: of the markers, in points.
        hollow: whether markers are open, so that a curve below shows through.

    >>> import ratecheck as rc
    >>> rc.Look("#0072b2", marker="s", line="--").width
    1.4
    """

    colour: str
    marker: str = ""
    line: str = "-"
    width: float = 1.4
    size: float = 4.0
    hollow: bool = False


@dataclass(frozen=True)
class Guide:
    """A thin grey line x^slope beside the curves of log-log axes, to compare them with.

    Attributes:
        slope: the exponent.
        label: the text beside it, in which "{}" becomes the exponent.
        beside: the name of the curve that it keeps a distance from; empty: from all of the panel.
        above: whether it lies above the curve, not below.
        distance: from the curve where they are closest, as a share of the height of all curves.
        span: where it begins and ends, as shares of the (logarithmic) axis.
        line: matplotlib's name of its style; ours are dashed where a paper states the exponent.

    Raises:
        InputError: a span that does not increase within [0, 1], or a distance that is not above 0.

    >>> import ratecheck as rc
    >>> rc.Panel(x="$t$", log="xy", slope=rc.Guide(-0.5, "$t^{{{}}}$", above=True)).guides[0].slope
    -0.5
    """

    slope: float
    label: str = "slope {}"
    beside: str = ""
    above: bool = False
    distance: float = 0.1
    span: tuple[float, float] = (0.25, 0.75)
    line: str = "-"

    def __post_init__(self) -> None:
        if not self.distance > 0:
            raise InputError(f"`distance` must be above 0; found {self.distance:g}")
        if not 0 <= self.span[0] < self.span[1] <= 1:
            raise InputError(f"`span` must be increasing within [0, 1]; found {self.span}")


@dataclass(frozen=True)
class Panel:
    """The axes of one panel.

    Attributes:
        x: label of the horizontal axis, with its unit. Where the panel below has the same, only
            that one shows it.
        y: label of the vertical axis. Without it a panel that is alone shows its name there.
        log: which axes are logarithmic: "x", "y", "xy" or "".
        slope: of a guide below the curves of log-log axes, or the guides; None: no guide.
        title: above the panel; None: its name, where there are several panels.
        ticks: of the horizontal axis, and no others: where "points" are (those of all curves), or
            at these values; None: as matplotlib chooses.
        level: where a horizontal line is drawn; None: nowhere.
        low: lower end of the vertical axis; None: as the curves need.
        high: its upper end.

    Raises:
        InputError: ``log`` or ``ticks`` of another kind, or a guide where the axes are not both
            logarithmic.

    >>> [guide.label for guide in Panel(x="rounds $t$", y="error", log="xy", slope=-1.0).guides]
    ['slope {}']
    """

    x: str = ""
    y: str = ""
    log: Literal["", "x", "y", "xy"] = ""
    slope: float | Guide | Sequence[Guide] | None = None
    title: str | None = None
    ticks: Literal["points"] | Sequence[float] | None = None
    level: float | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if self.log:
            check_choice("log", self.log, ("x", "y", "xy"))
        if self.guides and self.log != "xy":
            raise InputError(f'`slope` must come with log="xy"; found log={self.log!r}')
        if isinstance(self.ticks, str):
            check_choice("ticks", self.ticks, ("points",))

    @property
    def guides(self) -> tuple[Guide, ...]:
        """All guides, one for a plain ``slope``."""
        if self.slope is None:
            return ()
        if isinstance(self.slope, Guide):
            return (self.slope,)
        return tuple(self.slope) if isinstance(self.slope, Sequence) else (Guide(self.slope),)


@dataclass(frozen=True)
class Layout:
    """How the panels of one figure lie beside each other, and what its curves look like.

    Attributes:
        columns: panels in a row.
        width: of a panel, in inches.
        height: of a panel, in inches.
        share_y: whether all vertical axes have the same ends, and only the first of a row a label.
        legend: how many columns the legend may have, or the names in each of them.
        looks: name of a curve to its look; the legend has these names last, in this order.
        markers: about so many along every curve.
        names: name of a curve to what the legend calls it, and orders it by; several that are
            called the same appear once. Others keep their names.

    >>> import ratecheck as rc
    >>> rc.Layout(columns=2, looks={"ours": rc.Look("black", "o")}).width
    2.6
    """

    columns: int = 4
    width: float = 2.6
    height: float = 2.2
    share_y: bool = False
    legend: int | Sequence[Sequence[str]] = 5
    looks: Mapping[str, Look] = field(default_factory=dict)
    markers: int = 8
    names: Mapping[str, str] = field(default_factory=dict)
