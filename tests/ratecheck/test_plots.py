"""Figures: the same bytes from the same data, one look per method, other figures left alone."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.legend import Legend

import ratecheck as rc
from linsys import InputError
from ratecheck._experiment import plots

X = np.array([1.0, 10.0, 100.0])
CURVE = rc.Series("AffPCL", "decay", X, 1 / X, 0.5 / X, 2 / X)


def draw(stem: Path) -> list[bytes]:
    with plots.style():
        figure, axes = plots.panels([CURVE])
        plots.curves(axes, [CURVE])
        plots.loglog(axes["decay"])
        return [path.read_bytes() for path in plots.save(figure, stem)]


def assert_same_bytes(folder: Path) -> None:
    assert draw(folder / "first") == draw(folder / "second")


def test_the_same_data_give_the_same_bytes(tmp_path: Path) -> None:
    assert_same_bytes(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("first.png", "first.svg", "second.png", "second.svg")
    ]


def test_without_a_fixed_salt_that_test_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plots._STYLE, "svg.hashsalt", None)
    with pytest.raises(AssertionError):
        assert_same_bytes(tmp_path)


def test_other_figures_keep_their_settings(tmp_path: Path) -> None:
    plain = draw(tmp_path / "plain")
    with mpl.rc_context({"font.size": 30, "axes.grid": False}):
        assert draw(tmp_path / "other") == plain
        assert mpl.rcParams["font.size"] == 30


def test_methods_have_distinct_looks_that_do_not_depend_on_position() -> None:
    looks = [(look.colour, look.line, look.marker) for look in plots.LOOKS.values()]
    assert len(set(looks)) == len(looks)
    assert plots.look("FedAvg", 3) == plots.look("FedAvg", 0)
    assert plots.look("mine", 0) != plots.look("mine", 1)


def test_panels_and_legend_follow_the_series() -> None:
    x = [1.0, 10.0]
    series = [
        rc.Series("mine", "b", x, [1, 2]),
        rc.Series("theory", "a", x, [1, 2]),
        rc.Series("AffPCL", "a", x, [1, 2], [0.5, 1.5], [1.5, 2.5]),
        rc.Series("mine", "a", x, [2, 3]),
    ]
    with plots.style():
        figure, axes = plots.panels(series, columns=1)
        plots.curves(axes, series)
        plots.loglog(axes["a"])
        plots.guide(axes["a"], -1.0, (1, 10), 2.0)
        plots.legend(figure, axes)
    assert list(axes) == ["b", "a"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        *("AffPCL", "theory", "mine")
    ]
    colours = {
        line.get_color()
        for ax in axes.values()
        for line in ax.get_lines()
        if line.get_label() == "mine"
    }
    assert len(colours) == 1
    guide = axes["a"].get_lines()[-1]
    np.testing.assert_allclose(guide.get_ydata(), [2.0, 0.2])
    assert len(axes["a"].collections) == 1
    assert axes["a"].get_xscale() == "log"


@pytest.mark.parametrize(("length", "columns"), [(1, 5), (3, 4), (6, 3), (12, 2), (50, 1)])
def test_a_legend_has_as_many_columns_as_the_figure_has_room_for(length: int, columns: int) -> None:
    series = [rc.Series(f"{k}" + "m" * length, "a", X, X) for k in range(5)]
    with plots.style():
        figure = rc.draw_panels(series, {})
        [legend] = figure.legends
        assert legend._ncols == columns  # type: ignore[attr-defined]

        def room(legend: Legend) -> float:
            return figure.bbox.width - legend.get_window_extent().width

        assert (room(legend) >= 0) == (columns > 1)
        handles, labels = figure.axes[0].get_legend_handles_labels()
        one_more = figure.legend(handles, labels, ncols=columns + 1)
        assert (room(one_more) >= 0) == (columns == 5)  # else it would be cut off


def test_nothing_to_draw_is_named() -> None:
    with pytest.raises(InputError, match="at least one curve to draw"):
        plots.panels([])


def test_figures_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "taken.png").mkdir()
    with pytest.raises(InputError, match=r"figures must be writable; found .*file: File exists"):
        draw(tmp_path / "file" / "first")
    with pytest.raises(InputError, match=r"figures must be writable; found .*taken\.png: Is a dir"):
        draw(tmp_path / "taken")


def test_panels_are_drawn_as_they_are_described() -> None:
    other = rc.Series("FedAvg", "gap", X, X)
    about = {"decay": rc.Panel(x="rounds $t$", y="error", log="xy", slope=-1.0)}
    figure = rc.draw_panels([CURVE, other], about)
    decay, gap = figure.axes
    assert (decay.get_xlabel(), decay.get_ylabel()) == ("rounds $t$", "error")
    assert (decay.get_xscale(), decay.get_yscale(), gap.get_yscale()) == ("log", "log", "linear")
    assert (gap.get_title(), gap.get_ylabel()) == ("gap", "")
    line, guide = decay.get_lines()
    x, y = np.asarray(guide.get_xdata()), np.asarray(guide.get_ydata())
    assert np.log(y[1] / y[0]) == pytest.approx(-np.log(x[1] / x[0]))
    assert (y < np.interp(x, line.get_xdata(), line.get_ydata())).all()
    [legend] = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["AffPCL", "FedAvg"]


def test_guides_keep_their_distance_on_their_side() -> None:
    high = rc.Series("FedAvg", "decay", X, 100 / X**2)
    guides = (
        rc.Guide(-1.0, "stated: {}", beside="AffPCL", distance=0.2, span=(0.0, 0.5)),
        rc.Guide(-2.0, above=True),
    )
    figure = rc.draw_panels([CURVE, high], {"decay": rc.Panel(log="xy", slope=guides)})
    low, top = [line for line in figure.axes[0].get_lines() if line.get_label() == "_guide"]
    height = np.log(100 / 0.01)  # of both curves
    x, y = np.asarray(low.get_xdata()), np.asarray(low.get_ydata())
    np.testing.assert_allclose(x, [1, 10])
    np.testing.assert_allclose(np.log(1 / x / y), 0.2 * height)
    x, y = np.asarray(top.get_xdata()), np.asarray(top.get_ydata())
    np.testing.assert_allclose(x, [10**0.5, 10**1.5])
    np.testing.assert_allclose(np.log(y / (100 / x**2)), 0.1 * height)
    assert [text.get_text() for text in figure.axes[0].texts] == ["stated: −1", "slope −2"]


def test_axes_have_the_ticks_ends_and_line_that_are_described() -> None:
    third = rc.Series("AffPCL", "b", X / 3, X)
    panel = rc.Panel(x="$t$", log="x", ticks="points", level=1.0, low=-1.0, high=200.0)
    figure = rc.draw_panels([CURVE, third], panel, rc.Layout(columns=1))
    upper, lower = figure.axes
    assert (upper.get_xlabel(), lower.get_xlabel()) == ("", "$t$")  # the same below
    assert [text.get_text() for text in lower.get_xticklabels()] == ["0.333", "3.33", "33.3"]
    assert [text.get_text() for text in upper.get_xticklabels()] == ["1", "10", "100"]
    assert len(upper.get_xticks(minor=True)) == 0
    assert upper.get_ylim() == (-1.0, 200.0)
    level = upper.get_lines()[-1]
    np.testing.assert_array_equal(level.get_ydata(), [1.0, 1.0])
    given = rc.draw_panels([CURVE], rc.Panel(title="(a)", ticks=(0, 50)))
    assert given.axes[0].get_xticks().tolist() == [0, 50]
    assert (given.axes[0].get_title(), given.axes[0].get_ylabel()) == ("(a)", "decay")


def labels_of(axes: Any, low: float, high: float) -> list[str]:
    """What a logarithmic axis from low to high says at its ticks, in their order."""
    axes.set_ylim(low, high)
    axis = axes.yaxis
    ticks = [*zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=True)]
    ticks += zip(axis.get_minorticklocs(), axis.get_minorticklabels(), strict=True)
    named = sorted((place, text.get_text()) for place, text in ticks if low <= place <= high)
    return [text for _, text in named if text]


def test_a_logarithmic_axis_has_at_least_two_labels() -> None:
    series = rc.Series("AffPCL", "a", [1, 2], [1, 2])
    axes = rc.draw_panels([series], rc.Panel(log="xy")).axes[0]
    power = r"$\mathdefault{10^{%d}}$"
    assert labels_of(axes, 0.5, 2000) == [power % k for k in range(4)]
    assert labels_of(axes, 2, 32) == ["2", "5", "10", "20"]
    assert labels_of(axes, 0.0026, 0.0048) == ["0.003", "0.004"]
    assert labels_of(axes, 3e-8, 3e-7) == [
        r"$\mathdefault{5\times10^{-8}}$",
        power % -7,
        r"$\mathdefault{2\times10^{-7}}$",
    ]
    for low in np.geomspace(1, 9.7, 40):
        for factor in (1.3, 1.7, 2.2, 3, 5, 9, 20):
            assert len(labels_of(axes, float(low), float(low * factor))) >= 2


def test_guides_are_no_laws_and_stated_ones_are_dashed() -> None:
    guides = (rc.Guide(-1.0), rc.Guide(-2.0, "stated: {}", line="--"))
    law = rc.Series("theory", "decay", X, 1 / X)
    figure = rc.draw_panels([law], {"decay": rc.Panel(log="xy", slope=guides)})
    styles = [(line.get_linestyle(), line.get_color()) for line in figure.axes[0].get_lines()]
    assert len({style for style, _ in styles}) == 3
    assert styles[0] == (":", "#000000")


def test_the_legend_calls_curves_by_the_names_of_the_layout() -> None:
    series = [rc.Series(name, "a", X, X) for name in ("law of b", "law of a", "b", "a")]
    law = rc.Look("black", line=":")
    layout = rc.Layout(
        looks={"law of a": law, "law of b": law},
        names={"law of a": "law", "law of b": "law", "a": "estimate"},
    )
    [legend] = rc.draw_panels(series, {}, layout).legends
    assert [text.get_text() for text in legend.get_texts()] == ["b", "estimate", "law"]


def test_a_shared_axis_is_named_once() -> None:
    series = [rc.Series("AffPCL", panel, X, X) for panel in "abc"]
    layout = rc.Layout(columns=2, share_y=True)
    figure = rc.draw_panels(series, rc.Panel(y="error"), layout)
    assert [ax.get_ylabel() for ax in figure.axes] == ["error", "", "error"]


def test_curves_look_and_are_named_as_the_layout_says() -> None:
    series = [rc.Series(name, "a", X, X) for name in ("law", "mine", "FedAvg", "other")]
    looks = {"mine": rc.Look("red", "s", "none", size=9, hollow=True), "law": rc.Look("black")}

    def drawn(layout: rc.Layout) -> tuple[Any, list[str]]:
        figure = rc.draw_panels(series, {}, layout)
        [legend] = figure.legends
        return figure.axes[0].get_lines(), [text.get_text() for text in legend.get_texts()]

    lines, names = drawn(rc.Layout(looks=looks))
    assert names == ["FedAvg", "other", "mine", "law"]
    by_name = {line.get_label(): line for line in lines}
    assert list(by_name) == ["mine", "FedAvg", "other", "law"]  # the last is drawn over all
    mine = by_name["mine"]
    assert (mine.get_color(), mine.get_markersize(), mine.get_linestyle()) == ("red", 9, "None")
    assert (mine.get_markerfacecolor(), by_name["law"].get_marker()) == ("none", "None")
    columns = [["other", "absent", "law"], ["absent"], ["FedAvg"]]
    assert drawn(rc.Layout(looks=looks, legend=columns))[1] == ["other", "law", "FedAvg", ""]


def test_descriptions_that_fit_nothing_are_refused() -> None:
    with pytest.raises(InputError, match="`panels` must be among decay; found 'gap'"):
        rc.draw_panels([CURVE], {"gap": rc.Panel()})
    with pytest.raises(InputError, match="`slope` must come with log="):
        rc.Panel(slope=-1.0)
    with pytest.raises(InputError, match="`slope` must come with log="):
        rc.Panel(log="y", slope=[rc.Guide(1.0)])
    with pytest.raises(InputError, match="`ticks` must be one of"):
        rc.Panel(ticks="all")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"`span` must be increasing within \[0, 1\]; found"):
        rc.Guide(1.0, span=(0.5, 0.5))
    with pytest.raises(InputError, match="`distance` must be above 0; found 0"):
        rc.Guide(1.0, distance=0.0)
    beside = "a guide must have a curve of its panel beside it; found "
    with pytest.raises(InputError, match=f"{beside}'other'"):
        rc.draw_panels([CURVE], rc.Panel(log="xy", slope=rc.Guide(1.0, beside="other")))
    below_zero = rc.Series("AffPCL", "a", X, -X)
    with (
        pytest.warns(UserWarning, match="no positive values"),  # of matplotlib
        pytest.raises(InputError, match=f"{beside}no positive values"),
    ):
        rc.draw_panels([below_zero], rc.Panel(log="xy", slope=1.0))
    with pytest.raises(InputError, match="`log` must be one of"):
        rc.Panel(log="yx")  # type: ignore[arg-type]


def test_what_is_zero_is_left_out_of_a_logarithmic_axis() -> None:
    series = [rc.Series("error", "loss", x=[1, 2, 3], y=[1.0, 0.0, 0.1])]
    for log, left in (("y", [1.0, 0.1]), ("", [1.0, 0.0, 0.1])):
        figure = rc.draw_panels(series, rc.Panel(log=log))  # type: ignore[arg-type]
        drawn = np.asarray(figure.axes[0].get_lines()[0].get_ydata(), dtype=float)
        assert drawn[np.isfinite(drawn)].tolist() == left


class _Circle:
    """An object that refers to itself, which only the garbage collector can free."""

    def __init__(self) -> None:
        self.itself = self


def freed_within(block: AbstractContextManager[None]) -> tuple[bool, bool]:
    """Whether garbage of many new objects is freed within a block, and whether after it."""
    with block:
        circle = weakref.ref(_Circle())
        first, *_ = gc.get_threshold()
        assert len([[] for _ in range(2 * first)]) == 2 * first
        within = circle() is None
    return within, circle() is None


@pytest.fixture
def _collecting() -> Iterator[None]:
    assert gc.isenabled()
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)
    gc.enable()


@pytest.mark.usefixtures("_collecting")
def test_garbage_of_a_figure_is_collected_at_its_end() -> None:
    assert freed_within(plots.collecting_later()) == (False, True)
    assert gc.isenabled()
    assert freed_within(nullcontext()) == (True, True)
    with plots.collecting_later():
        assert freed_within(plots.collecting_later()) == (False, True)
        assert not gc.isenabled()
    with pytest.raises(ZeroDivisionError), plots.collecting_later():
        raise ZeroDivisionError
    assert gc.isenabled()
    gc.disable()  # as somebody may have chosen
    assert freed_within(plots.collecting_later()) == (False, True)
    assert not gc.isenabled()
