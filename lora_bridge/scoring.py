"""How well a model answers questions with choices, as lm-evaluation-harness scores them.

The model is given the question alone and never sees the choices together: of the choices' full
texts, the one with the largest log-likelihood after the prompt is its answer. The prompts are those
of the harness: "Question: .. \\nAnswer:", after a passage where there is one, without a chat
template, examples or an end token. A choice's log-likelihood is

- a sum over its tokens ("acc" of the harness),
- that divided by the choice's length in characters ("acc_norm"),
- or divided by its tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from linsys.validate import InputError, check_instance
from lora_bridge._checks import floats, listed, tokenizer_of
from lora_bridge.bank import AdapterBank
from lora_bridge.data import Example, read_examples
from lora_bridge.losses import log_likelihood
from lora_bridge.models import load_model
from lora_bridge.peft_io import load_adapter, targets_of
from lora_bridge.splits import by_key
from lora_bridge.targets import adaptable

__all__ = ["Accuracy", "score_choices", "score_file"]

#: Tokens that go through the model together, padding included.
_AT_ONCE = 4096
#: Of a normal variable that lies within with 95 %.
_Z = 1.959963984540054


@dataclass(frozen=True)
class Accuracy:
    """The share of right answers, with its 95 % interval by Wilson's formula.

    Attributes:
        right, questions: how many.
        divided_by: "nothing", "characters" or "tokens": what a choice's log-likelihood is divided
            by.
        domain: of the questions; empty where they are of several.

    >>> ten = Accuracy(8, 10)
    >>> [round(x, 3) for x in (ten.value, *ten.interval)]
    [0.8, 0.49, 0.943]
    """

    right: int
    questions: int
    divided_by: str = "nothing"
    domain: str = ""

    @property
    def value(self) -> float:
        """Right answers over questions."""
        return self.right / self.questions

    @property
    def interval(self) -> tuple[float, float]:
        """Of the chance of a right answer, with 95 %."""
        n, p = self.questions, self.value
        middle = (p + _Z**2 / (2 * n)) / (1 + _Z**2 / n)
        half = _Z / (1 + _Z**2 / n) * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n**2))
        return middle - half, middle + half

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain JSON values."""
        low, high = self.interval
        named = {"domain": self.domain, "divided_by": self.divided_by, "accuracy": self.value}
        return {**named, "lo": low, "hi": high, "right": self.right, "questions": self.questions}


def score_choices(
    bank: AdapterBank, tokenizer: Any, examples: Sequence[Example], X: Tensor | None = None
) -> list[Accuracy]:
    """Accuracies of a model with one client's adapters.

    Args:
        bank: of a causal language model.
        tokenizer: the model's.
        examples: questions whose choices are known in full, as :mod:`lora_bridge.data` reads them.
        X: the client's rows, shape (r, w); the model alone without them.

    Returns:
        With log-likelihoods divided by nothing, by characters and by tokens.

    Raises:
        InputError: a question whose choices are not known in full; one that is longer than the
            model has places for.
    """
    check_instance("bank", bank, AdapterBank, "an AdapterBank of the model")
    tokenizer_of(tokenizer)
    examples = listed("examples", examples, Example)
    if not examples:
        raise InputError("`examples` must hold at least one question; found none")
    for i, example in enumerate(examples):
        if len(example.texts) < 2 or len(example.texts) != len(example.choices):
            raise InputError(
                f"{example.place or f'question {i}'} must have choices that are known in full; "
                f"found {len(example.texts)}"
            )
    zero = torch.zeros(1, bank.width, device=bank.device)
    rows = zero if X is None else floats("X", X, "r", bank.width)
    right = {"nothing": 0, "characters": 0, "tokens": 0}
    for group in _batches([_tokens(tokenizer, example) for example in examples], examples):
        sums = _sums(bank, rows, [tokens for tokens, _ in group])
        for (tokens, example), values in zip(group, sums, strict=True):
            answer = example.choices.index(example.target)
            lengths = {
                "nothing": torch.ones(len(values)),
                "characters": torch.tensor([len(text) for text in example.texts]),
                "tokens": torch.tensor([len(ids) - start for ids, start in tokens]),
            }
            for name, length in lengths.items():
                right[name] += int((values / length).argmax()) == answer
    domains = {example.domain for example in examples}
    domain = domains.pop() if len(domains) == 1 else ""
    return [Accuracy(count, len(examples), name, domain) for name, count in right.items()]


