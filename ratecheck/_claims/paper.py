"""A paper: the decorators by which the functions of its statements become claims."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, Unpack

from numpy.typing import ArrayLike

from linsys.validate import InputError, check_instance
from ratecheck._claims.claim import (
    GIVEN,
    Claim,
    Kind,
    Known,
    RateClaim,
    Regime,
    Relation,
    StatisticalClaim,
    check_options,
    resolved,
)
from ratecheck._claims.fields import Field
from ratecheck._claims.made import noted
from ratecheck._claims.space import Space

Measure = Callable[..., tuple[Any, Any]]


class Options(Known, total=False):
    """What may be said of a statement about instances; see :class:`ratecheck.Claim`."""

    relation: Relation
    trivial: Callable[..., Any]
    family: Sequence[Mapping[str, ArrayLike]]


class Declare(Protocol):
    """What makes the decorator of one sort of statement; see :meth:`Paper.statement`."""

    def __call__(
        self,
        name: str,
        /,
        *,
        ref: str,
        on: Space | Mapping[str, Field],
        tex: str = "",
        **options: Unpack[Options],
    ) -> Callable[[Measure], Claim]:
        """The decorator."""


@dataclass(frozen=True)
class Paper:
    """A paper whose statements are claims.

    A statement is a function that returns its two sides, (measured, bound). Its parameters are
    names of the instance's fields; the first paragraph of its docstring is the statement. The
    decorator that makes it a claim says what sort of statement it is:

    ================  ==========================================================
    ``upper``         measured <= bound
    ``lower``         measured >= bound
    ``identity``      measured == bound, of vectors entry by entry
    ``distributional``  a probability measured >= a stated one
    ``count``         a number of things == a stated one
    ``qualitative``   a statement in words, put as measured <= bound
    ``rate``          exponents: the function has no parameter, and returns
                      a list of :class:`ratecheck.Regime`
    ``statistical``   a statement about means: the function has the parameter
                      ``rng`` as well, and returns samples; see
                      :class:`ratecheck.StatisticalClaim`
    ================  ==========================================================

    The same statement with another constant is :meth:`ratecheck.Claim.changed`.

    Args:
        id: the short name that the ids of its claims begin with.
        name: what sources call it, short and without a comma: "NAME, Lemma 1".
        citation: authors and title.

    Raises:
        InputError: an id that is no short name, a name with a comma; of its decorators, a function
            without a text, or options that they do not have.

    >>> import ratecheck as rc
    >>> PAPER = rc.Paper("mine", "My paper", "A. Author, On masses")
    >>> @PAPER.upper("mass", ref="Lemma 1", on={"p": rc.simplex("k")})
    ... def mass(p):
    ...     'No probability exceeds one.'
    ...     return p, 1
    >>> mass.id, mass.source, mass.text
    ('mine.mass', 'My paper, Lemma 1', 'No probability exceeds one.')
    """

    id: str
    name: str
    citation: str = ""

    def __post_init__(self) -> None:
        for what in ("id", "name", "citation"):
            check_instance(f"{what}` of a `Paper", getattr(self, what), str, "a text")
        if not re.fullmatch(r"[a-z0-9_]+", self.id):
            raise InputError(
                "`id` of a `Paper` must be of small letters, digits and underscores, as the ids of "
                f"its claims begin with it; found {self.id!r}"
            )
        if "," in self.name:  # what sources, "NAME, Lemma 1", are divided at
            raise InputError(
                "`name` of a `Paper` must have no comma: it is what stands before the place in the "
                f"paper, and authors belong to `citation`; found {self.name!r}"
            )

    def statement(
        self,
        kind: Kind,
        name: str,
        /,
        *,
        ref: str = "",
        on: Space | Mapping[str, Field] | None = None,
        tex: str = "",
        **options: Unpack[Options],
    ) -> Callable[[Measure], Claim]:
        """Decorate a function whose two sides are a statement of the paper.

        Args:
            kind: what sort of statement it is.
            name: second half of the claim's id; the first is the paper's.
            ref: where it is in the paper, such as "Lemma D.1 (a)".
            on: the instances: a space, or the fields of one whose axes run from 1 to 4.
            tex: the statement as LaTeX.
            options: those of :class:`ratecheck.Claim`. Other claims of the paper are named without
                the paper's id.

        Raises:
            InputError: a function without a docstring; what a claim or a space refuses.
        """
        space = self._space(name, on, options)

        def declare(measure: Measure) -> Claim:
            return noted(
                Claim(
                    kind=kind,
                    space=space,
                    measure=measure,
                    **self._ids(Claim, name, options),
                    **self._texts(name, ref, tex, measure),
                )
            )

        return declare

    @property
    def upper(self) -> Declare:
        """Decorate an upper bound: measured <= bound."""
        return partial(self.statement, "upper")

    @property
    def lower(self) -> Declare:
        """Decorate a lower bound: measured >= bound."""
        return partial(self.statement, "lower")

    @property
    def identity(self) -> Declare:
        """Decorate an identity of numbers or vectors, entry by entry."""
        return partial(self.statement, "identity")

    @property
    def distributional(self) -> Declare:
        """Decorate a probability that is measured, >= the stated one."""
        return partial(self.statement, "distributional")

    @property
    def count(self) -> Declare:
        """Decorate a number of things, == the stated one."""
        return partial(self.statement, "count")

    @property
    def qualitative(self) -> Declare:
        """Decorate a statement in words, put as measured <= bound."""
        return partial(self.statement, "qualitative")

    def rate(
        self, name: str, /, *, ref: str = "", tex: str = "", **options: Unpack[Known]
    ) -> Callable[[Callable[[], Sequence[Regime]]], RateClaim]:
        """Decorate a function that measures exponents, each in one regime.

        Args:
            name: second half of the claim's id.
            ref: where it is in the paper.
            tex: the statement as LaTeX.
            options: those of :class:`ratecheck.RateClaim`, as in :meth:`statement`.

        >>> import numpy as np
        >>> import ratecheck as rc
        >>> T = np.array([10, 100, 1000])
        >>> @rc.Paper("mine", "My paper").rate("average", ref="Theorem 1")
        ... def average():
        ...     "The mean squared error of an average falls like 1/t."
        ...     x = np.random.default_rng(0).normal(size=(500, T[-1]))
        ...     mse = (np.cumsum(x, axis=1)[:, T - 1] / T) ** 2  # (replicates, points)
        ...     slope = rc.slope_interval(T, mse, rng=0)
        ...     return [rc.Regime("large t", "t", -1.0, slope.value, slope.lo, slope.hi)]
        >>> rc.judge(average).verdict
        'consistent'
        """

        def declare(regimes: Callable[[], Sequence[Regime]]) -> RateClaim:
            ids = self._ids(RateClaim, name, options)
            texts = self._texts(name, ref, tex, regimes)
            return noted(RateClaim(regimes=regimes, **texts, **ids))

        return declare

    def statistical(
        self,
        name: str,
        /,
        *,
        ref: str = "",
        on: Space | Mapping[str, Field] | None = None,
        between: tuple[float, float],
        within: float,
        alpha: float = StatisticalClaim.alpha,
        relation: Relation = StatisticalClaim.relation,
        most: int = StatisticalClaim.most,
        tex: str = "",
        **options: Unpack[Known],
    ) -> Callable[[Callable[..., Any]], StatisticalClaim]:
        """Decorate a function that draws samples of measured - bound, or of both.

        Args:
            name: second half of the claim's id.
            ref: where it is in the paper.
            on: the instances, as in :meth:`statement`.
            between: two numbers between which every sample of measured - bound lies.
            within: how large a mean of measured - bound counts as none.
            alpha: probability that the verdict is wrong.
            relation: between the means of measured and bound.
            most: samples that one instance may take.
            tex: the statement as LaTeX.
            options: those of :class:`ratecheck.StatisticalClaim`, as in :meth:`statement`.

        >>> PAPER = Paper("mine", "My paper")
        >>> from ratecheck import interval, judge
        >>> @PAPER.statistical(
        ...     "noise", ref="Lemma 2", on={"p": interval()}, between=(-1, 1), within=0.05
        ... )
        ... def noise(p, rng):
        ...     'The mean of a Bernoulli variable is at most p.'
        ...     return rng.binomial(1, p, size=1000) - p
        >>> judge(noise).verdict
        'holds'
        """
        space = self._space(name, on, options)

        def declare(measure: Callable[..., Any]) -> StatisticalClaim:
            return noted(
                StatisticalClaim(
                    space=space,
                    measure=measure,
                    between=between,
                    within=within,
                    alpha=alpha,
                    relation=relation,
                    most=most,
                    **self._ids(StatisticalClaim, name, options),
                    **self._texts(name, ref, tex, measure),
                )
            )

        return declare

    def _space(
        self, name: str, on: Space | Mapping[str, Field] | None, options: Mapping[str, Any]
    ) -> Space:
        if on is None:
            others = f", but {', '.join(f'`{option}`' for option in options)}" if options else ""
            raise InputError(
                f"`on` of {self.id}.{name} must be a space or its fields, such as "
                f"{{'x': interval()}}; found none{others}"
            )
        return on if isinstance(on, Space) else Space(fields=on)

    def _texts(self, name: str, ref: str, tex: str, function: Callable[..., Any]) -> dict[str, Any]:
        if not ref:
            raise InputError(
                f"`ref` of {self.id}.{name} must say where it is in the paper, such as "
                "ref='Lemma 1'; found none"
            )
        text = (inspect.getdoc(function) or "").split("\n\n")[0]
        if not text:
            raise InputError(f"docstring of {self.id}.{name} must hold the statement; found none")
        return {
            "id": f"{self.id}.{name}",
            "source": f"{self.name}, {ref}",
            "text": " ".join(text.split()),
            "latex": tex,
            "paper_name": self.name,
        }

    def _ids(self, kind: type, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, with the full ids of the claims that they name."""
        known = {field.name for field in dataclasses.fields(kind) if field.init}
        check_options(f"{self.id}.{name}", options, known - GIVEN | {"on", "ref", "tex"})
        return resolved(self.id, options)
