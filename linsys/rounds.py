"""The protocol of all algorithms, and the loop over their rounds.

An algorithm knows no system and no model. It asks an *oracle*, whose methods are those that the
algorithm's family states: samples of agents, gradients of devices, users or clients, losses of
domains. Another oracle is another backend, and the algorithm and the loop stay as they are:

===========  ======================================  =========================================
algorithms   a synthetic oracle                      clients on a language model
===========  ======================================  =========================================
AffPCL       ``algorithms.Sampling`` of a system     the same of ``lora_bridge.affpcl.Agents``
FSLoRA       ``sketching.LeastSquares`` and others   ``lora_bridge.oracles.Devices``
P-ShareLoRA  ``preference.oracle.ComparisonOracle``  ``lora_bridge.oracles.Users``
OOD-PL       a ``bilevel.DomainOracle`` per domain   a ``lora_bridge.bilevel.TextOracle`` each
FIRM         ``mgda.actor_critic.ActorCritic``       ``lora_bridge.firm.Alignment``
===========  ======================================  =========================================

A *state* is a named tuple of arrays and numbers with a counter ``t``: all that a run needs to go on
with the same oracle, and what a checkpoint keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from linsys.validate import check_integer

__all__ = ["Algorithm", "rounds"]

State = TypeVar("State")
Oracle_contra = TypeVar("Oracle_contra", contravariant=True)
Report_co = TypeVar("Report_co", covariant=True)
Oracle = TypeVar("Oracle")
Report = TypeVar("Report")


class Algorithm(Protocol[State, Oracle_contra, Report_co]):
    """Explicit state in, explicit state out; the algorithm itself holds its settings alone."""

    def init(self, start: Any, oracle: Oracle_contra) -> State:
        """The state before the first round.

        Args:
            start: where it starts, an array or a named tuple of arrays.
            oracle: what :meth:`round` will ask; it says which sizes fit.
        """

    def round(self, state: State, oracle: Oracle_contra) -> tuple[State, Report_co]:
        """The state after one round, which leaves ``state`` as it is, and what there is to say."""


def rounds(
    algorithm: Algorithm[State, Oracle, Report], oracle: Oracle, state: State, count: int
) -> Iterator[tuple[State, Report]]:
    """Yield state and report after each of ``count`` more rounds; only the last state is kept.

    Args:
        algorithm: any algorithm.
        oracle: what it asks.
        state: of ``algorithm.init``, or where an earlier call has ended.
        count: of rounds.

    Raises:
        InputError: a ``count`` that is no whole number, or what the algorithm refuses.

    >>> import numpy as np
    >>> from linsys.sketching import FSLoRA, LeastSquares
    >>> devices = LeastSquares(np.zeros((1, 1)), inputs=([[1.0]],), targets=([[2.0]],))
    >>> algorithm = FSLoRA(gamma=0.1, H=1, ranks=[2])
    >>> state = algorithm.init(np.ones((2, 2)), devices)
    >>> for state, report in rounds(algorithm, devices, state, 20): pass
    >>> state.t, report.up, round(devices.mean_loss(state.X), 6)
    (20, (32,), 0.0)
    """
    for _ in range(check_integer("count", count)):
        state, report = algorithm.round(state, oracle)
        yield state, report
