"""The small model that is used without a folder: made and trained on the spot, once.

A byte-level causal model of Llama's shape, trained for some seconds on a text, by default the
docstrings of Python's standard library. It is kept under the user's cache folder as an ordinary
model folder, and :mod:`lora_bridge.models` reads it like any other.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

import torch
from torch import nn

from linsys.validate import InputError, check_instance, check_integer, check_number
from lora_bridge import _checks
from lora_bridge._model_cache import folder_of, made_once
from lora_bridge.docstrings import byte_tokenizer, documents

__all__ = ["BuiltIn", "built_in", "quiet"]

_LOG = logging.getLogger(__name__)
#: Increased with every change of what the built-in model learns, or of its tokenizer.
_RECIPE = 4


@dataclass(frozen=True)
class BuiltIn:
    """The small causal model and its training.

    Args:
        hidden, layers, heads: its size.
        length: tokens (bytes) of a training sequence.
        steps, batch, gamma: AdamW's steps, sequences in each and step size.
        seed: of the weights and of the batches.
    """

    hidden: int = 64
    layers: int = 2
    heads: int = 4
    length: int = 128
    steps: int = 400
    batch: int = 16
    gamma: float = 3e-3
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "heads", "length", "batch"):
            check_integer(name, getattr(self, name), low=1)
        check_integer("steps", self.steps, low=0)
        check_integer("seed", self.seed, low=0, high=(1 << 64) - 1)
        check_number("gamma", self.gamma, low=0.0, low_open=True)
        if self.hidden % (2 * self.heads):
            raise InputError(
                f"`hidden` must be a multiple of 2 * heads = {2 * self.heads}; found {self.hidden}"
            )


def built_in(texts: str | Sequence[str] | None = None, made: BuiltIn | None = None) -> Path:
    """The folder of the built-in model, made first where it is not there yet.

    The making is logged.

    Args:
        texts: what it is trained on, a text or several; docstrings of the standard library without
            it. It learns where a text begins and ends.
        made: its size and training.

    Raises:
        InputError: texts that are too short; a cache that cannot be written.
    """
    made = BuiltIn() if made is None else check_instance("made", made, BuiltIn, "a BuiltIn")
    given = documents() if texts is None else texts
    texts = [given] if isinstance(given, str) else _checks.texts("texts", given)
    size = sum(len(text.encode()) for text in texts)
    if size <= made.length:
        raise InputError(f"`texts` must have more than {made.length} bytes; found {size}")
    recipe = json.dumps([_RECIPE, asdict(made), texts])
    name = f"bytes-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"

    def make(folder: Path) -> None:
        _LOG.info("training the built-in model, %d steps, for %s", made.steps, folder_of(name))
        _make(folder, texts, made)

    return made_once(name, make)


def _make(folder: Path, texts: Sequence[str], made: BuiltIn) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=made.hidden,
        intermediate_size=3 * made.hidden,
        num_hidden_layers=made.layers,
        num_attention_heads=made.heads,
        num_key_value_heads=made.heads,
        max_position_embeddings=2048,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(made.seed)
        model = LlamaForCausalLM(config)
        first, last = [tokenizer.bos_token_id], [tokenizer.eos_token_id]
        tokens = [[*first, *ids, *last] for ids in tokenizer(list(texts))["input_ids"]]
        _train(model, torch.tensor(list(chain.from_iterable(tokens))), made)
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _train(model: nn.Module, tokens: torch.Tensor, made: BuiltIn) -> None:
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=made.gamma, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, made.gamma, max(made.steps, 1))
    within = torch.arange(made.length)
    for _ in range(made.steps):
        starts = torch.randint(0, len(tokens) - made.length, (made.batch, 1))
        ids = tokens[starts + within]
        logits = model(input_ids=ids).logits[:, :-1]
        optimizer.zero_grad()
        nn.functional.cross_entropy(logits.mT, ids[:, 1:]).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars, and no remark that a head is new."""
    from transformers.utils import logging

    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
