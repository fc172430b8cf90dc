"""Multi-objective directions: minimum-norm and regularised quadratic programs on the simplex.

The layer of the multi-objective papers: on the foundations of :mod:`linsys` and, like it, free of
any deep learning library.

====================================  ============================================================
:func:`mgda.simplex.min_norm`         weights for gradients: MGDA, FIRM, preferences
:func:`mgda.simplex.simplex_qp`       the same for Gram matrices
:mod:`mgda.sensitivity`               derivative and Lipschitz constant of the weights
:class:`mgda.momdp.MOMDP`             tabular processes with several rewards
:class:`mgda.momdp.SoftmaxPolicy`     laws, values, gradients and Hessians of a policy, exactly
:mod:`mgda.instances`                 random processes, clients that differ
:mod:`mgda.constants`                 mixing, score and smoothness constants: exact, or bounds
:class:`mgda.critic.LinearCritic`     linear critics: fixed points, temporal differences
:mod:`mgda.trajectories`              sampled transitions and stochastic gradients, compiled
:mod:`mgda.actor_critic`              gradient oracles for algorithms: exact, or as in T-FIRM
:class:`mgda.firm.FIRM`               clients resolve their conflicts: Algorithms 1 and 2
:class:`mgda.fedcmoo.FedCMOO`         the server resolves them from all gradients
:mod:`mgda.scalarization`             fixed weights, or one objective
:mod:`mgda.runs`                      run any of them, with returns, gaps and drifts on record
:mod:`mgda.drift`                     disagreement of weights, drift of parameters
====================================  ============================================================
"""

from pkgutil import extend_path

# Modules of a user's folder of this name come before ours, also without an ``__init__.py``.
__path__ = list(dict.fromkeys([*extend_path([], __name__), *__path__]))
