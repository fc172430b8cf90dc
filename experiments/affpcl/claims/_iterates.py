"""Systems with one state of central learning: errors of x_t^c and theta_t^c, and a step size."""

from __future__ import annotations

import ratecheck as rc
from experiments.affpcl.claims._spaces import systems

_ERRORS = {"delta_x": rc.reals("d"), "delta_theta": rc.reals("d")}
_STEP = {"step_share": rc.interval(low=0.01)}

ITERATES = systems(_ERRORS)
STEPS = systems({**_ERRORS, **_STEP})
SEVERAL_AGENTS = systems({**_ERRORS, **_STEP}, sizes={"n": (2, 4)})
