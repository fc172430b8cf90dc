"""The disagreement drift on a language model, against beta and the batch size.

Problem and assumptions: clients at one policy, the model's first one (adapters of zero effect) and
one that FIRM has trained. ``responses`` of each are sampled, and the gradients of all of them are
taken one by one. A client's minibatch is B of them drawn with replacement: independent draws of a
known law, with the mean of all as the true gradients. So everything is a function of inner
products, and as many clients can be drawn as are wanted.

Algorithm: FIRM's weights, equation (9).

Guarantee: T_disagr = O(1 / (beta sqrt(B))), Theorem 1: exponents -1 and -1/2, as upper bounds.

Derived, for two objectives. With the normalised Gram matrix [[1 + e, g], [g, 1 - e]] of a client,
lambda^1 - 1/2 = -(e / 2) / (1 - g + beta / 2) inside the simplex, and T is quadratic in these.

- beta >= 4: all clients are inside (|e| <= 1). The exponent of beta in each of them is between -1
  and -beta / (beta + 4), as 1 - g <= 2: that of T is -2 up to 4 / 100 * 2 from beta = 100 on.
- beta <= .01: it changes any 1 - g above .1 by a twentieth at most: exponent 0 up to .1.
- B: where noise dominates, e and g are of order 1 whatever B is, and T falls as the square of the
  noise of g^1 - g^2, with exponent -1. Where noise is small and the true solution is inside,
  deviations of weights are of order B^{-1/2} too, exponent -2; at a vertex T vanishes faster than
  any power. Hence no exponent above -1, up to where the regimes meet; the batch that
  separates them is the ratio of noise to signal, which a note gives.

References: FIRM, Theorem 1, Lemma 1, equations (7) and (9).

The picture shows means over seeds with 90 % bands; condition numbers are those of normalised Gram
matrices without regularisation and with beta = .05: medians over clients. Slopes are of the mean
over ``draws`` of clients, intervals over seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.bridge.models import Values, threads
from experiments.firm.bridge._firm import LAPTOP, PAPER, Arm, FirmConfig, FirmSetup
from experiments.firm.bridge._firm_comparison import TINY, log_band
from experiments.firm.bridge._firm_runs import step_size
from linsys import InputError
from linsys.rounds import rounds
from mgda.simplex import gram, simplex_qp, trace_normalised

POLICIES = ("first policy", "trained policy")
#: Of the two regularisations whose condition numbers are shown.
PLAIN = "β = 0"
BETA, SIZE, CONDITION = "drift against β", "drift against B", "condition number of G"
#: Windows of the exponents of beta: see the module's text.
SMALL, LARGE = 0.01, 100.0


@dataclass(frozen=True, kw_only=True)
class FirmDriftConfig(FirmConfig):
    """The set-up."""

    clients: int = rc.param(2, low=2)
    rounds: int = 8
    responses: int = rc.param(256, low=2, doc="sampled at each policy.")
    draws: int = rc.param(500, low=2, doc="of all clients, at every B.")
    batches: tuple[int, ...] = rc.param(
        (4, 8, 16, 32, 64, 128), low=1, least=3, increasing=True, doc="values of B."
    )
    decades: int = rc.param(4, low=3, doc="beta from 10^-decades to 10^decades.")
    shown: int = rc.param(16, low=2, doc="of batches, where beta varies.")
    conditioned: float = rc.param(
        0.05, low=0.0, doc="beta whose effect on condition numbers is shown."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shown not in self.batches:
            raise InputError(f"`shown` must be one of batches, {self.batches}; found {self.shown}")

    @property
    def betas(self) -> Values:
        """Two in a decade."""
        return np.logspace(-self.decades, self.decades, 4 * self.decades + 1)


@dataclass(frozen=True, eq=False)
class Responses:
    """The gradients of single responses, by their inner products.

    Attributes:
        K: of n responses and two objectives, shape (n, 2, n, 2).
    """

    K: Values

    @classmethod
    def of(cls, gradients: Any) -> Responses:
        """Of gradients (n, d, 2).

        Raises:
            InputError: all of them are zero, as where all responses have the same rewards.
        """
        n, d, M = gradients.shape
        flat = gradients.swapaxes(0, 1).reshape(d, n * M)
        K = gram(flat).reshape(n, M, n, M)
        if not K.any():
            raise InputError(
                f"{n} responses must differ in a reward, or there is no gradient; found the same "
                "rewards for all: raise length or responses"
            )
        return cls(K)

    @property
    def noise(self) -> float:
        """tr Cov / ||mean||^2 of single responses' gradients, both objectives together."""
        mean = float(np.einsum("ijkj->", self.K)) / len(self.K) ** 2
        square = float(np.einsum("ijij->", self.K)) / len(self.K)
        return square / mean - 1.0

    def drawn(self, C: int, B: int, draws: int, rng: np.random.Generator) -> Values:
        """Inner products of C clients' gradients of B responses each, (draws, C, 2, C, 2)."""
        n = len(self.K)
        shares = rng.multinomial(B, np.full(n, 1.0 / n), size=(draws, C)) / B
        rows = np.tensordot(shares, self.K, axes=(2, 0))  # draws, C, 2, n, 2
        return np.asarray(np.einsum("rcjnk,rdn->rcjdk", rows, shares))


