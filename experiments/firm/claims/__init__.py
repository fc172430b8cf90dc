"""FIRM: federated in-client regularised multi-objective alignment.

Every module is a section of the audit, its claims in the order of the paper; the mathematics is in
:mod:`experiments.firm.theory`.

====================================================  ============================================
``simplex``, ``lemma8``                               Sections 2 and 3, Appendix G.1: the program
``weights``, ``paths``                                Appendix F.1.2: the disagreement drift
``perturbation``, ``true_weights``,                   its laws, derived here: mean weights, weights
``expected_drift``                                    of the true gradients, expectations
``chains``, ``gradient_errors``,                      Appendices C, D, F.1.1 and G.2: mixing,
``client_gradients``                                  critics and stochastic gradients
``descent``, ``telescoping``, ``ascent``,             Appendix F: one step, Lemma 10, the sum over
``assembly``                                          time, and all error terms together
``rates``, ``without_beta``, ``reach``                Theorem 1: exponents, what holds without beta,
                                                      and what the explicit bound says
====================================================  ============================================

A claim that is false as printed is expected to be violated, with a note of what breaks and a
corrected claim, whose ``derivation`` proves it. ``_spaces``, ``_chains`` and ``_periods`` make the
instances: gradients and weights, processes, steps of several clients.
"""
