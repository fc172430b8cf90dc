"""What several of FIRM's statements share, for stacks of B instances.

Functions work in float64 and on high-precision numbers (see :mod:`linsys.linalg`); those that are
statements return ``(measured, bound)``. Gradients are the columns of A, shape (B, d, M), weights
lambda (B, M); where there are clients, gradients are rows g, shape (B, C, M, d).

=====================================  ===========================================================
the subproblem
:mod:`.messages`            Section 1: a round as messages, and what they hold
:mod:`.program`             the simplex program in either precision
:mod:`.simplex`             Section 3 and Lemma 8: its solution and how it moves
:mod:`.weights`             Appendix F.1.2: weights of several clients, how they differ
the disagreement drift
:mod:`.perturbation`        its laws in noise, beta and M, for every outcome
:mod:`.expected_drift`      its laws in the mean: batches, clients, time, local steps
:mod:`.paths`               (23) and (24): with smoothed weights
actors and critics
:mod:`.chain`               tabular processes, with exact moments of (10)
:mod:`.critic_bounds`       Lemmas 2 to 7: critics, what (10) estimates, its variance
:mod:`.client_gradients`    Lemma 9: how far apart two clients' gradients are
:mod:`.smoothness`          (49): Lipschitz constants of grad J
Theorem 1
:mod:`.descent`             (5) to (15) and (34): one step, and sums over steps
:mod:`.ascent`              (27) to (32): from one step to the sum over time
:mod:`.hills`               Lemma 10 and (32): runs on objectives that are bounded everywhere
:mod:`.assembly`            (17), (25), (33): all error terms of one step together
:mod:`.reach`               what the explicit constants of (33) amount to
:mod:`.rates`               exponents, from exact moments of small processes
:mod:`.without_beta`        a theorem that needs no beta
=====================================  ===========================================================
"""
