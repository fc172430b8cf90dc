"""How well a model answers questions with choices, as lm-evaluation-harness scores them.

The model is given the question alone and never sees the choices together: of the choices' full
texts, the one with the largest log-likelihood after the prompt is its answer. The prompts are those
of the harness for ARC and BoolQ: "Question: .. \\nAnswer:", after a passage where there is one,
without a chat template, examples or an end token. A choice's log-likelihood is

- a sum over its tokens ("acc" of the harness),
- that divided by the choice's length in characters ("acc_norm"),
- or divided by its tokens.

This asks what a pretrained model knows. What training on such questions teaches is to name one of
the choices that the prompt lists, such as "answer2": with ``labels`` the names of the choices are
scored in the form in which they are learnt, the model's chat template included, each with its end.
With a ``prompt`` of another form, full texts are scored in that form, each with its end as well.

Intervals are over questions: what another draw of as many of them would give the same model. What
another seed of its training would give they do not know. A model and the same model with adapters
are compared on the same questions, whose difficulty then cancels (:class:`Comparison`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from linsys.validate import InputError, check_flag, check_instance
from lora_bridge._checks import floats, listed, tokenizer_of
from lora_bridge.bank import AdapterBank
from lora_bridge.data import Example, read_examples
from lora_bridge.losses import log_likelihood
from lora_bridge.models import load_model
from lora_bridge.peft_io import load_adapter, targets_of
from lora_bridge.splits import by_key
from lora_bridge.targets import adaptable
from lora_bridge.templates import ANSWER, Layout, with_prompt

__all__ = [
    "Accuracy",
    "Comparison",
    "compare_choices",
    "compare_file",
    "score_choices",
    "score_file",
]

#: Tokens that go through the model together, padding included.
_AT_ONCE = 4096
#: A standard normal variable is at most this large, in absolute value, with 95 %.
_Z = 1.959963984540054
#: What a choice's log-likelihood is divided by.
_DIVISORS = ("nothing", "characters", "tokens")


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


@dataclass(frozen=True)
class Comparison:
    """A model with adapters and without on the same questions.

    Attributes:
        adapted, base: their accuracies.
        gained, lost: questions that only the first answers, and only the second.

    >>> made = Comparison(Accuracy(70, 100), Accuracy(60, 100), gained=15, lost=5)
    >>> [round(x, 3) for x in (made.difference, *made.interval, made.p)]
    [0.1, 0.012, 0.186, 0.041]
    """

    adapted: Accuracy
    base: Accuracy
    gained: int
    lost: int

    @property
    def difference(self) -> float:
        """Accuracy with adapters less accuracy without."""
        return (self.gained - self.lost) / self.adapted.questions

    @property
    def interval(self) -> tuple[float, float]:
        """Of the difference, with 95 %: Newcombe's tenth method for paired proportions.

        It joins the two intervals by Wilson, with the correlation of the answers, of which a
        positive one is corrected for continuity (Statistics in Medicine 17, 2635, 1998).
        """
        ours, base = self.adapted, self.base
        both = ours.right - self.gained
        neither = ours.questions - both - self.gained - self.lost
        sizes = ours.right * base.right * (neither + self.lost) * (neither + self.gained)
        product = float(both * neither - self.gained * self.lost)
        if product > 0:
            product = max(0.0, product - ours.questions / 2)
        phi = product / math.sqrt(sizes) if sizes else 0.0

        def joined(one: float, other: float) -> float:
            return math.sqrt(max(0.0, one**2 - 2 * phi * one * other + other**2))

        (l1, u1), (l2, u2) = ours.interval, base.interval
        low = joined(ours.value - l1, u2 - base.value)
        high = joined(u1 - ours.value, base.value - l2)
        return self.difference - low, self.difference + high

    @property
    def p(self) -> float:
        """Of McNemar's exact test that adapters gain as many questions as they lose."""
        from scipy.stats import binomtest

        changed = self.gained + self.lost
        return float(binomtest(self.gained, changed).pvalue) if changed else 1.0

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain JSON values: the adapted model's, then the comparison's."""
        low, high = self.interval
        return {
            **self.adapted.to_dict(),
            "base": self.base.value,
            "gained": self.gained,
            "lost": self.lost,
            "difference": self.difference,
            "difference_lo": low,
            "difference_hi": high,
            "p": self.p,
        }


def score_choices(
    bank: AdapterBank,
    tokenizer: Any,
    examples: Sequence[Example],
    X: Tensor | None = None,
    *,
    labels: bool = False,
    prompt: str | Path | None = None,
) -> list[Accuracy]:
    """Accuracies of a model with one client's adapters.

    Args:
        bank: of a causal language model.
        tokenizer: the model's.
        examples: questions whose choices are known in full, as :mod:`lora_bridge.data` reads them.
        X: the client's rows, shape (r, w); the model alone without them.
        labels: score the names of choices that the prompt lists, not their full texts.
        prompt: its form, see :func:`lora_bridge.templates.with_prompt`; by default the harness's
            for full texts and the model's own for labels.

    Returns:
        With log-likelihoods divided by nothing and, of full texts, by characters and by tokens.

    Raises:
        InputError: a question whose choices are not known; one that is longer than the model has
            places for.
    """
    right = _right(bank, _Form(tokenizer, labels, prompt), examples, X)
    return [_accuracy(own, name, examples) for name, own in right.items()]


def compare_choices(
    bank: AdapterBank,
    tokenizer: Any,
    examples: Sequence[Example],
    X: Tensor,
    *,
    labels: bool = False,
    prompt: str | Path | None = None,
) -> list[Comparison]:
    """Accuracies with the adapters X (r, w) beside those without, on the same questions."""
    form = _Form(tokenizer, labels, prompt)
    base, ours = (_right(bank, form, examples, rows) for rows in (None, X))
    return [
        Comparison(
            _accuracy(ours[name], name, examples),
            _accuracy(base[name], name, examples),
            int((ours[name] & ~base[name]).sum()),
            int((base[name] & ~ours[name]).sum()),
        )
        for name in ours
    ]


def _accuracy(right: NDArray[np.bool_], name: str, examples: Sequence[Example]) -> Accuracy:
    domains = {example.domain for example in examples}
    domain = domains.pop() if len(domains) == 1 else ""
    return Accuracy(int(right.sum()), len(right), name, domain)


#: A choice after its prompt: all tokens, and how many of them are the prompt's.
_Choice = tuple[list[int], int]


class _Form:
    """How questions and their choices are written."""

    def __init__(self, tokenizer: Any, labels: bool, prompt: str | Path | None) -> None:
        self.labels = check_flag("labels", labels)
        self.divisors = _DIVISORS[:1] if labels else _DIVISORS
        self._tokenizer = tokenizer_of(tokenizer)
        own = prompt is None and not labels
        self._layout = None if own else Layout(with_prompt(tokenizer, prompt or "auto"))

    def choices(self, example: Example) -> tuple[str, ...]:
        """What is scored."""
        return example.choices if self.labels else example.texts

    def check(self, example: Example, place: str) -> None:
        """Refuse a question without choices, by its place."""
        choices = self.choices(example)
        if len(choices) < 2 or len(choices) != len(example.choices):
            known = "with names" if self.labels else "that are known in full"
            instead = len(choices) or f"{len(choices)}: score tells choices apart"
            if len(example.choices) > 1 and not self.labels:
                instead = f"{len(choices)}, but names, which `--labels` scores"
            raise InputError(f"{place} must have choices {known}; found {instead}")

    def tokens(self, example: Example) -> list[_Choice]:
        """Every choice after the prompt; a token that spans the border is the choice's."""
        made = self._harness(example) if self._layout is None else self._own(self._layout, example)
        most = int(self._tokenizer.model_max_length)
        longest = max(len(ids) for ids, _ in made)
        if longest > most:
            raise InputError(
                f"{example.place or 'a question'} must have at most the model's {most} tokens; "
                f"found {longest}"
            )
        return made

    def _own(self, layout: Layout, example: Example) -> list[_Choice]:
        asked = example.prompt if self.labels else _asked(example) + ANSWER
        rows = layout.rows([asked], [self.choices(example)])[0]
        return [(row.ids, row.start) for row in rows]

    def _harness(self, example: Example) -> list[_Choice]:
        prompt = f"Question: {example.question}\nAnswer:"
        if example.passage:
            prompt = f"{example.passage}\n{prompt}"
        before = self._tokenizer(prompt, verbose=False)["input_ids"]  # lengths are checked here
        made = []
        for text in example.texts:
            ids = list(self._tokenizer(f"{prompt} {text}", verbose=False)["input_ids"])
            common = next(
                (i for i, (a, b) in enumerate(zip(ids, before, strict=False)) if a != b),
                len(before),
            )
            made.append((ids, min(common, len(ids) - 1)))
        return made


