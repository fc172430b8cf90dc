"""Domains of OOD-PL from texts: prompts with listed answers, some preferred to others.

*Questions with choices*: the right answer is preferred to every wrong one. *Pairs*: the chosen
answer to the rejected one; pairs with the same prompt list all of its answers. *Generated*:
:func:`generated_answers`, whose true rewards are known.

What a domain is fine-tuned on, mu_hat, are answers of mixed quality: wrong or rejected ones have
the chance ``wrong`` in all. With right answers only, a reward would have nothing to reweight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from linsys.bilevel import bradley_terry, sampled_preferences
from linsys.validate import InputError, check_integer, check_number, shown
from lora_bridge import _checks
from lora_bridge.bilevel import TextDomain
from lora_bridge.data import Example, Pair, Records, read_items
from lora_bridge.policy_reward import Models
from lora_bridge.splits import by_key
from lora_bridge.tokens import encode_examples

__all__ = ["Answers", "Domains", "answers_of", "generated_answers", "read_domains"]

Array = NDArray[np.float64]
_Item = TypeVar("_Item", bound=Example | Pair)

#: Consonants of the generated domains: none in common, so that words differ by domain.
CONSONANTS = ("bdg", "klm", "nprs", "tvz", "fhj", "cwx")
TOPICS = ("book", "film", "game", "shop", "song", "trip")
VOWELS = "aeiou"


@dataclass(frozen=True)
class Answers:
    """A domain as texts, before they become tokens.

    Attributes:
        name: of the domain.
        prompts: X texts.
        answers: the answers to each prompt, Y_x texts.
        chances: mu_hat of each answer, rows of sum one.
        pairs: (x, y, y', weight): y is preferred to y'; weights of sum one. May be empty.
        truth: the true reward of each answer; empty where unknown.

    Raises:
        InputError: no prompts, a prompt without answers, not one chance or reward per answer.
    """

    name: str
    prompts: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    chances: tuple[tuple[float, ...], ...]
    pairs: tuple[tuple[int, int, int, float], ...] = ()
    truth: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        sizes = [len(row) for row in self.answers]
        if not sizes or 0 in sizes or len(sizes) != len(self.prompts):
            raise InputError(
                f"`answers` must be one or more to each of {len(self.prompts)} prompts; "
                f"found {shown(sizes)}"
            )
        for name, rows in (("chances", self.chances), ("truth", self.truth)):
            counts = [len(row) for row in rows]
            if counts != sizes and (counts or name == "chances"):
                raise InputError(
                    f"`{name}` must be of {shown(sizes)} answers; found {shown(counts)}"
                )

    def domain(
        self, tokenizer: Any, models: Models, max_length: int = 512, too_long: str = "cut"
    ) -> TextDomain:
        """As tokens, for a policy and a reward."""
        X, Y = len(self.prompts), max(map(len, self.answers))
        filled = [[*row, *[row[0]] * (Y - len(row))] for row in self.answers]
        examples = [Example(p, a) for p, row in zip(self.prompts, filled, strict=True) for a in row]
        flat = encode_examples(tokenizer, examples, max_length, too_long)
        tokens = {name: value.reshape(X, Y, -1) for name, value in flat.items()}
        for x, row in enumerate(self.answers):
            tokens["target_mask"][x, len(row) :] = 0
        columns: Any = [np.array(c) for c in zip(*self.pairs, strict=True)] or None
        return TextDomain(
            name=self.name,
            prompts=np.full(X, 1.0 / X),
            mu_hat=_table(self.chances, Y),
            preferences=columns,
            truth=_table(self.truth, Y) if self.truth else None,
            tokens=tokens,
            models=models,
        )


def answers_of(name: str, items: Sequence[Example | Pair], wrong: float = 0.5) -> Answers:
    """Questions or pairs as a domain, prompts in order; every pair of a prompt weighs the same.

    Questions without choices have no wrong answers, and a domain of them no pairs.

    Args:
        name: of the domain.
        items: its questions or pairs.
        wrong: chance of a wrong or rejected answer in the fine-tuning data; where all answers to a
            prompt are right, or all rejected, they have the same chance.

    Raises:
        InputError: no items, a chance outside [0, 1).

    >>> made = answers_of("sums", [Example("1+1=", "2", ("2", "3", "4"))])
    >>> made.answers, made.chances, made.pairs
    ((('2', '3', '4'),), ((0.5, 0.25, 0.25),), ((0, 0, 1, 0.5), (0, 0, 2, 0.5)))
    """
    check_number("wrong", wrong, low=0.0, high=1.0, high_open=True)
    items = _checks.listed("items", items, Example, Pair)
    if not items:
        raise InputError(f"`items` of domain `{name}` must be at least one; found none")
    listed: dict[str, list[str]] = {}
    better: dict[tuple[str, str, str], None] = {}
    for item in items:
        right = item.target if isinstance(item, Example) else item.chosen
        others = item.choices if isinstance(item, Example) else (item.rejected,)
        known = listed.setdefault(item.prompt, [])
        known += [text for text in dict.fromkeys((right, *others)) if text not in known]
        better.update(dict.fromkeys((item.prompt, right, a) for a in others if a != right))
    prompts, lost = tuple(listed), {(prompt, worse) for prompt, _, worse in better}
    good = [np.array([(p, a) not in lost for a in listed[p]], dtype=float) for p in prompts]
    places = [(prompts.index(p), listed[p].index(a), listed[p].index(b)) for p, a, b in better]
    return Answers(
        name,
        prompts,
        tuple(tuple(listed[p]) for p in prompts),
        tuple(_chances(row, wrong) for row in good),
        tuple((*place, 1.0 / len(places)) for place in places),
        tuple(map(tuple, good)) if isinstance(items[0], Example) else (),
    )


def _chances(good: Array, wrong: float) -> tuple[float, ...]:
    """Chances: ``wrong`` for all that are not good together; equal ones where all are alike."""
    if good.all() or not good.any():
        return (1.0 / len(good),) * len(good)
    shares = good * (1.0 - wrong) / good.sum() + (1.0 - good) * wrong / (1.0 - good).sum()
    return tuple(shares.tolist())


class Domains(dict[str, list[_Item]]):
    """Items by domain; ``left_out`` is that of :class:`lora_bridge.data.Records`."""

    left_out: int = 0


def read_domains(path: Path | str) -> Domains[Any]:
    """The questions or pairs of every domain of a file or a folder, in order of the domains' names.

    Raises:
        InputError: no readable file; fewer than two domains; pairs that do not name theirs.
    """
    items: Records[Any] = read_items(path)
    if unnamed := sum(not item.domain for item in items):
        raise InputError(
            f"`data` must name the `domain` in every record; found {unnamed} without in {path}"
        )
    domains = Domains[Any](by_key(items, lambda item: item.domain))
    domains.left_out = items.left_out
    if len(domains) < 2:
        raise InputError(
            f"`data` must hold two domains or more, named by `domain` in every record; "
            f"found {', '.join(domains)} in {path}"
        )
    return domains


def generated_answers(
    seed: int,
    count: int = 4,
    *,
    prompts: int = 40,
    answers: int = 5,
    own: float = 0.2,
    strength: float = 2.0,
    pairs: int | None = None,
    tests: int = 0,
) -> list[tuple[Answers, Answers | None]]:
    """``count`` domains of syllables, of which people prefer some, with their tests.

    Answers are a consonant of the domain's own and a vowel, "ba" or "gi" to prompts such as
    "book gudib: " in the first one. The true reward of an answer is strength times its vowel's part
    of theta, a vector over the five vowels that is the same in all domains but for a share ``own``:
    theta = sqrt(1 - own) c + sqrt(own) v_domain with random unit vectors. The answers that are
    listed at a prompt have different vowels, and each is as frequent as the others in the
    fine-tuning data.

    Args:
        seed: of everything.
        count: domains, at most six.
        prompts, answers: X and Y of a domain.
        own: share of the reward that is the domain's own.
        strength: of the rewards.
        pairs: preferences drawn from Bradley and Terry's model; all with their chances without it.
        tests: prompts of a test with all preferences; none for 0.
    """
    check_integer("count", count, low=1, high=len(TOPICS))
    check_integer("prompts", prompts, low=1)
    check_integer("answers", answers, low=2, high=len(VOWELS))
    check_integer("tests", tests)
    check_number("own", own, low=0.0, high=1.0)
    check_number("strength", strength, low=0.0)
    rng = np.random.default_rng(check_integer("seed", seed, low=0))
    common = _unit(rng)
    domains: list[tuple[Answers, Answers | None]] = []
    for i in range(count):
        theta = np.sqrt(1.0 - own) * common + np.sqrt(own) * _unit(rng)
        made = _generated(i, prompts + tests, answers, strength * theta, rng)
        train, test = made[:prompts], made[prompts:]
        drawn = None if pairs is None else (pairs, int(rng.integers(2**31)))
        domains.append((_preferred(i, train, drawn), _preferred(i, test, None) if tests else None))
    return domains


_Row = tuple[str, tuple[str, ...], tuple[float, ...]]


def _generated(
    domain: int, count: int, answers: int, theta: Array, rng: np.random.Generator
) -> list[_Row]:
    """Different prompts, each with different answers and their rewards."""
    rows: dict[str, _Row] = {}
    while len(rows) < count:
        prompt = f"{TOPICS[domain]} {_word(domain, rng)}: "
        vowels = rng.choice(len(VOWELS), answers, replace=False)
        texts = tuple(str(rng.choice(list(CONSONANTS[domain]))) + VOWELS[v] for v in vowels)
        rows[prompt] = (prompt, texts, tuple(float(theta[v]) for v in vowels))
    return list(rows.values())


def _preferred(domain: int, rows: Sequence[_Row], drawn: tuple[int, int] | None) -> Answers:
    prompts, answers, truth = zip(*rows, strict=True)
    X, Y = len(prompts), len(answers[0])
    preferences = bradley_terry(np.full(X, 1.0 / X), np.full((X, Y), 1.0 / Y), np.array(truth))
    if drawn is not None:
        preferences = sampled_preferences(preferences, *drawn)
    pairs = tuple(zip(*(column.tolist() for column in preferences), strict=True))
    return Answers(TOPICS[domain], prompts, answers, ((1.0 / Y,) * Y,) * X, pairs, truth)


def _word(domain: int, rng: np.random.Generator) -> str:
    """Three to five letters."""
    sets = [VOWELS, CONSONANTS[domain]]
    kinds = rng.integers(0, 2, rng.integers(3, 6))
    return "".join(rng.choice(list(sets[kind])) for kind in kinds)


def _unit(rng: np.random.Generator) -> Array:
    vector = rng.normal(size=len(VOWELS))
    return np.asarray(vector / np.linalg.norm(vector))


def _table(rows: Sequence[Sequence[float]], Y: int) -> Array:
    """Rows of different lengths, filled with zeros."""
    return np.array([[*row, *[0.0] * (Y - len(row))] for row in rows])
