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

*Normalised returns.* Where only the factor gamma/(1-gamma) of grad J is wrong, H = (1-gamma)
J/gamma in the place of J repairs a statement: the constant below (49) for every policy
(``eq49_LJ_normalised``), and Lemma 4 under the discounted visitation law if C_psi <= 2
(``lemma4_corrected``). It does not repair Lemma 4 and Theorem 1 under the law d_pi that (10)
samples from, nor Lemma 9, Lemma 10 and the constants of Lemmas 5 and 6, where other things are
wrong.
"""
