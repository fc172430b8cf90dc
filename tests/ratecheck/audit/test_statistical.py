"""Statements about means that are sampled: what is said of them, and how often it is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ratecheck as rc
from linsys import InputError
from ratecheck._commands import audits
from ratecheck._conformance.claims import check_claim
from ratecheck._rates.betting import Bet
from ratecheck._verdicts import statistical
from ratecheck._verdicts.replay import replay_file
from ratecheck._verdicts.statistical import instances_of, sampled

PAPER = rc.Paper("mine", "my paper")
UNIT = {"p": rc.interval()}
Measure = Callable[..., Any]


def declared(measure: Measure, on: Any = UNIT, **options: Any) -> rc.StatisticalClaim:
    measure.__doc__ = "The mean is at most what is said."
    settings = {"between": (-1, 1), "within": 0.05, "alpha": 0.01} | options
    return PAPER.statistical("claim", ref="Lemma 1", on=on, **settings)(measure)


def coin(more: float = 0.0) -> Measure:
    """A coin that is ``more`` likely to show heads than p says, as far as it can be."""
    return lambda p, rng: rng.binomial(1, min(p + more, 1.0), size=500) - p


def test_the_suite_shifts_to_the_wrong_side() -> None:
    for relation in ("<=", ">=", "=="):
        check_claim(declared(coin(), relation=relation))
    check_claim(declared(lambda p, rng: rng.uniform(-1, 0, size=500), relation="<="))


@pytest.mark.parametrize("relation", ["<=", ">=", "=="])
def test_a_true_equality_holds_to_within_what_is_asked(relation: str) -> None:
    verdict = rc.judge(declared(coin(), relation=relation))
    assert verdict.verdict == "holds"
    assert verdict.reason == (
        "on these instances to within 0.05, with error probability at most 0.01"
    )
    assert verdict.evidence == "sampled, wrong with probability at most 0.01"
    assert abs(verdict.details["mean"]) < 0.05
    assert verdict.instances >= 12


@pytest.mark.parametrize(
    ("relation", "more", "said"),
    [
        ("<=", 0.2, "violated"),
        ("<=", -0.5, "holds"),
        (">=", -0.2, "holds"),  # a probability of less than zero is drawn as zero
        ("==", 0.2, "violated"),
    ],
)
def test_what_is_exceeded_is_violated(relation: str, more: float, said: str) -> None:
    def shifted(p: float, rng: np.random.Generator) -> Any:
        heads = rng.binomial(1, np.clip(p + more, 0, 1), size=500)
        return (p - heads, 0 * heads) if relation == ">=" else (heads, p + 0 * heads)

    verdict = rc.judge(declared(shifted, relation=relation))
    assert verdict.verdict == said
    if said == "violated":
        assert verdict.counterexample is not None
        assert verdict.counterexample["p"] < 1
        assert verdict.reason.startswith("with error probability at most 0.01: the mean of ")
        assert float(verdict.measured) > 0.05


@pytest.mark.slow
def test_false_violations_are_as_rare_as_is_said() -> None:
    """500 runs on a true equality, with an error probability of 0.1; seeds are fixed."""
    claim = declared(coin(), alpha=0.1, most=2000, within=0.3)
    batch = instances_of(claim, "quick", 0)[5]
    runs = [sampled(claim, [batch], seed)[0][0].said for seed in range(500)]
    assert runs.count("violated") / 500 <= 0.1


@pytest.mark.slow
def test_that_an_excess_counts_as_none_is_as_rare() -> None:
    """The mean is what must not count as none, while noise hides it for long."""

    def exceeds(p: float, rng: np.random.Generator) -> Any:
        return rng.uniform(-1, 1, size=50) + 0.05

    claim = declared(exceeds, alpha=0.1, within=0.05, between=(-0.95, 1.05))
    batch = instances_of(claim, "quick", 0)[5]
    said = [sampled(claim, [batch], seed)[0][0].said for seed in range(200)]
    assert said.count("within") / 200 <= 0.1
    assert said.count("violated") / 200 > 0.8


def test_the_error_probability_is_that_of_all_instances_together() -> None:
    claim = declared(coin(), alpha=0.5, most=1500, within=0.5)
    batches = instances_of(claim, "quick", 0)
    wrong = [sampled(claim, batches, seed)[0][-1].said == "violated" for seed in range(150)]
    assert sum(wrong) / 150 <= 0.5


def test_a_stake_that_knows_the_next_sample_is_wrong_too_often() -> None:
    """What the test above would see: of bets on the sign of the sample itself, most are won."""

    class Seer(Bet):
        def see(self, samples: Any) -> None:
            for one in samples:
                self._sum += one
                super().see(np.array([one]))

    def wins(kind: type[Bet]) -> int:
        count = 0
        for seed in range(60):
            bet = kind(-1, 1)
            bet.see(np.random.default_rng(seed).uniform(-1, 1, 200))
            count += bet.rejects(0.1)
        return count

    assert wins(Bet) <= 6 < wins(Seer)


def test_wealth_does_not_depend_on_how_samples_are_cut() -> None:
    samples = np.random.default_rng(0).uniform(-0.8, 1, 100)
    whole, parts = Bet(-1, 1), Bet(-1, 1)
    whole.see(samples)
    for part in np.split(samples, [1, 10, 50]):
        parts.see(part)
    assert parts.log_wealth == pytest.approx(whole.log_wealth, rel=1e-12)
    assert whole.log_wealth > 1


def test_what_samples_do_not_decide() -> None:
    verdict = rc.judge(declared(coin(), within=1e-4, most=1000))
    assert verdict.verdict == "not decided"
    assert "1,000 samples do not decide between 0 and 0.0001; a larger `most` may" in verdict.reason


def test_the_verdict_depends_on_the_seed_alone() -> None:
    said = [rc.judge(declared(coin()), seed=seed).to_dict() for seed in (0, 0, 1)]
    details = [one["details"] for one in said]
    assert details[0] == details[1] != details[2]


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        (lambda p, rng: 2.0 + 0 * rng.normal(size=3), "must lie `between` -1 and 1; found 2"),
        (lambda p, rng: np.nan * rng.normal(size=3), "must lie `between` -1 and 1; found nan"),
        (
            lambda p, rng: [],
            r"must return samples of measured - bound, or of both sides; found \[\]",
        ),
        (lambda p, rng: (1, 2, 3), r"or of both sides; found \(1, 2, 3\)"),
        (lambda p, rng: np.random.default_rng().uniform(size=3), "other samples for equal generat"),
        (lambda p, rng: 1 / 0, "measure raised ZeroDivisionError"),
    ],
)
def test_what_cannot_be_sampled(measure: Measure, reason: str) -> None:
    verdict = rc.judge(declared(measure))
    assert verdict.verdict == "error"
    assert re.search(reason, verdict.reason)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"between": (1, -1)}, r"`between` of mine\.claim must be two numbers, the smaller"),
        ({"within": 0}, r"`within` of mine\.claim must be positive and less than 2; found 0"),
        ({"alpha": 1.0}, r"`alpha` of mine\.claim must be between 0 and 1; found 1\.0"),
        ({"relation": "<"}, r"`relation` of mine\.claim must be <=, >= or ==; found '<'"),
    ],
)
def test_options_are_checked(option: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        declared(coin(), **option)


def test_instances_that_given_rules_out_are_not_sampled() -> None:
    space = rc.Space(fields=UNIT, given={"p < 1/2": lambda s: s.p < 0.5}, corners=[{"p": 0.75}])
    batches = instances_of(declared(coin(), space), "quick", 0)
    assert len(batches) == 1 + 12  # one end of p, and random ones
    assert max(float(batch.fields["p"][0]) for batch in batches) < 0.5
    never = rc.Space(fields=UNIT, given={"p > 1": lambda s: s.p > 1})
    assert rc.judge(declared(coin(), never)).verdict == "vacuous"


def test_half_of_the_instances_have_small_whole_numbers_as_often_as_large_ones() -> None:
    def small(high: int) -> int:
        space = rc.Space(fields={**UNIT, "m": rc.whole_numbers(low=1, high=high)})
        batches = instances_of(declared(lambda p, m, rng: 0 * p, space), "hunt", 0)
        assert 120 <= len(batches) <= 126  # with the ends
        return sum(1 < float(batch.fields["m"][0]) < high / 10 for batch in batches)

    assert small(64) < 20  # a tenth, less what lies at the ends
    assert small(10_000) > 30  # and of a wide range nearly a half


def test_it_is_a_test_that_refuses_a_little_more() -> None:
    check_claim(declared(coin()))
    with pytest.raises(AssertionError, match="is expected to hold, is violated"):
        check_claim(declared(coin(0.2)))
    # of too few samples nothing would be refused
    few = declared(lambda p, rng: rng.binomial(1, p, size=100) - p, within=1.5, most=100)
    assert rc.judge(few).verdict == "holds"
    with pytest.raises(AssertionError, match="too strong is not refused, but holds"):
        check_claim(few)


def test_a_stored_counterexample_is_sampled_again(tmp_path: Path) -> None:
    text = '''
import ratecheck as rc
PAPER = rc.Paper("mine", "my paper")

@PAPER.statistical("coin", ref="Lemma 1", on={"p": rc.interval()}, between=(-1, 1), within=0.05)
def coin(p, rng):
    """A coin that is said to be fair."""
    return rng.binomial(1, p, size=1000) - 0.5
'''
    path, file = tmp_path / "mine.py", tmp_path / "one.json"
    path.write_text(text)
    instance = '{"id": "mine.coin", "file": "%s", "verdict": "%s", "instance": {"p": %s}}'
    file.write_text(instance % (path, "violated", 0.9))
    assert replay_file(file, [str(path)]).ok
    file.write_text(instance % (path, "violated", 0.3))
    assert not replay_file(file, [str(path)]).ok


def test_what_is_sampled_and_how_it_decides_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "coin.py").write_text("""
import ratecheck as rc
PAPER = rc.Paper("mine", "my paper")
@PAPER.statistical(
    "coin", ref="Lemma 1", on={"p": rc.interval()}, between=(-1, 2), within=0.05, relation=">="
)
def coin(p, rng):
    "The mean is at least p."
    return rng.binomial(1, p, size=500) - p
