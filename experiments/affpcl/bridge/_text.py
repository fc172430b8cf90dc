"""Texts with two properties, whose they are, and what each agent says of them.

Without a file: ends of sentences of the standard library's docstrings. With one: the prompts of
instruction data, or prompts with their chosen answers for preference pairs.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from linsys import InputError

Array = NDArray[np.float64]
Places = NDArray[np.int64]

#: Letters that a text may have at the last place but one, and at the last. Either property holds
#: for about half of the docstrings' sentences, and the two are nearly independent.
BEFORE, LAST = "aeiou", "eds"
#: The least and the largest number of characters of a text of docstrings.
_LEAST, _MOST = 8, 24


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts that agents can have.

    Attributes:
        name: of the source.
        texts: m of them, all different.
        properties: whether a text has the first and the second property, (m, 2).
        wording: the properties in words.
        domains: (m,), whole numbers from 0; those of a file, or the classes that the properties
            make, of which agents have different mixes as users of Figure 2 have.
        left_out: how many records of a file compare nothing and are not there.
    """

    name: str
    texts: Sequence[str]
    properties: Array
    wording: tuple[str, str]
    domains: Places
    left_out: int = 0


@dataclass(frozen=True, eq=False)
class Person:
    """One agent: its own texts, and how much every text of the test counts for it.

    Attributes:
        chosen: places of its texts in the corpus, (samples,).
        domains, properties: of these texts, (samples,) and (samples, 2).
        wanted: probabilities of no and yes for them, (samples, 2).
        shares: of its texts' domains, (domains,).
        weights: of the test's texts, (tests,), sum 1.
    """

    chosen: Places
    domains: Places
    properties: Array
    wanted: Array
    shares: Array
    weights: Array


def read(path: Path | None) -> Corpus:
    """The corpus of a file of :mod:`lora_bridge.data`, or of the docstrings.

    What all texts begin and end with, such as an instruction, is left out. The second property is
    the answer itself where every question of the file has the same two choices: agents then agree
    on what is right as far as they follow it.

    Raises:
        InputError: no such file, records that are neither kind, a property that all texts have or
            none has.
    """
    if path is None:
        return _docstrings()
    from lora_bridge.data import Example, Pair, read_items

    items = read_items(path)
    if said := [item.prompt + item.chosen for item in items if isinstance(item, Pair)]:
        texts = _unframed(_distinct(said))
        return replace(_classed(path.name, texts, _words(texts), _SAID), left_out=items.left_out)
    by_prompt = {item.prompt: item for item in items if isinstance(item, Example)}
    texts = _unframed(list(by_prompt))
    choices = {e.choices for e in by_prompt.values()}
    properties, wording = _words(texts), _SAID
    if len(choices) == 1 and len(next(iter(choices))) == 2:
        first = next(iter(choices))[0]
        properties[:, 1] = [e.target == first for e in by_prompt.values()]
        wording = (_SAID[0], f"the answer is {first!r}")
    domains = sorted({e.domain for e in by_prompt.values()})
    corpus = _classed(path.name, texts, properties, wording)
    if len(domains) == 1:
        return corpus
    return replace(corpus, domains=np.array([domains.index(e.domain) for e in by_prompt.values()]))


