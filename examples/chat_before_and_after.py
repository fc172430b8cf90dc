"""Federated LoRA in a few minutes, and a chat with the model before and after it.

    python examples/chat_before_and_after.py                       # a tiny model, made-up data
    python examples/chat_before_and_after.py FILE --model smollm2  # your questions or preferences
    python examples/chat_before_and_after.py FILE --model smollm2 --ask "Is the sky blue?"

FILE holds questions with answers, or preference pairs, in a form of docs/data.md. Its samples are
dealt to some clients, who train one adapter by FSLoRA (Algorithm 1), every second of them half of
its rank at a time. A fifth of the file is held out: there the loss is measured before and after,
and both models' answers to two of its prompts are shown. Then the models can be asked in the
terminal: /before, /after, Ctrl-C. What was measured and the adapter stay in OUT, where PEFT,
`ratecheck chat` and `ratecheck score` find it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import ttest_1samp

from linsys import InputError
from linsys.sketching import FSLoRA
from lora_bridge.bank import AdapterBank
from lora_bridge.chat import AFTER, BEFORE, NOTHING, Chat, talk
from lora_bridge.data import Example, Pair, read_items
from lora_bridge.losses import answer_loss, policy_preference_loss
from lora_bridge.metrics import recording
from lora_bridge.models import load_model
from lora_bridge.oracles import Devices
from lora_bridge.runs import recorded
from lora_bridge.splits import hold_out
from lora_bridge.tasks import Task
from lora_bridge.tokens import encode_examples, encode_pairs

TARGETS = ("q_proj", "v_proj", "o_proj", "up_proj", "down_proj")
SOUNDS = {"cow": "moo", "cat": "meow", "dog": "woof", "duck": "quack", "sheep": "baa"}
#: Made-up data: what animals say.
ASKED = ("What does the {} say?", "How does a {} sound?", "The {} says", "A {} goes", "Be a {}!")


def arguments() -> argparse.Namespace:
    """What the user asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", type=Path, help="questions or preference pairs")
    parser.add_argument("--model", help="as of `ratecheck bridge`; a tiny one without it")
    parser.add_argument("--samples", type=int, default=160, help="of the file, at most")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=2, help="of a client in a round")
    parser.add_argument("--batch", type=int, default=2, help="samples of a step")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--gamma", type=float, default=0.003, help="AdamW's step size")
    parser.add_argument("--length", type=int, default=48, help="most tokens of an answer")
    parser.add_argument("--ask", action="append", help="ask this instead of talking")
    parser.add_argument("--out", type=Path, default=Path("results/chat"))
    return parser.parse_args()


def main() -> None:
    """Train, measure, show, talk."""
    given = arguments()
    items: Sequence[Any] = made_up() if given.file is None else read_items(given.file)
    train, tests = hold_out(items, 0.2)
    train, tests = train[: given.samples], tests[: max(2, given.samples // 8)]
    loaded = load_model(given.model)
    bank = AdapterBank(loaded.model, TARGETS)
    paired = isinstance(items[0], Pair)
    encode: Callable[..., Mapping[str, Any]] = encode_pairs if paired else encode_examples
    loss = policy_preference_loss if paired else answer_loss
    dealt, held_out = (encode(loaded.tokenizer, s, too_long="cut") for s in (train, tests))
    shards = [{n: v[i :: given.clients] for n, v in dealt.items()} for i in range(given.clients)]
    devices = Devices(Task(bank, shards, loss, given.batch))

    def losses(X: Any) -> NDArray[np.float64]:
        parts = [
            {n: v[None, i : i + 8] for n, v in held_out.items()} for i in range(0, len(tests), 8)
        ]
        values = [bank.read(X[None], part, loss)[0] for part in parts]
        return torch.cat(values).double().numpy()

    ranks = [given.rank if i % 2 == 0 else max(1, given.rank // 2) for i in range(given.clients)]
    algorithm = FSLoRA(gamma=given.gamma, H=given.steps, ranks=ranks, optimizer="adamw")
    X = devices.modules.start(given.rank, np.random.default_rng(0))
    seen = {}

    def measure(state: Any) -> dict[str, float]:
        seen["X"], seen[state.t] = state.X, losses(state.X)
        loss = float(seen[state.t].mean())
        print(f"round {state.t:3d} of {given.rounds}: loss {loss:.3f} on what is held out")
        return {"held_out_loss": loss}

    with recording(given.out, save_adapters=given.rounds):
        recorded(
            "FSLoRA",
            algorithm,
            devices,
            algorithm.init(X, devices),
            sorted({0, given.rounds // 2, given.rounds}),
            measure,
            adapters=lambda state: {"server": (bank, state.X)},
        )
    gain = seen[0] - seen[given.rounds]
    low, high = ttest_1samp(gain, 0.0).confidence_interval()
    print(f"loss less by {gain.mean():.3f} [{low:.3f}, {high:.3f}] (95 %, {len(tests)} samples)")
    print(f"adapter: {given.out / 'FSLoRA' / 'adapters' / f'round-{given.rounds:06d}' / 'server'}")

    chat = Chat(bank, loaded.tokenizer, seen["X"], length=given.length, temperature=0.3)
    for prompt in given.ask or [test.prompt for test in tests[:2]]:
        print(f"\n{prompt}")
        for who in (BEFORE, AFTER):
            print(f"  {who}: {chat.answer(prompt, who) or NOTHING}", flush=True)
            chat.forget()
    if not given.ask:
        talk(chat)


def made_up() -> list[Example]:
    """Questions that a tiny model learns in seconds."""
    return [Example(a.format(name), f" {sound}!") for name, sound in SOUNDS.items() for a in ASKED]


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("stopped")
