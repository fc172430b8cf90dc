"""The algorithm, for NumPy and torch alike, over whatever oracle gives gradients of devices."""

from dataclasses import dataclass
from typing import Any, NamedTuple


class State(NamedTuple):
    """The global rows X (r, w), and rounds done."""

    X: Any
    t: int


@dataclass(frozen=True)
class FedProx:
    """H steps of size gamma along grad f_i(x) + mu (x - X) at every device, then the mean."""

    gamma: float
    H: int
    mu: float

    def init(self, X: Any, oracle: Any) -> State:
        return State(X, 0)

    def round(self, state: State, oracle: Any) -> tuple[State, None]:
        X, t = state
        ends = []
        for device in range(oracle.devices):
            x = X
            for h in range(self.H):
                x = x - self.gamma * (oracle.grad(device, x, 1.0, t, h) + self.mu * (x - X))
            ends.append(x)
        return State(sum(ends) / len(ends), t + 1), None