""")
    path, out = str(tmp_path / "coin.py"), tmp_path / "out"
    audits.list_or_describe([path], out, False, in_full=True, broken=print)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[lines.index("Instances:") + 1] == "p: numbers from 0 to 1"
    assert lines[lines.index("Samples:") :][1:6] == [
        "of measured - bound, each between -1 and 2",
        "violated: their mean is below 0 on some instance",
        "holds: their mean is at least -0.05 on every instance tried",
        "either of these is wrong with probability at most 1e-06",
        "not decided: 100,000 samples of an instance say neither",
    ]


def test_samples_that_ignore_the_generator_are_refused() -> None:
    """One fixed draw, over and over, looks like a mean that is certain."""
    verdict = rc.judge(declared(lambda p, rng: np.random.default_rng(1).uniform(-1, 1, size=1)))
    assert verdict.verdict == "error"
    assert verdict.reason == (
        "measure must draw its samples from `rng`; found that it drew nothing from it"
    )


def test_what_fails_at_the_end_of_a_field_alone_is_seen() -> None:
    space = {"p": rc.interval(), "q": rc.interval()}
    one = declared(lambda p, q, rng: rng.binomial(1, 0.3 * (q >= 0.999), size=200), on=space)
    verdict = rc.judge(one)
    assert verdict.verdict == "violated"
    assert verdict.counterexample is not None
    assert verdict.counterexample["q"] == 1


def test_generators_that_are_spawned_count_as_drawn_from() -> None:
    def spawned(p: float, rng: np.random.Generator) -> Any:
        return rng.spawn(1)[0].binomial(1, p, size=500) - p

    first = declared(spawned, between=(-1, 1), within=0.3)
    assert "drew nothing" not in rc.judge(first).reason


def skewed(at: int) -> rc.StatisticalClaim:
    """E(X - p)^3 <= 1/20 for a coin: false where p is near 1/5, true for p at 0, 1/2 and 1.

    Of lengths there are many, so that few instances of each are looked at.
    """
    space = rc.Space(fields={"p": rc.interval("n"), "q": rc.interval("m")})

    def third(p: Any, q: Any, rng: np.random.Generator) -> Any:
        return (rng.binomial(1, p[0], size=500) - p[0]) ** 3 - 0.05 + 0 * q[0]

    measure = third if at == 0 else (lambda p, q, rng: third(q, p, rng))
    return declared(measure, on=space, within=0.02)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("at", [0, 1])
def test_a_quick_search_looks_at_inner_instances_first(
    at: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = rc.judge(skewed(at), "quick", seed)
    assert verdict.verdict == "violated"
    assert verdict.instances <= 6  # before the ends of fields
    # ends alone, of which the search was once made here, do not break it
    monkeypatch.setattr(statistical, "_inner", lambda space, count, seed, name="": [])
    monkeypatch.setattr(statistical, "_PAST_CORNERS", 0)
    assert rc.judge(skewed(at), "quick", seed).verdict == "holds"


def test_a_quick_search_samples_what_looks_most_suspicious(monkeypatch: pytest.MonkeyPatch) -> None:
    """A false statement that a twentieth of the instances break."""

    def band(p: float, rng: np.random.Generator) -> Any:
        return rng.binomial(1, 0.4 + 0.2 * (abs(p - 0.37) < 0.025), size=100) - 0.5

    def found() -> int:
        claim = declared(band, {"p": rc.interval()})
        said = [rc.judge(claim, "quick", seed).verdict for seed in range(6)]
        assert set(said) <= {"violated", "holds"}
        return said.count("violated")

    assert found() >= 5
    monkeypatch.setattr(statistical, "LOOKED_AT", {})
    assert found() <= 3


@pytest.mark.slow
def test_a_look_does_not_make_a_true_statement_false() -> None:
    """At risk alpha = 0.01 each; more than four of sixty have a probability below 1e-6."""
    wrong = [rc.judge(declared(coin()), "quick", seed).verdict == "violated" for seed in range(60)]
    assert sum(wrong) <= 5


def test_inner_instances_are_spread() -> None:
    space = rc.Space(fields={"p": rc.interval(), "x": rc.reals("n")})
    batches = instances_of(declared(coin(), space), "normal", 0)[:20]
    assert sorted(int(20 * float(one.fields["p"][0])) for one in batches) == list(range(20))
    assert {one.sizes["n"] for one in batches} == {1, 2, 3, 4}


def test_inner_instances_are_drawn_again_where_given_rules_them_out() -> None:
    space = rc.Space(fields=UNIT, given={"p < 1/5": lambda s: s.p < 0.2})
    batches = instances_of(declared(coin(), space), "quick", 0)
    inner = [float(one.fields["p"][0]) for one in batches[:6]]
    assert len(set(inner)) == 6
    assert all(0 < p < 0.2 for p in inner)
