"""Rounds that the convergence proof of FSLoRA is about."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.fslora.theory.chain_rates import printed_step
from experiments.fslora.theory.chain_round import Round, many_components
from linsys.linalg import agent_mean

#: Largest step size of a step of the proof, from r/k_i, H, L and c_h.
Largest = Callable[[Any, Any, Any, Any], Any]
_MEANING = {
    "h": "slope of phi_i1' and phi_i2' over L, see Round",
    "o": "where phi_i1' and phi_i2' are 0",
    "w": "how far from there they are linear",
    "u": "u_i, the coupling of an entry of A with a sketched entry of B",
    "noise": "n_1 and n_2, the amplitudes of the samples",
    "rho": "r / k_i",
    "X": "an entry of B and one of A",
    "share": "gamma over its largest value",
}


def smoothness(factor: float) -> Largest:
    """gamma = 1 / (factor H L_s)."""
    return lambda rho, H, L, c_h: 1 / (factor * H * L * agent_mean(rho))


def powers(square: int, power: int) -> Largest:
    """gamma = 1 / (sqrt(square) H L max (r/k_i)^power)."""
    return lambda rho, H, L, c_h: 1 / (np.sqrt(square + 0 * L) * H * L * rho.max(axis=1) ** power)


def _round(
    *, largest: Largest, fresh: bool, c_h: Any, rho: Any, H: Any, L: Any, share: Any, **others: Any
) -> SimpleNamespace:
    gamma = share * largest(rho, H, L, c_h)
    step = Round(rho=rho, H=H, L=L, gamma=gamma, fresh=fresh, **others)
    return SimpleNamespace(step=step, c_h=c_h)


#: Slopes stay below L by this part where there is a coupling, so that f is L-smooth with it.
_ROOM = 1024


def _with_room(fields: dict[str, Any]) -> dict[str, Any]:
    """|h| <= 1 - 1/1024 where u is not 0."""
    h, coupled = fields["h"], (fields["u"] != 0)[..., None]
    most = 1 - (1 + 0 * h) / _ROOM
    held = np.minimum(np.maximum(h, -most), most)
    return {**fields, "h": np.where(coupled, held, h)}


def _smooth(s: Any) -> Any:
    """Assumption 4.1 on the whole space, for a coupling that is linear far enough."""
    size, coupled = abs(s.step.h), (s.step.u != 0)[..., None]
    return np.where(coupled, size < 1, size <= 1)


def rounds(largest: Largest, fresh: bool = False, steps: tuple[int, int] = (1, 3)) -> rc.Space:
    """Any rounds of one or two devices; ``step``, and ``c_h``."""
    pair = ("N", 2)
    fields = {
        "h": rc.interval(*pair, low=-1.0, high=1.0),
        "o": rc.reals(*pair, magnitude=(0.1, 10.0)),
        "w": rc.positive(*pair, low=0.1, high=10.0),
        "u": rc.reals("N", magnitude=(0.01, 10.0)),
        "noise": rc.reals(*pair, magnitude=(0.01, 10.0)),
        "rho": rc.positive("N", low=1.0, high=8.0),
        "X": rc.reals(2, magnitude=(0.1, 10.0)),
        "L": rc.positive(low=0.1, high=10.0),
        "H": rc.whole_numbers(low=steps[0], high=steps[1]),
        "share": rc.positive(low=0.01, high=1.0),
        "c_h": rc.positive(low=0.01, high=10.0),
    }
    return rc.Space(
        fields=fields,
        sizes={"N": (1, 2)},
        repair=_with_room,
        view=partial(_round, largest=largest, fresh=fresh),
        assumes={"Assumption 4.1": _smooth},
        batched=True,
        meaning=_MEANING,
        constructed=(
            "of each f_i two entries move, each with a slope that is a line between two constants, "
            "and a coupling adds u_i to one of them where the sketch selects its component"
        ),
    )


def _alone(
    *, largest: Largest, a: Any, w: Any, u: Any, rho: Any, L: Any, bent: Any, H: Any, share: Any
) -> SimpleNamespace:
    """One device, an entry of A alone, exact samples; c_h = sigma_h = 0."""
    first, second = np.array([1, 0]), np.array([0, 1])
    slopes = bent[:, None, None] * second
    return _round(
        largest=largest,
        fresh=False,
        c_h=0 * a,
        h=slopes,
        o=0 * slopes,
        w=(1 + 0 * a)[:, None, None] * first + w[:, None, None] * second,
        u=u[:, None],
        noise=0 * slopes,
        rho=rho[:, None],
        X=a[:, None] * second,
        L=L,
        H=H,
        share=share,
        noisy=False,
    )


def steady(largest: Largest, steps: int) -> rc.Space:
    """Rounds with one sigma_s^2 for all X: all assumptions hold on the whole space."""
    return rc.Space(
        fields={
            "a": rc.reals(magnitude=(0.1, 10.0)),
            "w": rc.positive(low=1.0, high=100.0),
            "u": rc.reals(magnitude=(0.1, 10.0)),
            "rho": rc.positive(low=1.0, high=8.0),
            "L": rc.positive(low=0.1, high=10.0),
            "bent": rc.interval(low=0.5, high=0.999),
            "H": rc.whole_numbers(low=1, high=steps),
            "share": rc.positive(low=0.01, high=1.0),
        },
        view=partial(_alone, largest=largest),
        assumes={
            "Assumption 4.1": _smooth,
            "Assumption 4.2, one variance for all X": lambda s: s.step.h[..., 0] == 0,
        },
        batched=True,
        meaning={
            "a": "the entry of A; f_i has the slope l a, up to |a| = w",
            "w": "where the slope of f_i stops to grow",
            "bent": "l over L",
            **{name: _MEANING[name] for name in ("u", "rho", "share")},
        },
        constructed=(
            "one device, exact samples, and a coupling that makes the sketches' variance the same "
            "everywhere"
        ),
    )


def _many(*, r: Any, L: Any, H: Any, share: Any, w: Any, part: Any) -> SimpleNamespace:
    printed = printed_step(r[:, None], 1 + 0 * r, H, L, 0 * r)
    gamma = share * np.minimum(printed, powers(18, 0)(r[:, None], H, L, 0 * r))
    path = many_components(r, L, gamma, H, w, part)
    first, farthest = path[1][:, 0] ** 2, (path[1] ** 2).max(axis=-1)
    return SimpleNamespace(
        r=r,
        H=H,
        gamma=gamma,
        path=path,
        top=L * w,
        visited=(r - 1) * (farthest + (r - 1) * first),
    )


def _variances_on_the_way(s: SimpleNamespace) -> Any:
    """The variance by the sketch where one component has moved and all others have not.

    A sketch has the gradient r times the slope of its own component, and zero elsewhere.
    """
    r, moved, first = s.r[:, None], s.path[1], s.path[1][:, :1]
    own = (r - 1) ** 2 * moved**2 + (r - 1) * first**2
    another = (r - 1) ** 2 * first**2 + moved**2 + (r - 2) * first**2
    variance = (own + (r - 1) * another) / r
    return variance * 10**9 <= (s.visited * (10**9 + 1))[:, None]


#: One device with k = 1 and the same function of each component; exact samples.
MANY = rc.Space(
    fields={
        "r": rc.whole_numbers(low=2, high=64),
        "L": rc.positive(low=0.1, high=10.0),
        "H": rc.whole_numbers(low=2, high=32),
        "share": rc.positive(low=0.1, high=1.0),
        "w": rc.positive(low=0.1, high=10.0),
        "part": rc.positive(low=0.0001, high=1.0),
    },
    view=_many,
    assumes={
        "Assumption 4.1": lambda s: abs(s.path[1]) <= s.top[:, None],
        "Assumption 4.2 at the points of the round": _variances_on_the_way,
    },
    batched=True,
    meaning={
        "w": "f is the sum of phi(b_j), phi' = -L b up to |b| = w and constant from there on",
        "part": "the first slope, over the largest one L w",
        "share": _MEANING["share"],
    },
    constructed="r components that are all alike, of which a sketch selects one",
)
