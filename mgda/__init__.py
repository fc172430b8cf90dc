"""Multi-objective directions: minimum-norm and regularised quadratic programs on the simplex.

The layer of the multi-objective papers: on the foundations of :mod:`linsys` and, like it, free of
any deep learning library.

==================================  =============================================================
:func:`mgda.simplex.min_norm`       weights for gradients: MGDA, FIRM's regularised form, preferences
:func:`mgda.simplex.simplex_qp`     the same for Gram matrices
:mod:`mgda.sensitivity`             derivative and Lipschitz constant of the weights
==================================  =============================================================
"""
