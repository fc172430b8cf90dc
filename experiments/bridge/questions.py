"""Questions with choices: generated ones about words, or a user's, and which are held out.

Without a file, questions are about strings of letters and have four domains, such as "kamelo last?"
(does it end with a vowel?), answered yes or no, half of them yes. Each word is drawn anew, so that
a test's questions are new but for chance. With a file: instruction data with choices; with a
folder: all its files, where those of one domain, such as arc_train.json and arc_test.json, are one
pool, from which every draw takes its own tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from linsys import InputError

if TYPE_CHECKING:
    from lora_bridge.data import Example

LETTERS, VOWELS = "aeioubdgklmnprst", "aeiou"
#: The properties that questions are about; a question ends with the property's name.
PROPERTIES: Mapping[str, Callable[[str], bool]] = {
    "long": lambda word: len(word) > 5,
    "first": lambda word: word[0] in VOWELS,
    "last": lambda word: word[-1] in VOWELS,
    "has k": lambda word: "k" in word,
}


def word(rng: np.random.Generator) -> str:
    """Three to eight letters."""
    return "".join(rng.choice(list(LETTERS), rng.integers(3, 9)))


def questions(domain: str, count: int, rng: np.random.Generator) -> list[Example]:
    """Questions about words, every second one to be answered by yes."""
    from lora_bridge.data import Example

    asked, examples = PROPERTIES[domain], []
    for i in range(count):
        while asked(drawn := word(rng)) != (i % 2 == 1):
            pass
        answer = "yes" if i % 2 else "no"
        examples.append(Example(f"{drawn} {domain}? ", answer, ("yes", "no"), domain))
    return examples


def pools(
    data: Path | None, wanted: int, held_out: int, seed: int
) -> tuple[list[Example], dict[str, list[Example]]]:
    """Questions to train on, and those of every domain that are held out.

    Args:
        data: a file, or a folder of files; None: generated questions.
        wanted: of all domains together, to train on; fewer where files have no more.
        held_out: of every domain.
        seed: of the generated questions, or of the split.

    Raises:
        InputError: no files, a question without choices, a domain with too few questions.
    """
    from lora_bridge.splits import by_key

    rng = np.random.default_rng(seed)
    if data is None:
        share = -(-wanted // len(PROPERTIES))
        train = [e for domain in PROPERTIES for e in questions(domain, share, rng)]
        return train, {domain: questions(domain, held_out, rng) for domain in PROPERTIES}
    items = _read(data)
    train, tests = [], {}
    for domain, group in by_key(items, lambda e: e.domain).items():
        if len(group) <= held_out:
            raise InputError(
                f"`data` must have more than tests = {held_out} questions of {domain}; "
                f"found {len(group)}"
            )
        order = [group[j] for j in rng.permutation(len(group))]
        tests[domain], rest = order[:held_out], order[held_out:]
        train += rest[: -(-wanted * len(group) // len(items))]
    return train, tests


def dealt_by(items: Sequence[Example]) -> Callable[[Example], str]:
    """The classes that Dirichlet shares divide: domains, or answers where there is one domain."""
    several = len({e.domain for e in items}) > 1
    return (lambda e: e.domain) if several else (lambda e: e.target)


def _read(data: Path) -> list[Example]:
    """All questions of a file or a folder."""
    from lora_bridge.data import read_examples

    items = read_examples(data)
    if without := next((e for e in items if len(e.choices) < 2), None):
        raise InputError(
            f"`data` must have choices in all questions ('Answer format: a/b'); found none in "
            f"{without.place}: open questions train from Python, see docs/data.md"
        )
    return items
