"""When a user's maximum-likelihood estimate exists.

With features x_j (p,) and hard labels, y_j = 2 o_j - 1, the log-likelihood grows without end along
w exactly if y_j <x_j, w> >= 0 for all j, and not all are 0 (Albert and Anderson, 1984): the
comparisons are *separated*, completely if no product is 0. A label strictly between 0 and 1 counts
as both labels, so <x_j, w> must be 0.

*Newton's method decides most cases by itself.* Let g = sum_j c_j (o_j - s_j) x_j be the gradient,
s_j = sigmoid(z_j), and let d solve H d = g with H = sum_j c_j s_j (1 - s_j) x_j x_j'. If
|<x_j, d>| < 1 for all j, then no w separates. Proof: 0 = g - H d is a sum of mu_j y_j x_j, with
mu_j = c_j (1 - s_j) (1 - s_j <x_j, d>) for label 1 and c_j s_j (1 + (1 - s_j) <x_j, d>) for label
0, all positive. So sum_j mu_j y_j <x_j, w> = 0 for every w, and no w can have all products
non-negative and one of them positive. (A label between 0 and 1 is the weighted sum of both.)

On separated comparisons, therefore, every Newton step moves some logit by one or more, and a method
that comes to rest has proved that there is a maximum. Where all products are positive at some
iterate, that iterate proves the opposite. What is left asks a linear program.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from linsys.validate import real_array

__all__ = ["separated"]

#: The optimum is at least 1 for separated comparisons and 0 for others, up to the solver's 1e-7.
_HALF = 0.5


def separated(features: ArrayLike, labels: ArrayLike) -> bool:
    """Whether some w separates the comparisons (n, p) with labels in [0, 1] (n,).

    A linear program: the largest sum of y_j <x_j, w>, each of them in [0, 1].

    >>> separated([[1.0], [2.0]], [1, 1]), separated([[1.0], [2.0]], [1, 0])
    (True, False)
    >>> separated([[1.0], [0.0]], [1, 0])  # the second says nothing
    True
    """
    from scipy.optimize import linprog

    sizes: dict[str, int] = {}
    x = real_array("features", features, ("n", "p"), sizes)
    o = real_array("labels", labels, ("n",), sizes)
    # a scale for every comparison changes no sign and keeps the solver's tolerance meaningful
    largest = np.abs(x).max(axis=1, keepdims=True)
    x = x / np.where(largest > 0, largest, 1.0)
    hard, y = (o == 0) | (o == 1), 2 * o - 1
    products = y[hard, None] * x[hard]
    if not len(products):
        return False
    soft = x[~hard]
    solution = linprog(
        -products.sum(axis=0),
        A_ub=np.concatenate([-products, products]),
        b_ub=np.repeat([0.0, 1.0], len(products)),
        A_eq=soft if len(soft) else None,
        b_eq=np.zeros(len(soft)) if len(soft) else None,
        bounds=(None, None),
        method="highs",
    )
    return bool(solution.status == 3 or (solution.status == 0 and -solution.fun > _HALF))
