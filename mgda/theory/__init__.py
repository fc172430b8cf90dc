"""What the papers on multi-objective directions state, as functions with two sides.

They return ``(measured, bound)`` for stacks of B instances, in float64 or on high-precision numbers
(see :mod:`linsys.linalg`). Gradients are the columns of A, shape (B, d, M), weights lambda (B, M).

==============================  ==================================================================
:mod:`mgda.theory.program`      the simplex program in either precision
:mod:`mgda.theory.simplex`      FIRM, Section 3 and Lemma 8: its solution and how it moves
:mod:`mgda.theory.weights`      FIRM, Appendix F.1.2: weights of several clients, their disagreement
:mod:`mgda.theory.descent`      FIRM, Appendix F: one step of the averaged policy, and their sum
:mod:`mgda.theory.chain`        tabular processes in either precision, with exact moments of (10)
==============================  ==================================================================
"""
