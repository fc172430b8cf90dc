"""FIRM, Section 1 and Appendix B: a round as messages between clients and a server.

Every function is one side of the connection and sees what it is sent, nothing else.

>>> numbers_sent(clients=8, objectives=2, size=10)
(80, 160)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from linsys.validate import Array
from mgda.fedcmoo import FedCMOO
from mgda.federated import State
from mgda.firm import FIRM

_FIRM = FIRM(alpha=0.5, beta=1.0)
_SERVER = FedCMOO(alpha=0.5, beta=1.0)


def firm_client(theta: Array, gradients: Array) -> Array:
    """What a client of FIRM sends after its local step from theta (d,) along g (d, M)."""
    state = _FIRM.step(_FIRM.init(theta[None]), gradients[None])
    return np.asarray(state.theta[0])


def firm_server(sent: Sequence[Array]) -> Array:
    """The parameters that FIRM's server makes of what the clients sent."""
    return np.asarray(np.mean(sent, axis=0))


def plain_client(gradients: Array) -> Sequence[Array]:
    """What a client that leaves its objectives to the server sends: gradients (d, M)."""
    return tuple(part[0] for part in _SERVER.compress(gradients[None], 0))


def plain_server(theta: Array, sent: Sequence[Sequence[Array]]) -> Array:
    """The parameters after the server has weighed the clients' gradients and made the step."""
    gradients = _SERVER.restore(tuple(map(np.stack, zip(*sent, strict=True))))
    start = _SERVER.init(theta + np.zeros((len(sent), 1)))
    after: State = _SERVER.move(start, gradients, _SERVER.resolve(start, gradients))
    return np.asarray(after.theta[0])


def gradients_of(clients: int, objectives: int, size: int) -> tuple[Array, Array]:
    """Parameters (d,) and gradients (C, d, M) of a round."""
    rng = np.random.default_rng(7)
    return rng.standard_normal(size), rng.standard_normal((clients, size, objectives))


@cache
def numbers_sent(clients: int, objectives: int, size: int) -> tuple[int, int]:
    """Numbers sent to the server in a round, by FIRM's clients and by plain ones."""
    theta, gradients = gradients_of(clients, objectives, size)
    resolved = [firm_client(theta, own) for own in gradients]
    left: list[Any] = [plain_client(own) for own in gradients]
    firm_server(resolved)
    plain_server(theta, left)
    return sum(x.size for x in resolved), sum(part.size for x in left for part in x)
