"""FedProx, as its claims cite it."""

import ratecheck as rc

PAPER = rc.Paper("fedprox", "FedProx", "Li et al.: Optimization in Heterogeneous Networks")
