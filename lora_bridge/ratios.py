"""Density ratios rho^i(s) = mu^i(s) / mu^0(s) of texts, mu^0 = (1/n) sum_j mu^j.

By Bayes' rule with equal priors, rho^i(s) = n p(i | s): a classifier that tells from a text whose
it is gives the ratios, if its probabilities are calibrated. They lie in [0, n], and their mean over
agents is 1 for every text; :func:`checked` asserts both.

The features are frozen: those of the base model before any training. The ratios correct only
what these features show.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linsys.validate import InputError, check_indexed, check_instance, check_integer, check_number
from lora_bridge._checks import finite, floats, masks, probabilities, tensors, whole_numbers
from lora_bridge.bank import INPUTS

__all__ = [
    "Ratios",
    "Whitening",
    "batch_ratio",
    "checked",
    "fit_ratios",
    "pooled_features",
    "ratios_of_shares",
    "whitening",
]

#: Texts that go through the base model at a time.
_AT_ONCE = 256
#: The temperature is sought between these: 1 believes the classifier, a large one calls all texts
#: equally likely for everybody.
_TEMPERATURES = (0.05, 1e3)


def checked(rho: Tensor) -> Tensor:
    """The ratios (n, ..), rows being agents, if they are ratios to the mean of the n measures.

    Raises:
        InputError: a ratio outside of [0, n], or a mean over agents that is not 1.

    >>> checked(torch.tensor([[2.0], [1.0]]))
    Traceback (most recent call last):
        ...
    linsys.validate.InputError: density ratios must have mean 1 over agents; found 1.5
    """
    n = len(floats("rho", rho))
    slack = 8 * n * torch.finfo(rho.dtype).eps
    if not bool(((rho >= 0) & (rho <= n + slack)).all()):
        raise InputError(
            f"density ratios must be in [0, {n}]; found {float(rho.min())} to {float(rho.max())}"
        )
    mean = rho.mean(0)
    worst = mean.flatten()[(mean - 1).abs().argmax()]
    if abs(float(worst) - 1) > slack:
        raise InputError(f"density ratios must have mean 1 over agents; found {float(worst):g}")
    return rho


def batch_ratio(log_ratio: Tensor) -> Tensor:
    """rho^i of whole minibatches, (n, n), from log rho^i of their samples, (n, b, n).

    Axis 0 of the argument is the agent j whose minibatch it is, the last one is i; in the result
    rows are i. A minibatch counts as one sample of the b-fold product of mu^j.

    >>> one = torch.log(torch.tensor([[[1.5, 0.5]], [[0.5, 1.5]]]))
    >>> batch_ratio(one)
    tensor([[1.5000, 0.5000],
            [0.5000, 1.5000]])
    >>> batch_ratio(one.repeat(1, 2, 1))  # 2 * 9 / 10: two samples say more
    tensor([[1.8000, 0.2000],
            [0.2000, 1.8000]])
    """
    floats("log_ratio", log_ratio, "n", "b", len(log_ratio))
    return checked(log_ratio.shape[-1] * torch.softmax(log_ratio.sum(1), -1).mT)


def ratios_of_shares(shares: Tensor) -> Tensor:
    """rho^i of a text of domain c, (n, D), where agents differ only in the shares of domains.

    Args:
        shares: of agent i's texts that are of domain c, (n, D), rows with sum 1; a domain that
            nobody has gets the ratio 1.

    Raises:
        InputError: shares that are negative or do not sum to 1.
    """
    probabilities("shares", shares, "n", "domains")
    mean = shares.mean(0)
    return checked(torch.where(mean > 0, shares / mean.where(mean > 0, 1.0), 1.0))


@torch.no_grad()
def pooled_features(model: Any, texts: Mapping[str, Tensor]) -> Tensor:
    """The base model's last hidden states: their mean over a text's tokens, and the last token's.

    Shape (m, 2 hidden).

    Args:
        model: of transformers; heads and adapters are left out.
        texts: ``input_ids`` and ``attention_mask`` (m, T), or (m, 2, T) of pairs, whose features
            are those of the first text minus those of the second.
    """
    check_instance("model", model, torch.nn.Module, "a model of transformers")
    tensors("texts", texts)
    ids = whole_numbers("input_ids", texts.get("input_ids"))
    masks("attention_mask", texts.get("attention_mask"))
    if ids.ndim not in (2, 3) or (ids.ndim == 3 and ids.shape[1] != 2):
        raise InputError(
            f"`texts` must have shape (m, T), or (m, 2, T) of pairs; found {tuple(ids.shape)}"
        )
    base = getattr(model, "base_model", model)
    device = next(model.parameters()).device
    flat = {k: v.flatten(0, -2) for k, v in texts.items() if k in INPUTS}
    features = []
    for start in range(0, len(flat["input_ids"]), _AT_ONCE):
        part = {k: v[start : start + _AT_ONCE].to(device) for k, v in flat.items()}
        mask = part["attention_mask"]
        states = base(**part).last_hidden_state
        mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        last = mask.shape[1] - 1 - mask.flip(1).argmax(1)  # wherever the padding is
        features.append(torch.cat([mean, states[torch.arange(len(last)), last]], 1))
    pooled = torch.cat(features)
    return pooled if ids.ndim == 2 else pooled[0::2] - pooled[1::2]


@dataclass(frozen=True, eq=False)
class Whitening:
    """An affine map to features with second moments I, the first one 1 everywhere."""

    mean: Tensor
    directions: Tensor  # (hidden, q)

    def __call__(self, features: Tensor) -> Tensor:
        """(m, hidden) to (m, q + 1)."""
        made = (features - self.mean) @ self.directions
        return torch.cat([torch.ones_like(made[:, :1]), made], 1)


def whitening(features: Tensor, most: int = 32) -> Whitening:
    """The map that whitens these features (m, hidden), on their ``most`` leading directions.

    Least squares of a linear head on them has the Hessian I, so that all directions are learned
    together, in tens of steps. A step of single samples is stable below 2 / (1 + (q + 1) / m) or
    so, m being the samples of all agents in a step.

    Raises:
        InputError: features that are all the same.
    """
    check_integer("most", most, low=1)
    mean = finite("features", features, "m", "hidden").mean(0)
    centred = features - mean
    _, sizes, Vt = torch.linalg.svd(centred, full_matrices=False)
    kept = min(most, int((sizes > 1e-4 * sizes[:1]).sum()))
    if kept == 0:
        raise InputError("`features` must differ between texts; found the same for all")
    scale = math.sqrt(len(features)) / sizes[:kept]
    return Whitening(mean, Vt[:kept].T * scale)


@dataclass(frozen=True, eq=False)
class Ratios:
    """What a classifier says about which agent a text is from.

    Attributes:
        log_ratio: of every agent j its texts' log rho^i, (m_j, n), each from a classifier that was
            not trained on that text.
        temperature: the logits are divided by it.
        gain: log n minus the cross-entropy of these probabilities, in nats, averaged over agents: 0
            where texts say nothing of whose they are, log n where they say all.
        error: the gain's standard error.
    """

    log_ratio: tuple[Tensor, ...]
    temperature: float
    gain: float
    error: float


def fit_ratios(
    features: Sequence[Tensor], *, folds: int = 5, strength: float = 1.0, seed: int = 0
) -> Ratios:
    """Logistic regression on the agents' features, cross-fitted, calibrated by one temperature.

    Every agent has the same weight, however many texts it has, as mu^0 is the plain mean. The
    temperature is the one with the least cross-entropy on texts that the classifier has not seen:
    where agents are alike it is large and the ratios tend to 1.

    Args:
        features: one array (m_i, q) per agent, such as those of :func:`whitening`.
        folds: each text's probabilities come from a fit to the other folds.
        strength: of the fit's quadratic penalty.
        seed: of the folds.

    Raises:
        InputError: something else than finite tensors of one width; fewer than two agents, or one
            with fewer texts than folds.
    """
    check_integer("folds", folds, low=2)
    check_number("strength", strength, low=0.0, low_open=True)
    check_integer("seed", seed, low=0)
    check_indexed("features", features, "a list, of one tensor per agent")
    sizes = [len(finite(f"features[{i}]", part, "m", "q")) for i, part in enumerate(features)]
    n = len(sizes)
    if n < 2 or min(sizes) < folds:
        raise InputError(
            f"`features` must be of 2 or more agents with at least {folds} texts each; "
            f"found {sizes}"
        )
    for part in features:
        floats("features", part, "m", features[0].shape[1])
    Z = torch.cat(list(features)).detach().double().cpu().numpy()
    owner = np.repeat(np.arange(n), sizes)
    weight = (len(owner) / n / np.asarray(sizes))[owner]
    rng = np.random.default_rng(seed)
    fold = np.concatenate([rng.permutation(np.arange(size) % folds) for size in sizes])
    logits = np.empty((len(owner), n))
    for held in range(folds):
        rest = fold != held
        logits[~rest] = _fitted(Z[rest], owner[rest], weight[rest], strength, Z[~rest])
    temperature = _calibrated(logits, owner, weight)
    logs = _log_softmax(logits / temperature)
    own = logs[np.arange(len(owner)), owner] + math.log(n)
    by_agent = [own[owner == i] for i in range(n)]
    error = math.sqrt(sum(v.var(ddof=1) / v.size for v in by_agent)) / n
    parts = torch.split(torch.from_numpy(logs + math.log(n)).to(features[0]), sizes)
    gain = float(np.mean([v.mean() for v in by_agent]))
    return Ratios(tuple(parts), temperature, gain, error)


_Array = NDArray[np.float64]


def _fitted(Z: _Array, owner: Any, weight: _Array, strength: float, new: _Array) -> _Array:
    """Logits (m, n) of new texts."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1.0 / strength, max_iter=200)
    with warnings.catch_warnings():  # the temperature makes up for last digits
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(Z, owner, sample_weight=weight)
    logits: _Array = model.decision_function(new)
    return np.stack([-logits / 2, logits / 2], 1) if logits.ndim == 1 else logits


def _calibrated(logits: _Array, owner: Any, weight: _Array) -> float:
    """The temperature with the least cross-entropy."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        logs = _log_softmax(logits / math.exp(log_temperature))
        return -float(weight @ logs[np.arange(len(owner)), owner])

    low, high = (math.log(t) for t in _TEMPERATURES)
    return math.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x)


def _log_softmax(logits: _Array) -> _Array:
    shifted = logits - logits.max(1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(1, keepdims=True)))
