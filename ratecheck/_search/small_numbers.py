"""Where ranges of whole numbers are wide: the claim to search a second time, for small numbers.

Of whole numbers from 0 to 1,000, drawn evenly, one in a hundred is below 10. A bound that breaks at
the first steps alone, and for some values of other fields, is then hardly ever met. So what holds
is searched a second time, with these numbers on a logarithmic scale. The second search counts only
where it finds a violation, or comes nearer to the bound by a hundredth; else the verdict is that of
the first, its number of instances as well. Of a statistical claim, where every instance takes many
samples, half of the instances are of this kind.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from ratecheck._claims.claim import Claim, StatisticalClaim
from ratecheck._claims.fields import Field, Whole

#: A range of more whole numbers than these is wide.
WIDE = 64
_Searched = TypeVar("_Searched", Claim, StatisticalClaim)


def with_small_numbers(claim: _Searched) -> _Searched | None:
    """A claim with its wide ranges of whole numbers on a logarithmic scale.

    None where that changes nothing: no range is wide, or all instances are looked at.

    >>> import ratecheck as rc
    >>> @rc.claim(id="my.a", source="", text="", kind="upper",
    ...           fields={"t": rc.whole_numbers(low=0, high=1000), "x": rc.interval()})
    ... def a(t, x):
    ...     return x, 1 + t
    >>> with_small_numbers(a).space.fields["t"].log
    True
    """
    space = claim.space
    fields = {name: _small_as_often(domain) for name, domain in space.fields.items()}
    changed = any(fields[name] is not domain for name, domain in space.fields.items())
    if not changed or space.every_instance() is not None:
        return None
    return replace(claim, space=replace(space, fields=fields))


def _small_as_often(domain: Field) -> Field:
    """A wide range of whole numbers on a logarithmic scale; any other domain as it is."""
    if not isinstance(domain, Whole) or domain.log or domain.high - domain.low <= WIDE:
        return domain
    return replace(domain, log=True)
