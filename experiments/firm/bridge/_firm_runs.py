"""Runs of FIRM and its rivals on a language model, and what is seen along them.

The clients are those of ``_firm``; how runs are compared and drawn is in ``_firm_comparison``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ratecheck as rc
from experiments.bridge.models import Values, threads
from experiments.firm.bridge._firm import Arm, FirmConfig, FirmSetup
from mgda.simplex import gram, simplex_qp, trace_normalised

#: What the oracle reports of a rollout.
_REPORTED = ("scores", "kl_token", "kl_sequence")
#: Responses that are judged at a time.
_AT_ONCE = 128


def train(
    setup: FirmSetup,
    arm: Arm,
    use: str,
    k: int,
    context: rc.Context,
    *,
    alpha: float,
    betas: Sequence[float] = (),
    name: str = "",
) -> dict[str, Values]:
    """Train on one draw to the end, and measure every step.

    ``name`` is the arm's: a run that was killed goes on from the checkpoints under this name.

    Returns:
        Arrays whose first axis is the step:
        ``weights`` (steps, C, 2), ``scores`` (steps, C, 2) of the rollout in use, ``kl_token`` and
        ``kl_sequence`` (steps, C) of it; ``drift`` (steps,), the disagreement; ``others`` (steps,
        len(betas)), what it would be with other betas for the same gradients; ``cosine`` (steps,
        C), between a client's gradients; ``ends`` (steps, R), what the last policy gets on the
        tests of all rewards of the figure, the same in all steps.
    """
    from lora_bridge.peft_io import by_client
    from lora_bridge.runs import repeated

    oracle, algorithm = setup.alignment(arm, use, k), arm.method(alpha)
    state = setup.beginning(oracle, algorithm, use, k)
    C, times = oracle.C, setup.config.steps.tolist()
    seen = {
        "weights": np.zeros((C, 2)),
        "scores": np.zeros((C, 2)),
        "kl_token": np.zeros(C),
        "kl_sequence": np.zeros(C),
        "drift": np.zeros(()),
        "others": np.zeros(len(betas)),
        "cosine": np.zeros(C),
        "ends": np.zeros(len(setup.rewards())),
    }

    def advance(now: tuple[Any, dict[str, Any]], t: int) -> tuple[Any, dict[str, Any]]:
        after, gradients = algorithm.local_step(now[0], oracle)
        report = after.memory.report
        assert after.weights is not None
        measured = {name: report[name].double().cpu().numpy() for name in _REPORTED}
        measured |= looked_at(gradients[0], after.weights[0], betas)
        measured["ends"] = seen["ends"]
        if t + 1 == times[-1]:
            measured["ends"] = judge(setup, after.theta[0, :1], use, k)
        return after, measured

    def measure(now: tuple[Any, dict[str, Any]]) -> dict[str, Values]:
        return now[1]

    def adapters(now: tuple[Any, dict[str, Any]]) -> Any:
        return by_client(oracle.bank, now[0].theta[0].reshape(C, oracle.rank, -1))

    clients = [f"client-{i}" for i in range(C)]
    rewards = [f"reward_{j}" for j in range(1, len(seen["ends"]) + 1)]
    run = f"{name} {algorithm} {oracle.choices} {use} {k}"
    recorded = repeated(
        run,
        advance,
        (state, seen),
        times,
        measure,
        adapters=adapters,
        labels={
            **{key: [clients] for key in ("kl_token", "kl_sequence", "cosine")},
            **{key: [clients, rewards[:2]] for key in ("weights", "scores")},
            "others": [[f"beta={beta:g}" for beta in betas]],
            "ends": [rewards],
        },
        folder=context.folder,
        every=25,
    )
    recorded["ends"] = np.broadcast_to(recorded["ends"][-1], recorded["ends"].shape)
    return recorded


def looked_at(gradients: Any, weights: Values, betas: Sequence[float]) -> dict[str, Values]:
    """Drift, what it would be with other betas, and cosines, of gradients (C, d, 2).

    All are functions of inner products, so that gradients are read once.
    """
    C, d, M = gradients.shape
    flat = gradients.swapaxes(0, 1).reshape(d, C * M)
    G = gram(flat)
    own = G.reshape(C, M, C, M)[np.arange(C), :, np.arange(C)]
    lengths = np.sqrt(np.einsum("cjj->cj", own))
    others = [simplex_qp(trace_normalised(own), beta=beta).weights for beta in betas]
    return {
        "weights": weights,
        "drift": np.array(_drift(G, weights)),
        "others": np.array([_drift(G, w) for w in others]),
        "cosine": own[:, 0, 1] / np.maximum(lengths[:, 0] * lengths[:, 1], 1e-300),
    }


def _drift(G: Values, weights: Values) -> float:
    """The disagreement of weights (C, M) for gradients with inner products G (C M, C M)."""
    apart = weights - weights[:1]  # exactly zero where all are the same
    v = (apart - apart.mean(axis=0)).ravel() / len(weights)
    return max(float(v @ G @ v), 0.0)


def judge(setup: FirmSetup, theta: Any, use: str, k: int) -> Values:
    """Mean rewards (R,) of one policy on the test prompts, for all R >= 2 rewards of the figure.

    All policies are sampled with the same random numbers.

    Args:
        setup: the model and its rewards.
        theta: the adapter, shape (1, d).
        use, k: the draw.
    """
    from lora_bridge.rewards import scores
    from lora_bridge.rollouts import encode_prompts, responses, sample

    config, bank, tokenizer = setup.config, setup.bank(), setup.loaded.tokenizer
    tests, rewards = setup.prompts(use, k)[1], setup.rewards()
    X = theta.reshape(1, config.rank, -1)
    total = np.zeros(len(rewards))
    for start in range(0, len(tests), _AT_ONCE):
        texts = [tests[start : start + _AT_ONCE]]
        batch = sample(
            bank,
            X,
            setup.encoded(encode_prompts, texts),
            length=config.length,
            temperature=config.temperature,
            seed=config.derive("judge", use, k),
            round_=start,
        )
        scored = scores(rewards, texts, responses(tokenizer, batch), config.output_scaling)
        total += scored.numpy()[0].sum(axis=0)
    return total / len(tests)


def step_size(setup: FirmSetup, context: rc.Context) -> float:
    """The step size with which FIRM has the largest mean reward on the tuning draws."""
    arm = Arm(setup.config.firm())

    def score(alpha: float, k: int) -> float:
        return -float(train(setup, arm, "tuning", k, context, alpha=alpha)["ends"][-1].mean())

    return setup.config.best(score)


def columns(
    config: FirmConfig,
    arms: dict[str, Arm],
    k: int,
    context: rc.Context,
    betas: Sequence[float] = (),
) -> rc.Columns:
    """All arms of draw k: one row per arm and step; ``start`` and ``end`` are on the tests."""
    setup = FirmSetup(config)
    with threads(context):
        alpha = step_size(setup, context)
        runs = [
            train(setup, arm, "test", k, context, alpha=alpha, betas=betas, name=name)
            for name, arm in arms.items()
        ]
        zero = setup.tensor(np.zeros((1, config.rank * setup.bank().width)))
        start = judge(setup, zero, "test", k)
        tests = len(setup.prompts("test", k)[1])
    values: dict[str, Any] = {
        "closest": np.stack([run["cosine"].max(axis=1) for run in runs]),
        "weight": np.stack([run["weights"][..., 0].mean(axis=1) for run in runs]),
        "spread": np.stack([run["weights"][..., 0].std(axis=1) for run in runs]),
        "client_1": np.stack([run["weights"][:, 0, 0] for run in runs]),
        "client_2": np.stack([run["weights"][:, -1, 0] for run in runs]),
        "drift": np.stack([run["drift"] for run in runs]),
        "cosine": np.stack([run["cosine"].mean(axis=1) for run in runs]),
        "kl_token": np.stack([run["kl_token"].mean(axis=1) for run in runs]),
        "kl_sequence": np.stack([run["kl_sequence"].mean(axis=1) for run in runs]),
    }
    for j in (0, 1):
        values[f"reward_{j + 1}"] = np.stack([run["scores"][..., j].mean(axis=1) for run in runs])
    for j in range(len(start)):
        values[f"end_{j + 1}"] = np.stack([run["ends"][:, j] for run in runs])
        values[f"start_{j + 1}"] = start[j]
    for i, beta in enumerate(betas):
        values[f"drift_at_{beta:g}"] = np.stack([run["others"][:, i] for run in runs])
    axes: dict[str, Any] = {"arm": list(arms), "t": config.steps}
    return rc.long_table(axes, **values, alpha=alpha, tests=tests, what=setup.said_of_model())
