"""What theory says of one exponent: the paper's statement beside what is derived here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from linsys.validate import InputError, check_choice
from ratecheck._experiment.model import Check
from ratecheck._rates.rates import Interval, our_own, rate_check


@dataclass(frozen=True)
class Law:
    """An exponent in y ~ x^exponent as a paper states it, as it is derived here, or both.

    Attributes:
        stated: the paper's exponent; None: it has none.
        derived: the exponent that is derived here; None: nothing is.
        tolerance: how far a measured exponent may be off because the curve is no pure power: by a
            logarithm, a transient, a finite range of x. Of both.
        bound: whether the stated rate is an upper bound, y <= C x^stated, which may be beaten.
        limit: of x in which the bound holds, "infinity" or "zero".

    Raises:
        InputError: neither a stated nor a derived exponent.

    >>> law = Law(stated=-1.0, derived=-2.0, tolerance=0.1)
    >>> [(check.name, check.outcome) for check in law.checks("drift", Interval(-2.0, -2.1, -1.9))]
    [('drift: as derived', 'our own prediction'), ('drift: as stated', 'agrees with the paper')]
    """

    stated: float | None = None
    derived: float | None = None
    tolerance: float = 0.0
    bound: bool = True
    limit: Literal["infinity", "zero"] = "infinity"

    def __post_init__(self) -> None:
        if self.stated is None and self.derived is None:
            raise InputError("a law must have `stated` or `derived`; found neither")
        check_choice("limit", self.limit, ("infinity", "zero"))

    def checks(self, name: str, measured: Interval) -> list[Check]:
        """The measured exponent against what is derived and against what is stated.

        The checks are those of :func:`ratecheck.rate_check`, called ``name`` with ": as derived"
        and ": as stated".
        """
        checks = []
        if self.derived is not None:
            what = f"{name}: as derived"
            own = rate_check(what, self.derived, measured, tolerance=self.tolerance)
            checks.append(our_own(own))
        if self.stated is not None:
            checks.append(
                rate_check(
                    f"{name}: as stated",
                    self.stated,
                    measured,
                    tolerance=self.tolerance,
                    bound=self.bound,
                    limit=self.limit,
                )
            )
        return checks
