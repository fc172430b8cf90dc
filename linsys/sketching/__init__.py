"""FSLoRA and its rivals: federated LoRA where devices train parts of the modules.

==================================  ==============================================================
:mod:`linsys.sketching.adapters`    LoRA modules as one array, component by component
:mod:`linsys.sketching.sketch`      random-k sketches as index arrays, top-k compression
:mod:`linsys.sketching.systems`     devices with matrix least squares, logistic, two-layer losses
:mod:`linsys.sketching.exact`       f^S and the constants of the analysis, exactly
:mod:`linsys.sketching.smoothness`  Hessians of all these losses, and bounds of derivatives
:mod:`linsys.sketching.balls`       their largest norm on a ball, exact or enclosed
:mod:`linsys.sketching.variances`   sigma_s, sigma_g, and what c_h and sigma_h can trade, on balls
:mod:`linsys.sketching.kernels`     a gradient as its two factors, local steps in place
:mod:`linsys.sketching.fslora`      FSLoRA, and federated LoRA without a sketch
:mod:`linsys.sketching.baselines`   HeteroLoRA, FlexLoRA, FedStackLoRA
:mod:`linsys.sketching.low_rank`    stacks of products, and their best approximation
==================================  ==============================================================
"""

from linsys.sketching.adapters import Modules
from linsys.sketching.baselines import FedStackLoRA, FlexLoRA, HeteroLoRA
from linsys.sketching.federated import DeviceLost, Report, Sent, State
from linsys.sketching.fslora import FSLoRA, federated_lora
from linsys.sketching.systems import LeastSquares, Logistic, TwoLayer

__all__ = [
    "DeviceLost",
    "FSLoRA",
    "FedStackLoRA",
    "FlexLoRA",
    "HeteroLoRA",
    "LeastSquares",
    "Logistic",
    "Modules",
    "Report",
    "Sent",
    "State",
    "TwoLayer",
    "federated_lora",
]