def score_file(
    data: Path | str,
    model: Path | str | None = None,
    limit: int | None = None,
    adapter: Path | str | None = None,
) -> list[Accuracy]:
    """The same for every domain of a file or a folder.

    Args:
        data: see :mod:`lora_bridge.data`.
        model: see :func:`lora_bridge.models.load_model`.
        limit: so many questions of a domain at most, an even selection of them.
        adapter: a folder that PEFT has written; the model alone without it.

    Raises:
        InputError: what the readers of data, models and adapters refuse, and
            :func:`score_choices`.
    """
    domains = by_key(read_examples(data), lambda example: example.domain)
    loaded = load_model(model)
    if adapter is None:
        bank, X = AdapterBank(loaded.model, [next(iter(adaptable(loaded.model)))]), None
    else:
        bank = AdapterBank(loaded.model, targets_of(adapter))
        X = load_adapter(adapter, bank)
    scores: list[Accuracy] = []
    for examples in domains.values():
        most = len(examples) if limit is None else min(limit, len(examples))
        chosen = [examples[i * len(examples) // most] for i in range(most)]
        scores += score_choices(bank, loaded.tokenizer, chosen, X)
    return scores


#: A choice after its prompt: all tokens, and how many of them are the prompt's.
_Choice = tuple[list[int], int]


def _tokens(tokenizer: Any, example: Example) -> list[_Choice]:
    """Every choice after the prompt; a token that spans the border is the choice's."""
    prompt = f"Question: {example.question}\nAnswer:"
    if example.passage:
        prompt = f"{example.passage}\n{prompt}"
    before = tokenizer(prompt)["input_ids"]
    made = []
    for text in example.texts:
        ids = list(tokenizer(f"{prompt} {text}")["input_ids"])
        most = int(tokenizer.model_max_length)
        if len(ids) > most:
            raise InputError(
                f"{example.place or 'a question'} must have at most the model's {most} tokens; "
                f"found {len(ids)}"
            )
        common = next(
            (i for i, (a, b) in enumerate(zip(ids, before, strict=False)) if a != b), len(before)
        )
        made.append((ids, min(common, len(ids) - 1)))
    return made


def _batches(
    tokens: Sequence[list[_Choice]], examples: Sequence[Example]
) -> Iterator[list[tuple[list[_Choice], Example]]]:
    """Questions of similar lengths and equally many choices."""
    every = sorted(
        zip(tokens, examples, strict=True),
        key=lambda one: (len(one[0]), max(len(ids) for ids, _ in one[0])),
    )
    group: list[tuple[list[_Choice], Example]] = []
    for one in every:
        size = (len(group) + 1) * len(one[0]) * max(len(ids) for ids, _ in one[0])
        if group and (len(one[0]) != len(group[0][0]) or size > _AT_ONCE):
            yield group
            group = []
        group.append(one)
    yield group


def _sums(bank: AdapterBank, rows: Tensor, questions: Sequence[list[_Choice]]) -> Tensor:
    """The choices' log-likelihoods, (questions, choices)."""
    T = max(len(ids) for question in questions for ids, _ in question)
    shape = (1, len(questions), len(questions[0]), T)
    ids, mask, target = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
    for q, question in enumerate(questions):
        for c, (tokens, start) in enumerate(question):
            ids[0, q, c, : len(tokens)] = torch.tensor(tokens)
            mask[0, q, c, : len(tokens)] = 1
            target[0, q, c, start : len(tokens)] = 1
    named = {"input_ids": ids, "attention_mask": mask, "target_mask": target}
    batch = {name: value.to(bank.device) for name, value in named.items()}

    def by_question(output: Any, flat: Any) -> Tensor:
        return log_likelihood(output, flat).reshape(len(questions), -1)

    return bank.read(rows[None], batch, by_question)[0].cpu()