def weights_of(G: Values, beta: float) -> Values:
    """The clients' lambda, (draws, C, 2), of inner products (draws, C, 2, C, 2)."""
    own = np.einsum("rcjck->rcjk", G)
    return simplex_qp(trace_normalised(own), beta=beta).weights


def drift_of(G: Values, weights: Values) -> Values:
    """Disagreement, (draws,)."""
    v = (weights - weights.mean(axis=1, keepdims=True)) / weights.shape[1]
    return np.asarray(np.maximum(np.einsum("rcj,rcjdk,rdk->r", v, G, v), 0.0))


def conditions(G: Values, beta: float) -> Values:
    """Condition numbers of normalised Gram matrices with beta / 2 added, (draws, C)."""
    own = trace_normalised(np.einsum("rcjck->rcjk", G))
    values = np.linalg.eigvalsh(own + 0.5 * beta * np.eye(2))
    return np.asarray(values[..., -1] / np.maximum(values[..., 0], 1e-15))


def compute(config: FirmDriftConfig, block: rc.Block, context: rc.Context) -> rc.Columns:
    """Drifts and condition numbers at both policies of a draw."""
    k, arm, setup = block["draw"], Arm(config.firm()), FirmSetup(config)
    with threads(context):
        alpha = step_size(setup, context)
        oracle, algorithm = setup.alignment(arm, "test", k), arm.method(alpha)
        state = setup.beginning(oracle, algorithm, "test", k)
        policies = [state.theta[:, :1]]
        *_, (trained, _) = rounds(algorithm, oracle, state, config.rounds)
        policies.append(trained.theta[:, :1])
        given = {field.name: getattr(config, field.name) for field in fields(FirmConfig)}
        size = config.responses
        one = FirmConfig(**{**given, "clients": 1, "batch": size, "minibatch": size, "epochs": 1})
        wide = FirmSetup(one).alignment(arm, "drift", k)
        answers = [Responses.of(wide.each(theta, wide.init())[0][0]) for theta in policies]
    shape = (len(POLICIES), len(config.betas), len(config.batches))
    drift, condition = np.full(shape, np.nan), np.full((2, *shape), np.nan)
    for i, responses in enumerate(answers):
        for j, B in enumerate(config.batches):
            rng = np.random.default_rng(config.derive("draws", k, i, B))
            G = responses.drawn(config.clients, B, config.draws, rng)
            for b, beta in enumerate(config.betas):
                drift[i, b, j] = drift_of(G, weights_of(G, float(beta))).mean()
            for c, beta in enumerate((0.0, config.conditioned)):
                condition[c, i, :, j] = np.median(conditions(G, beta))
    axes: dict[str, Any] = {"policy": list(POLICIES), "beta": config.betas, "B": config.batches}
    noise = np.array([responses.noise for responses in answers])[:, None, None]
    return rc.long_table(
        axes,
        drift=drift,
        condition=condition[0],
        conditioned=condition[1],
        noise=noise,
        alpha=alpha,
        what=setup.said_of_model(),
    )


