"""Random numbers for sampling tokens: functions of names alone, equal everywhere to rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linsys.compiled import compiled
from linsys.validate import check_integer

__all__ = ["choose", "gumbel", "token_keys"]

#: Second word of Philox's key, so that samples share no numbers with the draws of data.
_STREAM = 1
#: splitmix64's constants, of its counter and of its two multiplications, as signed numbers.
_STEP = -0x61C8864680B583EB
_FACTORS = (-0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15)
#: The same as machine words, for compiled code.
_STEP_WORD, _FIRST_WORD, _SECOND_WORD = (np.uint64(x % 2**64) for x in (_STEP, *_FACTORS))
_ALL = np.uint64(2**64 - 1)
#: The bits of 1.0; with others in the last 52 places, of a number from 1 to 2.
_ONE_WORD = np.uint64(0x3FF << 52)
#: Tokens whose bounds are computed together: a processor's nearest cache holds them.
_BLOCK = 512
_LOG_2 = math.log(2.0)
#: Above the rounding of noise and of its bound, which are at most 710.
_SLACK = 1e-9


def choose(logits: Tensor, keys: Tensor, temperature: float) -> Tensor:
    """Tokens (S,) drawn from the softmax of logits (S, V) / temperature, by keys (S,).

    The token with the largest logit / temperature plus :func:`gumbel`. On a processor compiled code
    finds it, and computes the noise itself only where a bound of it could win.
    """
    if logits.device.type != "cpu" or logits.dtype not in (torch.float32, torch.float64):
        noise = gumbel(keys, logits.shape[-1])
        return (logits.double() / temperature + noise).max(-1).indices  # argmax is slower
    tokens = np.empty(len(logits), np.int64)
    array = logits.contiguous().numpy()
    words = keys.contiguous().numpy().view(np.uint64)
    _choose(array, words, temperature, array.argmax(-1), tokens)  # torch's takes ten times as long
    return torch.from_numpy(tokens)


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


@compiled
def _word(key: np.uint64, v: int) -> np.uint64:
    """Output v of the generator whose state is the key."""
    x = key + np.uint64(v + 1) * _STEP_WORD
    x = (x ^ (x >> np.uint64(30))) * _FIRST_WORD
    x = (x ^ (x >> np.uint64(27))) * _SECOND_WORD
    return x ^ (x >> np.uint64(31))


@compiled
def _uniform(key: np.uint64, v: int) -> float:
    """The variable in (0, 1] of token v, of which :func:`gumbel` takes -log(-log(u))."""
    return (np.float64(np.int64(_word(key, v) >> np.uint64(11))) + 0.5) * 2.0**-53


@compiled
def _value(logit: float, u: float) -> float:
    log = math.log(u)
    return logit - math.log(-log) if log < 0.0 else np.inf


@compiled
def _choose(
    logits: NDArray[np.floating],
    keys: NDArray[np.uint64],
    temperature: float,
    largest: NDArray[np.int64],
    tokens: NDArray[np.int64],
) -> None:
    """The token of each row with the largest logit plus noise; ``largest`` has the largest logit.

    -log(u) >= 1 - u, and log2 of 1 - u = 2^e (1 + m) is at least e + m, which is what its bits are,
    read as a whole number. So -log(-log(u)) <= -log(2) (e + m): a bound without a logarithm. Vector
    instructions compute it for a block of tokens, from the generator's first 52 bits inverted,
    which are 1 - u rounded down, and from the first half of what e + m is.
    """
    rows, V = logits.shape
    words = np.empty(_BLOCK, np.uint64)
    below = words.view(np.float64)
    bounds = np.empty(_BLOCK)
    for s in range(rows):
        key, row = keys[s], logits[s]
        token = largest[s]
        best = _value(np.float64(row[token]) / temperature, _uniform(key, token))
        for start in range(0, V, _BLOCK):
            own = row[start : start + _BLOCK]
            n = len(own)
            for i in range(n):
                words[i] = ((_word(key, start + i) ^ _ALL) >> np.uint64(12)) | _ONE_WORD
            for i in range(n):
                below[i] -= 1.0
            for i in range(n):
                half = np.float64(np.int32(words[i] >> np.uint64(32)))
                noise = _LOG_2 * (1023.0 - half * 2.0**-20) + _SLACK
                bounds[i] = np.float64(own[i]) / temperature + noise
            possible = 0
            for i in range(n):
                possible += bounds[i] > best
            if possible == 0:
                continue
            for i in range(n):
                if bounds[i] > best:
                    value = _value(np.float64(own[i]) / temperature, _uniform(key, start + i))
                    if value > best:
                        best, token = value, start + i
        tokens[s] = token


def token_keys(clients: Sequence[int], b: int, length: int, seed: int, round_: int) -> Tensor:
    """64 random bits for every token, shape (clients, b, length)."""
    key = [check_integer("seed", seed, low=0, high=(1 << 64) - 1), _STREAM]
    check_integer("round_", round_, low=0)
    counters = [
        [0, i, check_integer("clients", client), round_] for client in clients for i in range(b)
    ]
    rows = [np.random.Philox(key=key, counter=counter).random_raw(length) for counter in counters]
    return torch.from_numpy(np.stack(rows).view(np.int64)).reshape(-1, b, length)
