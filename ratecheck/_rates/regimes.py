"""What measured exponents say of a stated rate, which is an upper bound."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ratecheck._claims.claim import Regime
from ratecheck._claims.space import Fault
from ratecheck._rates.rates import Interval, verdict

#: From the verdict that contradicts a claim most to the one that confirms it most.
_ORDER = ("violated", "not decided", "consistent", "faster than stated")


def of_regime(regime: Regime) -> str:
    """The verdict of one exponent's interval.

    >>> of_regime(Regime("large t", "t", predicted=-0.5, measured=-0.9, lo=-0.95, hi=-0.85))
    'faster than stated'
    """
    numbers = (regime.predicted, regime.measured, regime.lo, regime.hi, regime.slack)
    if not all(math.isfinite(number) for number in numbers) or regime.lo > regime.hi:
        raise Fault(f"`regimes` must return finite numbers with lo <= hi; found {regime}")
    measured = Interval(regime.measured, regime.lo, regime.hi)
    return verdict(regime.predicted, measured, tolerance=regime.slack, bound=True)


def of_regimes(regimes: Sequence[Regime]) -> tuple[str, Regime]:
    """The verdict of all, and the regime that decides: the one that comes closest to a violation.

    One regime above its rate violates the claim, and one that decides nothing leaves it undecided.
    A claim is faster than stated only if no regime attains its rate.
    """
    if not regimes:
        raise Fault("`regimes` must return at least one regime; found none")
    decisive = min(regimes, key=lambda r: (_ORDER.index(of_regime(r)), r.predicted - r.measured))
    return of_regime(decisive), decisive