def analyse(config: FirmDriftConfig, table: rc.Table) -> rc.Analysis:
    """Curves, exponents over seeds, and condition numbers."""
    series: list[rc.Series] = []
    checks: list[rc.Check] = []
    notes = [f"{table['what'][0]}; {config.seeds} seeds; step size {table['alpha'][0]:g}"]
    betas, sizes = config.betas, np.array(config.batches, dtype=float)
    for policy in POLICIES:
        part = table.where(policy=policy)
        grid = part.grid("drift", "draw", "beta", "B")
        at = grid[:, :, config.batches.index(config.shown)]
        series.append(rc.Series(policy, BETA, betas, *log_band(at)))
        least = grid[:, 0, :]
        series.append(rc.Series(policy, SIZE, sizes, *log_band(least)))
        for name, column in (
            (PLAIN, "condition"),
            (f"β = {config.conditioned:g}", "conditioned"),
        ):
            values = part.where(beta=betas[0]).grid(column, "draw", "B")
            series.append(rc.Series(f"{policy}, {name}", CONDITION, sizes, *rc.mean_band(values)))
        large, small = betas >= LARGE, betas <= SMALL
        over_large = _slope(betas[large], at[:, large])
        over_small = _slope(betas[small], at[:, small])
        over_B = _slope(sizes, least)
        checks += [
            rc.rate_check(f"{policy}, large β: as stated", -1.0, over_large, bound=True),
            rc.rate_check(f"{policy}, B: as stated", -0.5, over_B, bound=True),
        ]
        derived = [
            rc.rate_check(
                f"{policy}, large β: as derived", -2.0, over_large, tolerance=8.0 / LARGE
            ),
            rc.rate_check(f"{policy}, small β: as derived", 0.0, over_small, tolerance=0.1),
            rc.at_most(f"{policy}, B: as derived", "-1 or less", over_B, -1.0),
        ]
        checks += [rc.our_own(check) for check in derived]
        ratio = part.where(beta=betas[0], B=config.shown)
        medians = [float(ratio[name].mean()) for name in ("condition", "conditioned")]
        noise = part.where(beta=betas[0], B=config.batches[0])["noise"]
        local = np.diff(np.log(np.maximum(least.mean(axis=0), TINY))) / np.diff(np.log(sizes))
        notes.append(
            f"{policy}: a response's noise is {noise.mean():.0f} times the signal (over seeds "
            f"{noise.min():.0f} to {noise.max():.0f}), the batch where the regimes meet; exponents "
            f"from one B to the next: {', '.join(f'{v:.2f}' for v in local)}; median condition "
            f"number at B = {config.shown}: {medians[0]:.2f}, and {medians[1]:.2f} with β = "
            f"{config.conditioned:g}"
        )
    return rc.Analysis(series, checks, notes)


def _slope(x: Values, per_seed: Values) -> rc.Interval:
    """The mean of the seeds' log-log slopes, and Student's interval; zero counts as tiny."""
    kept = np.maximum(per_seed, TINY)
    return rc.mean_interval(np.array([rc.exact_slope(x, y).value for y in kept]))


def panels(config: FirmDriftConfig) -> dict[str, rc.Panel]:
    """Drift against beta and B, and condition numbers."""
    drift = r"$T_{\mathrm{disagr}}$"
    return {
        BETA: rc.Panel("β", f"{drift}, B = {config.shown}", log="xy"),
        SIZE: rc.Panel("B", f"{drift}, β = {config.betas[0]:g}", log="xy"),
        CONDITION: rc.Panel("B", log="x", low=1.0),
    }


def layout(config: FirmDriftConfig) -> rc.Layout:
    """A colour for each policy, dashed with beta."""
    dashed = f"β = {config.conditioned:g}"
    looks = {
        f"{policy}{beta}": replace(rc.look("", place), line=line)
        for place, policy in enumerate(POLICIES)
        for beta, line in (("", "-"), (f", {PLAIN}", "-"), (f", {dashed}", "--"))
    }
    return rc.Layout(width=2.9, height=2.6, legend=3, looks=looks)


EXPERIMENT = rc.Experiment(
    id="bridge/firm_drift",
    title="Disagreement drift against beta and the batch, on a language model",
    source="FIRM, Theorem 1 and Lemma 1",
    kind="figure",
    profiles={
        "quick": FirmDriftConfig(),
        "laptop": FirmDriftConfig(
            **{**LAPTOP, "rounds": 4},
            responses=64,
            draws=200,
            batches=(4, 8, 16, 32),
            shown=8,
        ),
        "paper": FirmDriftConfig(**PAPER, clients=8, rounds=16),
    },
    blocks=rc.Grid({"draw": "seeds"}),
    compute=compute,
    analyse=analyse,
    panels=panels,
    layout=layout,
    parallel="blocks",
)
