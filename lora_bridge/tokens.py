"""Texts as padded tensors: what a model reads, and which of it is the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from linsys.validate import InputError, check_choice, check_integer
from lora_bridge import _checks
from lora_bridge._checks import listed, tokenizer_of
from lora_bridge.data import Example, Pair
from lora_bridge.templates import Layout, Row

__all__ = ["Encoded", "encode_choices", "encode_examples", "encode_pairs", "encode_texts", "said"]

_Item = TypeVar("_Item", bound=Example | Pair)


class Encoded(dict[str, Tensor]):
    """Tensors by name, the samples along their first axis.

    Attributes:
        most: tokens of the longest sequence that was taken.
        cut: how many samples lost tokens to that.
        size: samples.
    """

    def __init__(self, tensors: Mapping[str, Tensor], most: int, cut: int, size: int) -> None:
        super().__init__(tensors)
        self.most, self.cut, self.size = most, cut, size


def said(*made: Encoded, left_out: int = 0) -> str:
    """How many samples were cut, and how many records were left out, for the reader of a result.

    Args:
        made: the samples; nothing is said where none was cut.
        left_out: of :class:`lora_bridge.data.Records`.

    >>> said(Encoded({}, 512, 2, 30), Encoded({}, 512, 1, 10)), said(Encoded({}, 512, 0, 9))
    ('; 3 of 40 samples cut to 512 tokens', '')
    >>> said(left_out=2)
    '; left out for empty or equal answers: 2'
    """
    cut, size = sum(m.cut for m in made), sum(m.size for m in made)
    shorter = f"; {cut} of {size} samples cut to {max(m.most for m in made)} tokens" if cut else ""
    return shorter + (f"; left out for empty or equal answers: {left_out}" if left_out else "")


def encode_examples(
    tokenizer: Any, examples: Sequence[Example], max_length: int = 512, too_long: str = "error"
) -> Encoded:
    """Prompts followed by their targets and the end token, padded on the right.

    Prompts have the form that the tokenizer says, see :mod:`lora_bridge.templates`.

    Args:
        tokenizer: of :func:`lora_bridge.models.load_model`.
        examples: n of them.
        max_length: tokens of the longest sequence that is taken; never more than the tokenizer's
            ``model_max_length``.
        too_long: "error", or "cut" to drop tokens of a long prompt from its beginning.

    Returns:
        ``input_ids``, ``attention_mask`` and ``target_mask`` (1 on the tokens of target and end),
        shapes (n, T), T the longest length that there is.

    Raises:
        InputError: something else than a tokenizer with a token to pad with, or than examples; no
            examples; one that is too long, by its place in its file or its number; a
            target that is too long by itself.
    """
    examples = listed("examples", examples, Example)
    return _padded(tokenizer, examples, lambda e: (e.target,), max_length, too_long)


def encode_choices(
    tokenizer: Any, examples: Sequence[Example], max_length: int = 512, too_long: str = "error"
) -> Encoded:
    """Prompts followed by each of their choices, (n, C, T), and ``answer`` (n,): the right one.

    Raises:
        InputError: as :func:`encode_examples`, and examples of different numbers of choices, or
            whose target is none of them.
    """
    examples = listed("examples", examples, Example)
    counts = sorted({len(example.choices) for example in examples})
    if len(counts) != 1 or counts[0] < 2:
        raise InputError(
            f"`examples` must all have the same number of choices, 2 or more; found {counts}"
        )
    for i, example in enumerate(examples):
        if example.target not in example.choices:
            raise InputError(
                f"target of {example.place or f'sample {i}'} must be one of "
                f"{', '.join(example.choices)}; found {example.target!r}"
            )
    made = _padded(tokenizer, examples, lambda e: e.choices, max_length, too_long)
    answers = [example.choices.index(example.target) for example in examples]
    grouped = _grouped(made, counts[0])
    grouped["answer"] = torch.tensor(answers)
    return grouped


def encode_pairs(
    tokenizer: Any, pairs: Sequence[Pair], max_length: int = 512, too_long: str = "error"
) -> Encoded:
    """Prompts followed by the chosen and by the rejected answer, shapes (n, 2, T).

    Raises:
        InputError: as :func:`encode_examples`.
    """
    pairs = listed("pairs", pairs, Pair)
    made = _padded(tokenizer, pairs, lambda p: (p.chosen, p.rejected), max_length, too_long)
    return _grouped(made, 2)


def encode_texts(
    tokenizer: Any, texts: Sequence[str], max_length: int = 512, too_long: str = "error"
) -> Encoded:
    """Whole texts, shapes (n, T), with the tokenizer's own first and last tokens.

    Raises:
        InputError: as :func:`encode_examples`; a text without a token.
    """
    texts = _checks.texts("texts", texts)
    most = _length_limit(tokenizer, texts, max_length, too_long)
    ids, cut = [tokenizer(text)["input_ids"] for text in texts], 0
    for i, tokens in enumerate(ids):
        if not tokens:
            raise InputError(f"sample {i} must have at least one token; found {texts[i]!r}")
        if len(tokens) > most:
            _refuse_too_long(f"sample {i}", len(tokens), most, too_long)
            ids[i], cut = tokens[:most], cut + 1
    made = _stack(tokenizer, ids, [0] * len(ids))
    del made["target_mask"]
    return Encoded(made, most, cut, len(texts))


def _padded(
    tokenizer: Any,
    items: Sequence[_Item],
    answers: Callable[[_Item], Sequence[str]],
    max_length: int,
    too_long: str,
) -> Encoded:
    """A row for every answer of every item, after its prompt."""
    most = _length_limit(tokenizer, items, max_length, too_long)
    made = Layout(tokenizer).rows([item.prompt for item in items], [answers(i) for i in items])
    kept, cut, unfit = list[Row](), set[int](), dict[int, str]()
    for i, rows in enumerate(made):
        name = items[i].place or f"sample {i}"
        for row in rows:
            if row.fixed >= most:
                raise InputError(
                    f"`max_length` must be above the {row.fixed} tokens that the template puts "
                    f"around prompts; found {most}"
                )
            after = len(row.ids) - row.start
            room = most - max(1, row.fixed)
            if not 0 < after <= room:
                unfit.setdefault(
                    i,
                    f"target of {name} must have 1 to {room} tokens, so that "
                    f"max_length = {most} holds it; found {after}",
                )
                continue
            if len(row.ids) > most:
                _refuse_too_long(name, len(row.ids), most, too_long)
                cut.add(i)
            kept.append(row.cut(most))
    if unfit:
        first, *others = unfit.values()
        raise InputError(first + f" (and {len(others)} more of {len(items)})" * bool(others))
    ids, starts = [row.ids for row in kept], [row.start for row in kept]
    return Encoded(_stack(tokenizer, ids, starts), most, len(cut), len(items))


def _grouped(made: Encoded, size: int) -> Encoded:
    tensors = {name: value.reshape(-1, size, value.shape[-1]) for name, value in made.items()}
    return Encoded(tensors, made.most, made.cut, made.size)


def _stack(
    tokenizer: Any, ids: Sequence[Sequence[int]], starts: Sequence[int]
) -> dict[str, Tensor]:
    longest = max(map(len, ids))
    rows = torch.full((len(ids), longest), tokenizer.pad_token_id, dtype=torch.long)
    for row, tokens in zip(rows, ids, strict=True):
        row[: len(tokens)] = torch.tensor(tokens)
    place = torch.arange(longest)
    mask = place < torch.tensor([len(tokens) for tokens in ids])[:, None]
    target = mask & (place >= torch.tensor(starts)[:, None])
    return {"input_ids": rows, "attention_mask": mask.long(), "target_mask": target.long()}


def _length_limit(tokenizer: Any, texts: Sequence[Any], max_length: int, too_long: str) -> int:
    """Tokens of the longest sequence: no more than the model takes."""
    if tokenizer_of(tokenizer).pad_token_id is None:
        raise InputError("`tokenizer` must have a token to pad with, as pad_token; found none")
    check_integer("max_length", max_length, low=2)
    check_choice("too_long", too_long, ("error", "cut"))
    if not texts:
        raise InputError("`examples` must hold at least one sample; found none")
    return min(max_length, int(tokenizer.model_max_length))


def _refuse_too_long(name: str, length: int, most: int, too_long: str) -> None:
    if too_long == "error":
        raise InputError(
            f"{name} must have at most max_length = {most} tokens; found {length}: "
            "raise max_length if the model takes more, or pass too_long='cut'"
        )