def deal(
    corpus: Corpus,
    rng: np.random.Generator,
    lambdas: Array,
    samples: int,
    tests: int,
    concentration: float,
    drawn: bool = False,
) -> tuple[list[Person], Places]:
    """Agents with texts of their own, and the places of the texts that all are tested on.

    Agent i has domains in shares drawn from a Dirichlet distribution around those of the corpus
    with this ``concentration`` (infinite: the same for all), and it labels a text by the first
    property with probability lambda^i, by the second one otherwise: it wants these probabilities,
    or labels that are ``drawn`` from them once. On the common test a text counts for an agent as
    much as its domain is frequent with it.

    Raises:
        InputError: fewer texts than are needed.
    """
    m, n = len(corpus.texts), len(lambdas)
    if m < n * samples + tests:
        raise InputError(
            f"`data` must hold agents * samples + tests = {n * samples + tests} different texts; "
            f"found {m}"
        )
    order = rng.permutation(m)
    test, pool = order[:tests], order[tests:]
    D = int(corpus.domains.max()) + 1
    frequency = np.bincount(corpus.domains, minlength=D) / m
    remaining = [list(pool[corpus.domains[pool] == c]) for c in range(D)]
    tested = np.bincount(corpus.domains[test], minlength=D)
    people = []
    for weight in lambdas:
        mix = frequency
        if np.isfinite(concentration):
            mix = rng.dirichlet(concentration * frequency * D)
        chosen = np.array([_take(remaining, mix, rng) for _ in range(samples)])
        has = corpus.properties[chosen]
        yes = probabilities(has, weight)[:, 1]
        if drawn:
            yes = (rng.random(samples) < yes).astype(np.float64)
        counts = (mix / np.maximum(tested, 1))[corpus.domains[test]]
        domains = corpus.domains[chosen]
        both = np.column_stack([1.0 - yes, yes])
        people.append(Person(chosen, domains, has, both, mix, counts / counts.sum()))
    return people, test


def probabilities(properties: Array, weight: float) -> Array:
    """The probabilities of no and yes, (m, 2), if the first property decides with ``weight``."""
    yes = properties @ [weight, 1.0 - weight]
    return np.column_stack([1.0 - yes, yes])


@lru_cache(maxsize=1)
def _docstrings() -> Corpus:
    from lora_bridge.docstrings import docstrings

    texts = _ends(docstrings())
    return _classed("docstrings", texts, _words(texts), _SAID)


def _take(left: list[list[int]], wanted: Array, rng: np.random.Generator) -> int:
    """A text of a domain drawn at random among those with texts left."""
    shares = np.where([bool(texts) for texts in left], wanted + 1e-12, 0.0)
    return int(left[rng.choice(len(left), p=shares / shares.sum())].pop())


_SAID = (
    f"its last letter but one is one of {', '.join(BEFORE)}",
    f"its last letter is one of {', '.join(LAST)}",
)


def _words(texts: Sequence[str]) -> Array:
    letters = [[c for c in text.lower() if c.isalpha()][-2:] for text in texts]
    flags = [(len(w) == 2 and w[0] in BEFORE, bool(w) and w[-1] in LAST) for w in letters]
    return np.array(flags, dtype=np.float64)


def _classed(
    name: str, texts: Sequence[str], properties: Array, wording: tuple[str, str]
) -> Corpus:
    """A corpus whose domains are the combinations of properties that occur."""
    for had, what in zip(properties.T, wording, strict=True):
        if had.min() == had.max():
            how_many = "all" if had.min() else "none"
            raise InputError(
                f"`data` must hold texts of which some fulfil this and some do not: {what}; "
                f"found that {how_many} of {len(texts)} do"
            )
    domains = np.unique(properties @ [2.0, 1.0], return_inverse=True)[1]
    return Corpus(name, texts, properties, wording, domains.astype(np.int64))


def _unframed(texts: Sequence[str]) -> list[str]:
    """The texts without the words that all of them begin or end with."""
    cropped = list(texts)
    for _ in range(2):
        low, high = min(cropped), max(cropped)  # a prefix that these two share is shared by all
        same = next(
            (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low)
        )
        cut = max((i + 1 for i, c in enumerate(low[:same]) if c.isspace()), default=0)
        cropped = [text[cut:][::-1] for text in cropped]
    return cropped


def _ends(text: str) -> list[str]:
    """The last words of every sentence, up to ``_MOST`` characters, without the full stop."""
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    sentences = [s for p in paragraphs for s in re.split(r"(?<=[.!?])\s+(?=[A-Z])", p)]
    whole = [s[:-1] for s in sentences if re.search(r"[a-z]\.$", s) and len(s) > _LEAST]
    last = [textwrap.wrap(s[::-1], _MOST)[0][::-1] for s in _distinct(whole)]
    return [s for s in _distinct(last) if len(s) >= _LEAST]


def _distinct(texts: Sequence[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text.strip()]
