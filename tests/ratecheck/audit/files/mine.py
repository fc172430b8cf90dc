"""Claims about one probability distribution."""

from __future__ import annotations

from typing import Any

import ratecheck as rc

SPACE = rc.Space(fields={"p": rc.simplex("k")}, sizes={"k": (1, 3)})


@rc.claim(
    id="mine.norm",
    source="my paper, Lemma 1",
    kind="upper",
    space=SPACE,
    text="the largest probability squared is at most the sum of squares",
    latex=r"\max_k p_k^2 \le \sum_k p_k^2",
)
def norm(instance: Any) -> tuple[Any, Any]:
    return instance.p.max() ** 2, (instance.p**2).sum()


@rc.claim(
    id="mine.mass",
    source="my paper, Lemma 2",
    kind="upper",
    space=SPACE,
    text="no probability exceeds the sum of squares",
    expect="violated",
    note="the proof squares a number below one",
    corrected="mine.mass_corrected",
)
def mass(instance: Any) -> tuple[Any, Any]:
    return instance.p.max(), (instance.p**2).sum()


@rc.claim(
    id="mine.mass_corrected",
    source="my paper, Lemma 2, corrected",
    kind="lower",
    space=SPACE,
    text="no probability is below the sum of squares",
    printed_as="ours",
    uses=["mine.norm"],
    derivation="sum p_k^2 <= max p_k sum p_k = max p_k",
)
def mass_corrected(instance: Any) -> tuple[Any, Any]:
    return instance.p.max(), (instance.p**2).sum()


TASTE = rc.NotChecked(
    id="mine.taste", source="my paper, Section 1", text="it is natural", note="a matter of taste"
)
