"""OOD-PL: rewards learned by bilevel optimisation over preferences, for policies of new domains.

Every module is a section of the audit; the mathematics is in ``experiments.oodpl.theory.bilevel*``.

====================  ============================================================================
``objectives``        Sections 2 and 3, Appendix A: objectives, their optima, Algorithm 1, (26)
``hypergradients``    Proposition 1, Appendix B, (37) and (38)
``assumptions``       Assumptions 1 to 4: what satisfies them, and where
``smoothness``        Appendix C, and step (i) of Lemma 3: Lemmas 1 and 2, the outer loss
``contraction``       Appendix D.1: the inner loop, Lemmas 3 to 5
``conditions``        whether the conditions of Lemma 4 and Theorem 1 can hold together
``convergence``       Theorem 1, Appendix D.2
``remark``            Remark 1
``tables``            Table 3 and the text about it
====================  ============================================================================

Policies are exponential families on few prompts and answers, rewards linear or bounded, and all
expectations sums; ``_spaces``, ``_inner`` and ``_outer`` make the instances. A claim that is false
as printed is expected to be violated, with a note of what breaks and a corrected claim, whose
``derivation`` proves it.
"""