def _asked(example: Example) -> str:
    """The question alone, after its passage if it has one."""
    return "\n".join(filter(None, (example.passage, example.question)))


def _right(
    bank: AdapterBank, form: _Form, examples: Sequence[Example], X: Tensor | None
) -> dict[str, NDArray[np.bool_]]:
    """Which questions are answered, (questions,), by what log-likelihoods are divided by."""
    check_instance("bank", bank, AdapterBank, "an AdapterBank of the model")
    examples = listed("examples", examples, Example)
    if not examples:
        raise InputError("`examples` must hold at least one question; found none")
    for i, example in enumerate(examples):
        form.check(example, example.place or f"question {i}")
    zero = torch.zeros(1, bank.width, device=bank.device)
    rows = zero if X is None else floats("X", X, "r", bank.width)
    right = {name: np.zeros(len(examples), bool) for name in form.divisors}
    tokenized = [form.tokens(example) for example in examples]
    for group in _batches(tokenized):
        sums = _sums(bank, rows, [tokenized[i] for i in group])
        for i, values in zip(group, sums, strict=True):
            example, tokens = examples[i], tokenized[i]
            answer = example.choices.index(example.target)
            lengths = {
                "nothing": torch.ones(len(values)),
                "characters": torch.tensor([len(text) for text in form.choices(example)]),
                "tokens": torch.tensor([len(ids) - start for ids, start in tokens]),
            }
            for name, of_name in right.items():
                of_name[i] = int((values / lengths[name]).argmax()) == answer
    return right


