"""Whether a mean is positive, decided while samples come in, by betting on it.

A gambler begins with a wealth of one and stakes a part of it on every sample, chosen before the
sample is seen: the wealth is multiplied by 1 + stake * sample. Where the mean of the samples is at
most zero, whatever came before, the wealth is a nonnegative supermartingale; so the probability
that it ever reaches 1/alpha is at most alpha (Ville's inequality), and one may look after every
sample. The stake is about that of fastest growth, the mean over the mean square of what was seen.

Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting", 2024.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

#: A sample costs at most this share of the wealth.
_BOLD = 0.5


class Bet:
    """The wealth of a gambler who bets that the mean of bounded samples is positive.

    Args:
        low: no sample is smaller.
        high: no sample is larger.

    Attributes:
        log_wealth: the largest logarithm of the wealth so far.

    >>> rng = np.random.default_rng(0)
    >>> fair, lucky = Bet(-1, 1), Bet(-1, 1)
    >>> fair.see(rng.uniform(-1, 1, 5000))
    >>> lucky.see(rng.uniform(-0.8, 1, 5000))
    >>> fair.rejects(1e-6), lucky.rejects(1e-6)
    (False, True)
    """

    def __init__(self, low: float, high: float) -> None:
        self._most = _BOLD / (-low if low < 0 else high - low)
        self._sum, self._squares = 0.0, (high - low) ** 2 / 4
        self._log, self.log_wealth = 0.0, 0.0

    def see(self, samples: NDArray[np.float64]) -> None:
        """Bet on these samples, one after the other."""
        sums = self._sum + np.cumsum(samples)
        squares = self._squares + np.cumsum(samples**2)
        before = np.concatenate([[self._sum], sums[:-1]]) / np.concatenate(
            [[self._squares], squares[:-1]]
        )
        stakes = np.clip(before, 0.0, self._most)
        logs = self._log + np.cumsum(np.log1p(stakes * samples))
        self._sum, self._squares, self._log = float(sums[-1]), float(squares[-1]), float(logs[-1])
        self.log_wealth = max(self.log_wealth, float(logs.max()))

    def rejects(self, alpha: float) -> bool:
        """Whether the mean is positive; wrongly so with probability at most ``alpha``."""
        return self.log_wealth >= -math.log(alpha)
