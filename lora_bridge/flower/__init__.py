"""Federated runs beyond one machine: the algorithms' own rounds, with Flower between their parts.

A run is a :class:`Federation`: an algorithm, where it starts, and how a client makes its oracle.
:func:`rehearse` runs it in this process; ``python -m lora_bridge.flower`` in a simulation or on
machines that Flower connects (docs/flower.md). The final adapters are the same, bit for bit where
machines are equal.
"""

from lora_bridge.flower.federation import Federation
from lora_bridge.flower.local import rehearse
from lora_bridge.flower.parcels import fingerprint
from lora_bridge.flower.rounds import Result, Rules, TooFewClients

__all__ = ["Federation", "Result", "Rules", "TooFewClients", "fingerprint", "rehearse"]
