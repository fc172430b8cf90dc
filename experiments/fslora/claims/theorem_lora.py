"""FSLoRA, Theorem 4.4: the functions that refute it, on the whole space and of BA."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ratecheck as rc
from experiments.fslora.paper import PAPER
from experiments.fslora.theory.chain_rates import printed_step
from experiments.fslora.theory.coupling import Coupled
from experiments.fslora.theory.lora_run import LoraRun
from linsys.linalg import Numbers, norm, operator_norm


def _coupled(*, l: Any, u: Any, w: Any, rho: Any, **points: Any) -> SimpleNamespace:  # noqa: E741
    return SimpleNamespace(f=Coupled(l=l, u=u, w=w, rho=rho), **points)


COUPLED = rc.Space(
    fields={
        "l": rc.positive(low=0.1, high=10.0),
        "u": rc.reals(magnitude=(0.1, 10.0)),
        "w": rc.positive(low=0.1, high=100.0),
        "rho": rc.positive(low=1.0, high=8.0),
        "b": rc.interval(low=-1.0, high=3.0),
        "a": rc.interval(low=-3.0, high=3.0),
        "db": rc.interval(low=-1.0, high=1.0),
        "da": rc.interval(low=-1.0, high=1.0),
    },
    view=_coupled,
    batched=True,
    meaning={
        "l": "curvature in a",
        "u": "the coupling",
        "w": "up to which |a| it is linear",
        "rho": "r/k",
        "b": "of X, in units of 4 rho w",
        "a": "of X, in units of w",
        "db": "Y less X in b",
        "da": "Y less X in a",
    },
)


@PAPER.upper(
    "coupling_smooth",
    ref="Theorem 4.4: Assumption 4.1 for the functions that refute it",
    tex=r"\|\nabla f(X)-\nabla f(Y)\|\le\Big(l+\frac{3|u|}{2w}\Big)\|X-Y\|",
    on=COUPLED,
    printed_as="ours",
    derivation="|tau'| <= 1, |tau''| <= 1/w, |tau| <= 3 w/2, |psi'| <= 2/q, |psi''| <= 4/q^2 with "
    "q = 4 rho w: the Hessian has entries of at most l + |u|/w, |u|/(2 w) and 3|u|/(8 w).",
)
def coupling_smooth(f: Coupled, b: Numbers, a: Numbers, db: Numbers, da: Numbers) -> rc.Sides:
    """f = l a^2/2 + u tau(a) psi(b) is smooth with l + 3|u|/(2 w) on the whole space, tau(a) = a
    up to |a| = w and constant from 2 w on, psi 0 up to 4 rho w and 1 from 8 rho w on, with
    parabolas in between.
    """
    apart = f.gradient(b + db, a + da) - f.gradient(b, a)
    length = f.w * norm(f.stretched(db, da))
    return norm(apart), f.smoothness * length


@PAPER.upper(
    "coupling_variance",
    ref="Theorem 4.4: Assumption 4.2 for the functions that refute it",
    tex=r"\mathbb E\|\nabla\tilde f(X;S)-\nabla f^{\mathcal S}(X)\|^2\le\frac{\rho-1}{\rho^2}u^2",
    on=COUPLED,
    printed_as="ours",
    derivation="It is (rho - 1) u^2/rho^2 times (tau' psi)^2 + (rho tau psi')^2. With psi = 1 - 2 "
    "z^2 the last is at most (1 - 2 z^2)^2 + (9/4) z^2 <= 1 for z <= 1/2, with psi = 2 z^2 at most "
    "4 z^4 + (9/4) z^2 < 1.",
)
def coupling_variance(f: Coupled, b: Numbers, a: Numbers) -> rc.Sides:
    """For f of fslora.coupling_smooth E||grad f~(X; S) - grad f^S(X)||^2 <= (rho - 1) u^2/rho^2 for
    all X, rho = r/k.
    """
    return f.sketch_variance(b, a), f.variance


def _run(
    *, r: Any, less: Any, part: Any, share: Any, m: Any, H: Any, N: Any = 1, **others: Any
) -> LoraRun:
    """At least two components in a sketch, not all, and e with which the Hessian is below m."""
    most = r - 1
    k = most - less % (most - 1)
    rho = r / k
    e = part * (rho**2 - 1) / (4 * (rho**2 + 1))
    gamma = share * printed_step(rho[:, None], N + 0 * m, H, m, 0 * m)
    return LoraRun(r=r, k=k, m=m, e=e, H=H, gamma=gamma, N=N, **others)


def _placed(*, b: Any, a: Any, mix: Any, **others: Any) -> SimpleNamespace:
    return SimpleNamespace(run=_run(**others), b=b, a=a, mix=mix)


_FIELDS: dict[str, rc.Field] = {
    "r": rc.whole_numbers(low=3, high=16),
    "less": rc.whole_numbers(low=0, high=13),
    "m": rc.positive(low=0.1, high=10.0),
    "c": rc.positive(low=0.1, high=10.0),
    "part": rc.positive(low=0.1, high=1.0),
    "start": rc.interval(),
    "H": rc.whole_numbers(low=1, high=400),
    "T": rc.whole_numbers(low=1, high=100_000),
    "share": rc.positive(low=0.1, high=1.0),
}
_MEANING = {
    "less": "k is r - 1 less this number, from 2 to r - 1",
    "m": "the curvature, and L",
    "c": "the smallest x",
    "part": "e over (rho^2 - 1)/(4 (rho^2 + 1)), where c (1 + e) is the largest x",
    "start": "where x^0 lies between them",
    "share": "gamma over its largest value",
}
_CONSTRUCTED = (
    "a loss of two entries of W whose slope along the run is linear, so that runs are exact at any "
    "length"
)
_ASSUMES: dict[str, Any] = {
    "Assumption 4.1 where the run can be": lambda s: s.smoothness <= s.m,
    "Assumption 4.2, the sketch, where the run can be": lambda s: s.within_variance,
}
LORA = rc.Space(
    fields=_FIELDS,
    view=_run,
    assumes=_ASSUMES,
    batched=True,
    meaning=_MEANING,
    constructed=_CONSTRUCTED,
)
#: The same with several devices alike and few local steps.
LORA_SHORT = rc.Space(
    fields={**_FIELDS, "N": rc.whole_numbers(low=1, high=20)},
    view=_run,
    assumes=_ASSUMES,
    given={"few local steps": lambda s: 12 * s.rho**2 + 24 * s.rho**3 >= s.H + 1},
    batched=True,
    meaning=_MEANING,
    constructed=_CONSTRUCTED,
)
PLACES = rc.Space(
    fields={**_FIELDS, "b": rc.interval(), "a": rc.interval(), "mix": rc.interval()},
    view=_placed,
    batched=True,
    meaning={
        **_MEANING,
        "b": "B_11 over its largest value",
        "a": "where A_11 lies between c and c (1 + e)",
        "mix": "psi(W_22)",
    },
    constructed=_CONSTRUCTED,
)


#: r = 5 and k = 4 from the minimum of f^S in a long run.
_HELD = {"r": 5, "less": 0, "m": 1, "c": 1, "part": 1, "start": 0.75, "T": 10**5, "share": 1}


@PAPER.upper(
    "thm4_4_lora",
    ref="Theorem 4.4 for a loss of W0 + BA, with constants where the run can be",
    tex=r"\frac1T\sum_t\mathbb E\|\nabla f^{\mathcal S}(X^t)\|^2\le\frac{4(f^{\mathcal S}(X^0)-"
    r"f^*)}{\gamma TH}+\Big(6\frac rk+12\frac{r^2}{k^2}\Big)\gamma L\sigma_s^2",
    on=LORA,
    expect="violated",
    reading_of="thm4_4",
    reading="The constants of Assumptions 4.1 and 4.2 and f* are those of the set where the "
    "iterates can be: on the whole space only affine functions of BA meet Assumption 4.1.",
    note="As for fslora.thm4_4. N = 1, W = B S A of size 2 x 2, B_1 = A_1 = x e_1, B_2 = A_2 = X "
    "e_2, all other components zero, and a loss of W_11 whose minimum is at rho c^2 where W_22 = "
    "0 and at rho c^2 (1 + e)^2 where component 2 is selected: a round that selects component 1 "
    "takes x from x to q x + (1 - q) y, q = (1 - gamma m)^H, y = c or c (1 + e), the latter with "
    "chance p = (k - 1)/(r - 1). From x* = c (1 + e p) the mean of ||grad f^S||^2 tends to 2 (m "
    "k/r)^2 c^2 e^2 p (1 - p)(1 - q)/(1 + q), about (k/r)^2 (c e)^2 p (1 - p) gamma m^3 H, while "
    "sigma_s^2 is about (2 k/r)(m c e)^2 p (1 - p) for k near r. r = 5, k = 4, H = 400 and gamma "
    "= 1/(H^2 L): twice the bound and more in long runs.",
    corrected="thm4_4_corrected",
    main=True,
    uses=["eq13", "eq14"],
    family=[{**_HELD, "H": H} for H in (120, 200, 400)],
)
def thm4_4_lora(s: LoraRun) -> rc.Sides:
    """(1/T) sum_t E||grad f^S(X^t)||^2 <= 4 (f^S(X^0) - f*)/(gamma T H) + (6 r/k + 12 r^2/k^2)
    gamma L sigma_s^2 for one device with exact samples, gamma <= min{1/(6 sqrt(Lbar L H)), 1/(H^2
    L)}; Algorithm 1, one sketch a round.
    """
    noise = (6 * s.rho + 12 * s.rho**2) * s.gamma * s.m * s.sigma_s2 / s.N
    return s.measured, 4 * s.first_gap / (s.gamma * s.T * s.H) + noise


@PAPER.upper(
    "thm4_4_lora_short",
    ref="Theorem 4.4 on the loss of W0 + BA that refutes it, for few local steps",
    tex=r"\frac1T\sum_t\mathbb E\|\nabla f^{\mathcal S}(X^t)\|^2\le\frac{4(f^{\mathcal S}(X^0)-"
    r"f^*)}{\gamma TH}+\Big(6\frac rk+12\frac{r^2}{k^2}\Big)\frac{\gamma L\sigma_s^2}N,\quad "
    r"H+1\le12\frac{r^2}{k^2}+24\frac{r^3}{k^3}",
    on=LORA_SHORT,
    printed_as="ours",
    note="The authors' N = 20 and H = 50 and 20 are among these, with one of their ratios for all "
    "devices. It does not say that (6) holds there for all losses of W0 + BA.",
    derivation="With y = gamma L <= 1/(N H^2), at most 1/6 for H = 1, and g = 1 - (1 - y)^H: a "
    "round keeps at most the share 1 - g (2 - g) k/r of (x - x*)^2, as n^2 <= n N for the n of N "
    "devices that select component 1. The start leaves 2 (L k/r)^2 (x^0 - x*)^2 times r/(k g (2 - "
    "g) T), where g (2 - g) = 1 - (1 - y)^(2 H) >= H y/2, at most 4 F_0/(gamma T H) with F_0 = (L "
    "k/r) (x^0 - x*)^2. Sketches leave at most 2 (L c e k/r)^2 p (1 - p) g/((2 - g) N) with g/(2 "
    "- g) <= (H/2) y/(1 - y), and sigma_s^2 >= 2 (k/r) (L c e)^2 p (1 - p). So H <= (1 - y)(12 "
    "r^2/k^2 + 24 r^3/k^3) is enough, and H + 1 <= 12 r^2/k^2 + 24 r^3/k^3 implies it.",
)
def thm4_4_lora_short(s: LoraRun) -> rc.Sides:
    """N devices with the loss of fslora.thm4_4_lora, one k and exact samples obey (6), with the
    learning rate of Theorem 4.4 and constants as there, for H + 1 <= 12 r^2/k^2 + 24 r^3/k^3, so
    for H <= 35 at any k, for H <= 77 where k/r <= 3/4 and for H <= 239 where k/r <= 1/2.
    """
    return thm4_4_lora(s)


@PAPER.upper(
    "lora_smooth",
    ref="Theorem 4.4: Assumption 4.1 for the loss of W0 + BA that refutes it",
    tex=r"\|\nabla^2\ell(BA)\|\le\frac m2(1+e)^3\Big(1+\frac{k^2}{r^2}\Big)",
    on=PLACES,
    printed_as="ours",
    derivation="l'' <= m (1 + e)/(2 rho^2 c^2), A_11 <= c (1 + e), B_11 <= rho c (1 + e), |W_11 "
    "l'' + l'| <= (m/(2 rho))(1 + 3 e): each entry of the Hessian is at most (m/2)(1 + e)^3 times "
    "that of (1/rho, 1)(1/rho, 1)'.",
)
def lora_smooth(run: LoraRun, b: Numbers, a: Numbers, mix: Numbers) -> rc.Sides:
    """The loss of fslora.thm4_4_lora, of curvature m, where A_11 goes from c to c (1 + e): in
    (B_11, A_11) its Hessian is at most (m/2)(1 + e)^3 (1 + k^2/r^2), at all sketched points of a
    run and between them. With rho = r/k and e <= (rho^2 - 1)/(4 (rho^2 + 1)) that is at most m,
    and in all other entries it is less, so that Assumption 4.1 holds there with L = m.
    """
    return operator_norm(run.hessian(b, a, mix)), run.smoothness
