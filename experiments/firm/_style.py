"""How the rates of FIRM are drawn: the looks of measured curves and of derived laws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import ratecheck as rc
from experiments.firm._drift import CONVENTIONS
from experiments.firm._gap_runs import CURVES, GAP, PLAIN
from experiments.firm._words import LAW

__all__ = ["FLOORS", "GAP_LOOKS", "floor_panel", "layout_of_readings", "looks_of"]


def looks_of(names: Iterable[str]) -> dict[str, rc.Look]:
    """A colour and a marker for each name, by its place, and a dotted line for derived laws."""
    looks = {name: rc.look("", place) for place, name in enumerate(names)}
    return {**looks, LAW: rc.Look("#000000", line=":", width=1.0)}


def layout_of_readings(forms: Mapping[str, rc.Look], **sizes: Any) -> rc.Layout:
    """The layout of series named "form, convention": a marker and a line for each form, and a
    colour for each convention; a column of the legend for each convention, and one for the law.
    """
    colours, looks = looks_of(CONVENTIONS), {}
    columns = [[f"{form}, {convention}" for form in forms] for convention in CONVENTIONS]
    for convention, names in zip(CONVENTIONS, columns, strict=True):
        for name, look in zip(names, forms.values(), strict=True):
            looks[name] = replace(look, colour=colours[convention].colour)
    looks[LAW] = colours[LAW]
    return rc.Layout(looks=looks, legend=[*columns, [LAW]], markers=99, **sizes)


#: Without smoothing lines are dashed and markers open: where curves agree both are seen.
GAP_LOOKS = looks_of(CURVES)
GAP_LOOKS[PLAIN] = replace(GAP_LOOKS[PLAIN], line="--", size=7, hollow=True)
#: Floors side by side on one scale.
FLOORS = rc.Layout(width=4.4, height=3.2, share_y=True, looks=GAP_LOOKS)


def floor_panel(x: str, exponent: float | None = None) -> rc.Panel:
    """Floors at the given values, with a guide of the stated exponent below them."""
    slope = (
        None if exponent is None else rc.Guide(exponent, "stated: {}", span=(0.0, 0.8), line="--")
    )
    return rc.Panel(x, f"mean of {GAP} at the end", log="xy", slope=slope, ticks="points")
