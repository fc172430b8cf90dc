"""The same experiment, by one argument, on four devices whose language model learns to add."""

from dataclasses import replace
from typing import Any

from fedprox.figures import rounds


def sums(rng: Any) -> tuple[Any, Any, Any]:
    import torch

    from lora_bridge.bank import AdapterBank
    from lora_bridge.data import Example
    from lora_bridge.losses import answer_loss
    from lora_bridge.models import load_model
    from lora_bridge.oracles import Devices
    from lora_bridge.tasks import Task
    from lora_bridge.tokens import encode_examples

    loaded = load_model()
    bank = AdapterBank(loaded.model, ["q_proj", "v_proj"])
    examples = [Example(f"{a} + {b} = ", str(a + b)) for a in range(8) for b in range(8)]
    encoded = encode_examples(loaded.tokenizer, examples)
    shards = [{name: part[i::4] for name, part in encoded.items()} for i in range(4)]
    task = Task(bank, shards, answer_loss, batch=8)
    X = torch.from_numpy(bank.modules.start(4, rng)).float()
    return Devices(task), X, lambda rows: sum(task.evaluate(i, rows) for i in range(4)) / 4


QUICK = rounds.RoundsConfig(model=True, rounds=4, mu=(0.0, 1.0), gamma=0.5, H=4)
EXPERIMENT = replace(
    rounds.EXPERIMENT,
    id="bridge/sums",
    title="FedProx on a language model",
    profiles={"quick": QUICK, "paper": replace(QUICK, rounds=40)},
)
