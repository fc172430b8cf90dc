"""FIRM, the disagreement drift (1/C) sum_c A_c (lambda^c - lambdabar), for any weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.firm.theory import perturbation as at
from linsys.linalg import Numbers, agent_mean, norm, squared
from ratecheck import gram as g


def _over_clients(g: Numbers, lam: Numbers) -> dict[str, Any]:
    """The drift; and the norms of all clients' matrices and weights as two vectors of R^C."""
    apart = at.deviations(lam)
    sizes, lengths = at.spectral_of(at.tangent(at.deviations(g))), norm(apart)
    share = np.sqrt((1 + 0 * lengths[:, :1]) / lengths.shape[1])
    return {
        "drift": agent_mean(at.combined(g, apart)),
        "sizes": share * sizes,
        "lengths": share * lengths,
        "both": (share**2 * sizes * lengths).sum(axis=1),
        "S": np.sqrt(agent_mean(sizes**2)),
        "N": np.sqrt(agent_mean(squared(apart))),
    }


@g.theorem("firm.law_cauchy_schwarz", at=_over_clients, power=2)
def law_cauchy_schwarz(p: g.Problem) -> None:
    """T <= mean ||(A_c - Abar) P||^2 mean ||lambda^c - lambdabar||^2."""
    drift = p.vector("drift", "R^d")
    sizes, lengths = p.vectors("sizes lengths", "R^C")
    both, S, N = (p.parameter(name) for name in ("both", "S", "N"))
    p.assume(drift.squared <= both**2, "triangle inequality, and lambda^c - lambdabar has sum 0")
    p.equal(both, sizes @ lengths, "what both is", factors=[both, S * N])
    p.bounded(sizes, S, "the sizes of all clients")
    p.bounded(lengths, N, "the lengths of all clients")
    p.cauchy_schwarz(sizes, lengths, "Cauchy-Schwarz", factors=[both, S * N])
    p.show(drift.squared <= S**2 * N**2)
