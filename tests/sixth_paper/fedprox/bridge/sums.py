"""The same experiment on a language model, by one argument."""

from dataclasses import replace

from fedprox.figures import rounds

QUICK = rounds.RoundsConfig(model=True, rounds=4, mu=(0.0, 1.0), gamma=0.5, H=4)
EXPERIMENT = replace(
    rounds.EXPERIMENT,
    id="bridge/sums",
    title="FedProx on a language model",
    profiles={"quick": QUICK, "paper": replace(QUICK, rounds=40)},
)
