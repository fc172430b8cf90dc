"""Prompts to respond to: of the user's dialogues, pairs or questions, or built in.

They are examples without a target, so that :mod:`lora_bridge.splits` deals them to clients.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from linsys.validate import InputError, check_instance, check_integer
from lora_bridge.data import Example, Pair, files_of, item_of, records_in, text_field, user_in
from lora_bridge.docstrings import docstrings

__all__ = ["built_in_prompts", "prompt_texts", "read_prompts"]

#: After this the assistant responds, in dialogues as HH has them.
MARKER = "\n\nAssistant:"
#: Bytes of prompts that are enough to learn letters and words from.
_ENOUGH_BYTES = 20_000


def read_prompts(
    path: Path | str, domain: str | None = None, marker: str = MARKER
) -> list[Example]:
    """The prompts of a file or a folder, in the forms of :mod:`lora_bridge.data`.

    A record is a question, as :func:`lora_bridge.data.read_examples` has it, and gives its prompt;
    or {prompt, ..}; or a dialogue {chosen, ..}, which is cut before the last
    answer of the assistant. In the latter two, the prompt must end with the marker.

    Args:
        path: of the file or the folder.
        domain: of records that name none; what the file's name says without it.
        marker: what a prompt ends with, but for white space; "" for {prompt, ..} as they are.

    Raises:
        InputError: no such file, no JSON, a record without any of the three or without the marker;
            by its number.
    """
    check_instance("marker", marker, str, "a text")

    def read(record: Any, named: str) -> Example:
        own = text_field(record, "domain", named) if isinstance(record, dict) else named
        if isinstance(record, dict) and ("prompt" in record or "chosen" in record):
            return Example(_before_answer(record, marker), "", domain=own, user=user_in(record))
        item = item_of(record, own)
        assert not isinstance(item, Pair)
        return Example(item.prompt, "", domain=item.domain, user=item.user)

    return [
        prompt
        for file, own in files_of(path)
        for prompt in records_in(file, partial(read, named=domain or own))
    ]


def prompt_texts(path: Path | str | None) -> list[str] | None:
    """The different prompts of a file, or of a folder's files: what a built-in model learns from.

    Answers are not among them, so that nothing that is held out later is seen. None, which stands
    for the docstrings, without a path or where the prompts are less than 20,000 bytes.

    >>> prompt_texts(None) is None
    True
    """
    if path is None:
        return None
    every = [prompt.prompt for prompt in read_prompts(path, marker="")]
    texts = [text for text in dict.fromkeys(every) if text.strip()]
    return texts if sum(len(text.encode()) for text in texts) >= _ENOUGH_BYTES else None


def built_in_prompts(
    count: int = 256, words: int = 4, domains: int = 10, seed: int = 0
) -> list[Example]:
    """Words in a row of the docstrings of Python's standard library.

    The domain of a prompt is the part of the text it comes from, of ``domains`` equal ones:
    docstrings of neighbouring modules.

    >>> built_in_prompts(1, words=3)[0].prompt.count(" ")
    2
    """
    check_integer("words", words, low=1)
    check_integer("domains", domains, low=1)
    text = docstrings().split()
    places = len(text) - words
    check_integer("count", count, low=1, high=places)
    generator = np.random.Generator(np.random.Philox(key=check_integer("seed", seed, low=0)))
    starts = generator.choice(places, count, replace=False)
    return [
        Example(" ".join(text[at : at + words]), "", domain=f"part {domains * at // places}")
        for at in starts
    ]


def _before_answer(record: dict[str, Any], marker: str) -> str:
    if "prompt" not in record:
        before, separator, _ = text_field(record, "chosen").rpartition(MARKER)
        prompt = before + separator
    else:
        prompt = text_field(record, "prompt")
    if not prompt.strip() or not prompt.rstrip().endswith(marker.rstrip()):
        raise InputError(
            f"a prompt must end with the response marker {marker!r}; found {prompt[-40:]!r}"
        )
    return prompt
