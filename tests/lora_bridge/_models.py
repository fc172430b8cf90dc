"""Small models of four shapes, with random weights, and losses on them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

VOCABULARY = 40
#: Names of the modules that the tests adapt.
TARGETS = {
    "llama": ["q_proj", "down_proj"],
    "gpt2": ["c_attn", "c_fc"],
    "neox": ["query_key_value", "dense_4h_to_h"],
    "bert": ["query", "value"],
}


def small_model(kind: str, dtype: torch.dtype = torch.float32, seed: int = 0) -> Any:
    """A Llama-, GPT-2-, GPT-NeoX- or BERT-shaped model; every weight is random, biases too."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2}
    match kind:
        case "llama":
            config: Any = LlamaConfig(
                vocab_size=VOCABULARY, num_attention_heads=2, num_key_value_heads=1, **sizes
            )
            make: Any = LlamaForCausalLM
        case "gpt2":
            config = GPT2Config(vocab_size=VOCABULARY, n_embd=16, n_layer=2, n_head=2)
            make = GPT2LMHeadModel
        case "neox":
            ends = {"bos_token_id": 1, "eos_token_id": 2}
            config = GPTNeoXConfig(vocab_size=VOCABULARY, num_attention_heads=2, **ends, **sizes)
            make = GPTNeoXForCausalLM
        case _:
            config = BertConfig(vocab_size=VOCABULARY, num_attention_heads=2, num_labels=3, **sizes)
            make = BertForSequenceClassification
    config._attn_implementation = "eager"
    model = make(config).to(dtype)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    return model


def small_batch(N: int, b: int, T: int = 6, seed: int = 1) -> dict[str, Tensor]:
    """Random tokens with padding at the end of some samples, and labels."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, VOCABULARY, (N, b, T), generator=generator)
    lengths = torch.randint(2, T + 1, (N, b, 1), generator=generator)
    mask = (torch.arange(T) < lengths).long()
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "label": torch.randint(0, 3, (N, b), generator=generator),
    }


def token_loss(output: Any, batch: Any) -> Tensor:
    """Mean cross-entropy of the next tokens that are no padding, per sample."""
    logits, ids = output.logits[:, :-1], batch["input_ids"][:, 1:]
    mask = batch["attention_mask"][:, 1:].to(logits)
    losses = torch.nn.functional.cross_entropy(logits.mT, ids, reduction="none")
    return (losses * mask).sum(-1) / mask.sum(-1)


def label_loss(output: Any, batch: Any) -> Tensor:
    """Cross-entropy of the class, per sample."""
    return torch.nn.functional.cross_entropy(output.logits, batch["label"], reduction="none")


LOSSES = {"llama": token_loss, "gpt2": token_loss, "bert": label_loss}