def score_file(
    data: Path | str,
    model: Path | str | None = None,
    limit: int | None = None,
    *,
    labels: bool = False,
    prompt: str | Path | None = None,
) -> list[Accuracy]:
    """Accuracies of a model, for every domain of a file or a folder.

    Args:
        data: see :mod:`lora_bridge.data`.
        model: see :func:`lora_bridge.models.load_model`.
        limit: so many questions of a domain at most, an even selection of them.
        labels, prompt: see :func:`score_choices`.

    Raises:
        InputError: what the readers of data and models refuse, and :func:`score_choices`.
    """
    domains, loaded = _domains(data, limit), load_model(model)
    bank = AdapterBank(loaded.model, [next(iter(adaptable(loaded.model)))])
    each = [
        score_choices(bank, loaded.tokenizer, examples, labels=labels, prompt=prompt)
        for examples in domains
    ]
    return [score for scores in each for score in scores]


def compare_file(
    data: Path | str,
    adapter: Path | str,
    model: Path | str | None = None,
    limit: int | None = None,
    *,
    labels: bool = False,
    prompt: str | Path | None = None,
) -> list[Comparison]:
    """A model with an adapter and without, for every domain of a file or a folder.

    Args:
        data, model, limit, labels, prompt: as for :func:`score_file`.
        adapter: a folder of PEFT.

    Raises:
        InputError: as there; what the reader of adapters refuses.
    """
    domains, targets = _domains(data, limit), targets_of(adapter)
    loaded = load_model(model)
    bank = AdapterBank(loaded.model, targets)
    X = load_adapter(adapter, bank)
    each = [
        compare_choices(bank, loaded.tokenizer, examples, X, labels=labels, prompt=prompt)
        for examples in domains
    ]
    return [score for scores in each for score in scores]


def _domains(data: Path | str, limit: int | None) -> list[list[Example]]:
    """The questions of every domain, evenly selected ones where they are to be fewer."""
    selected = []
    for examples in by_key(read_examples(data), lambda example: example.domain).values():
        most = len(examples) if limit is None else min(limit, len(examples))
        selected.append([examples[i * len(examples) // most] for i in range(most)])
    return selected


def _batches(tokens: Sequence[list[_Choice]]) -> Iterator[list[int]]:
    """Numbers of questions of similar lengths and equally many choices."""
    longest = [max(len(ids) for ids, _ in choices) for choices in tokens]
    group: list[int] = []
    for i in sorted(range(len(tokens)), key=lambda i: (len(tokens[i]), longest[i])):
        count = len(tokens[i])
        size = (len(group) + 1) * count * longest[i]
        if group and (count != len(tokens[group[0]]) or size > _AT_ONCE):
            yield group
            group = []
        group.append(i)
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
