"""Algorithms written once, over flat vectors and an oracle, for arrays of any namespace."""

from linsys.algorithms._round import Collaborative, Sampling, Start
from linsys.algorithms.affpcl import AffPCL, AffPCLState, RatioEstimator
from linsys.algorithms.baselines import Clustered, Ditto, FedAvg, FineTuning, Independent, PFedMe
from linsys.algorithms.density_ratio import (
    CoupledRatio,
    FrozenRatio,
    LinearRatio,
    ShiftedRatio,
    SparseRatio,
    learn_ratio,
    ratio_gram,
    ratio_weights,
)
from linsys.algorithms.steps import Steps, StepSizes, WeightedAverage
from linsys.algorithms.td import VisitationRatio, sarsa

__all__ = [
    "AffPCL",
    "AffPCLState",
    "Clustered",
    "Collaborative",
    "CoupledRatio",
    "Ditto",
    "FedAvg",
    "FineTuning",
    "FrozenRatio",
    "Independent",
    "LinearRatio",
    "PFedMe",
    "RatioEstimator",
    "Sampling",
    "ShiftedRatio",
    "SparseRatio",
    "Start",
    "StepSizes",
    "Steps",
    "VisitationRatio",
    "WeightedAverage",
    "learn_ratio",
    "ratio_gram",
    "ratio_weights",
    "sarsa",
]
