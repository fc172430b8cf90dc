"""Systems with one state of central learning: errors of x_t^c and theta_t^c, and a step size."""

from __future__ import annotations

from experiments.audit import interval, reals
from experiments.claims.affpcl._spaces import systems

_ERRORS = {"delta_x": reals("d"), "delta_theta": reals("d")}
_STEP = {"step_share": interval(low=0.01)}

ITERATES = systems(_ERRORS)
STEPS = systems({**_ERRORS, **_STEP})
SEVERAL_AGENTS = systems({**_ERRORS, **_STEP}, sizes={"n": (2, 4)})
