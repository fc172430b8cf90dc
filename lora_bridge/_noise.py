"""Random numbers for sampling tokens: functions of names alone, equal everywhere to rounding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from linsys.validate import check_integer

__all__ = ["gumbel", "token_keys"]

#: Second word of Philox's key, so that samples share no numbers with the draws of data.
_STREAM = 1
#: splitmix64's constants, of its counter and of its two multiplications, as signed numbers.
_STEP = -0x61C8864680B583EB
_FACTORS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)


def gumbel(keys: Tensor, V: int) -> Tensor:
    """V independent Gumbel variables of each 64-bit key (S,): float64, shape (S, V).

    Token v has the output v of the generator splitmix64 (Steele, Lea and Flood, 2014) whose state
    is the key: a counter through a mixing function, in any order and on any device.
    """
    x = keys[:, None] + torch.arange(1, V + 1, device=keys.device) * _STEP
    x = _xor_shifted(x, 30) * _FACTORS[0]
    x = _xor_shifted(x, 27) * _FACTORS[1]
    bits = (_xor_shifted(x, 31) >> 11) & ((1 << 53) - 1)
    return bits.double().add_(0.5).mul_(2.0**-53).log_().neg_().log_().neg_()


def _xor_shifted(x: Tensor, shift: int) -> Tensor:
    """x XOR (x >> shift) of bits: int64's own shift copies the sign, which the mask removes."""
    return x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))


def token_keys(clients: Sequence[int], b: int, length: int, seed: int, round_: int) -> Tensor:
    """64 random bits for every token, shape (clients, b, length)."""
    key = [check_integer("seed", seed, low=0, high=(1 << 64) - 1), _STREAM]
    check_integer("round_", round_, low=0)
    counters = [
        [0, i, check_integer("clients", client), round_] for client in clients for i in range(b)
    ]
    rows = [np.random.Philox(key=key, counter=counter).random_raw(length) for counter in counters]
    return torch.from_numpy(np.stack(rows).view(np.int64)).reshape(-1, b, length)
