"""P-ShareLoRA on reward models: the score head, the users' pairs, distances, and the claims."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ratecheck as rc

pytest.importorskip("torch")

import torch
import transformers

from experiments.bridge.questions import PROPERTIES
from experiments.psharelora.bridge import _personal, _users, sharelora
from experiments.psharelora.bridge._personal import Headed, distances
from experiments.psharelora.bridge._users import HEADS, UserSetup, pairs_of_users, score_of
from experiments.psharelora.bridge.sharelora import ShareConfig
from linsys import InputError
from linsys.preference.sharelora import METHODS
from linsys.sketching.adapters import Modules
from lora_bridge.bank import AdapterBank
from lora_bridge.oracles import Users
from ratecheck._run.runner import run
from ratecheck._store.store import Store
from tests._small_runs import ahead, on_model, times

TINY: dict[str, Any] = {
    "targets": ("q_proj", "down_proj"),
    "rank": 2,
    "users": 3,
    "pairs": 8,
    "tests": 6,
    "batch": 4,
    "epochs": 3.0,
    "seeds": 3,
    "gammas": (0.01,),
}
SMALL = {sharelora: ShareConfig(**TINY)}


class TestBridge(rc.ExperimentSuite):
    small = SMALL
    loose = tuple(SMALL)
    slow = frozenset(SMALL)
    contradicted = (
        (sharelora, ahead(-0.1, "accuracy", method="SI"), "accuracy over users, SI − LoRA-local"),
        (sharelora, times(3.0, "up", wishes="mixed"), "up factors, over unrelated ones"),
        (sharelora, times(0.1, "up", wishes="unrelated"), "unrelated wishes − the same"),
    )


_model = on_model(TestBridge)


@pytest.mark.parametrize("shared", ["up", "down", "all", "none", "modules"])
def test_the_head_has_a_mask_of_its_own(shared: str) -> None:
    modules = Modules([(3, 2), (2, 4), (1, 4)])
    oracle = SimpleNamespace(modules=modules, steps=1)
    body = Headed(gamma=1.0, shared=shared).mask(Modules(modules.shapes[:-1]))
    for head, expected in (("shared", True), ("personal", False)):
        algorithm = Headed(gamma=1.0, shared=shared, head=head)
        together = algorithm.together(0, oracle)
        assert together[:-5].tolist() == algorithm.mask(modules)[:-5].tolist() == body.tolist()
        assert together[-5:].tolist() == [expected] * 5


def _trained(config: ShareConfig, name: str, head: str, other: bool = False) -> tuple[Any, Any]:
    """The draw and the rows at the end; with other pairs of user 1 if asked."""
    setup = UserSetup(config)
    draw = setup.draw(head, "test", 0)
    oracle = draw.oracle
    if other:
        shards = list(oracle.task.shards)
        shards[1] = {key: value.flip(0, 1) for key, value in shards[1].items()}
        oracle = Users(replace(oracle.task, shards=shards))
    algorithm = _personal.method(config, name, 0.05, head)
    start = _personal.start(setup, algorithm, oracle, 1)
    state, rejected = algorithm.run(algorithm.init(start, oracle), oracle)
    assert rejected == {}
    return draw, state.X


def _head(draw: Any, X: torch.Tensor) -> torch.Tensor:
    """What every user's rows add to the head, (users, n)."""
    B, A = draw.oracle.modules.split(X)[-1]
    return (B @ A)[:, 0]


def test_a_frozen_head_never_moves(model_folder: Path) -> None:
    """Nor does any number of the model, whatever the head."""
    config = ShareConfig(**TINY, model=model_folder)
    for head in HEADS:
        draw = UserSetup(config).draw(head, "test", 0)
        model = draw.oracle.task.bank.model
        before = {name: value.clone() for name, value in model.state_dict().items()}
        draw, X = _trained(config, "SI", head)
        names = draw.oracle.task.bank.names
        assert ("score" in names) is (head != "frozen")
        assert head == "frozen" or names[-1] == "score"
        assert bool((X != 0).any())
        for name, value in model.state_dict().items():
            assert torch.equal(value, before[name]), name


@pytest.mark.parametrize(
    ("kind", "target", "expected"),
    [
        ("Llama", "q_proj", "score"),
        ("GPT2", "c_attn", "score"),
        ("Bert", "query", "classifier"),
        ("Roberta", "query", "classifier.out_proj"),
    ],
)
def test_the_head_has_its_name_from_the_model(kind: str, target: str, expected: str) -> None:
    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "vocab_size": 9}
    ends = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0, "num_labels": 1}
    config = getattr(transformers, f"{kind}Config")(num_attention_heads=2, **sizes, **ends)
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config)
    bank = AdapterBank(model, [target, score_of(model)])
    assert bank.names[-1] == expected
    assert bank.modules.shapes[-1] == (1, 8)


@pytest.mark.parametrize("name", list(METHODS))
def test_a_shared_head_is_one_and_a_personal_one_is_the_users(
    model_folder: Path, name: str
) -> None:
    config = ShareConfig(**TINY, model=model_folder)
    draw, X = _trained(config, name, "shared")
    gradient = _head(draw, X)
    assert bool((gradient != 0).all())
    assert torch.equal(gradient, gradient[:1].expand_as(gradient))
    draw, X = _trained(config, name, "personal")
    gradient = _head(draw, X)
    assert bool((gradient != 0).all())
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(gradient[i], gradient[j])


def test_a_personal_head_learns_from_its_user_alone(model_folder: Path) -> None:
    """Other answers of user 1 change a head that is shared, and none of the others' own."""
    config = ShareConfig(**TINY, model=model_folder)
    for head, leaks in (("personal", False), ("shared", True)):
        draw, X = _trained(config, "LoRA-local", head)
        _, Y = _trained(config, "LoRA-local", head, other=True)
        same = (X == Y).flatten(1).all(dim=1).tolist()
        assert same == ([False] * 3 if leaks else [True, False, True])
        changed = _head(draw, X) != _head(draw, Y)
        assert changed.any(dim=1).tolist() == ([True] * 3 if leaks else [False, True, False])


def test_a_personal_head_stays_the_users_where_the_body_is_shared(model_folder: Path) -> None:
    """In one step from the same start, user 1's answers reach the others through no head."""
    config = ShareConfig(**TINY | {"epochs": 0.5}, model=model_folder)
    draw, X = _trained(config, "SI", "personal")
    _, Y = _trained(config, "SI", "personal", other=True)
    for i, changed in enumerate((False, True, False)):
        parts = draw.oracle.modules.split(X[i])[-1], draw.oracle.modules.split(Y[i])[-1]
        assert all(torch.equal(*pair) for pair in zip(*parts, strict=True)) is not changed
    (B, _), *_ = draw.oracle.modules.split(X)
    (C, _), *_ = draw.oracle.modules.split(Y)
    assert not torch.equal(B[0], C[0])  # the shared factor has heard of it


def test_share_rep_trains_the_last_modules_and_a_shared_head(model_folder: Path) -> None:
    config = ShareConfig(
        **TINY | {"targets": ("q_proj", "v_proj", "down_proj")}, model=model_folder
    )
    for head in ("frozen", "shared"):
        draw, X = _trained(config, "Share-Rep", head)
        ups = [bool((B != 0).any()) for B, _ in draw.oracle.modules.split(X)]
        assert ups == [False, False, True, True][: len(ups)]


def test_the_answers_are_those_of_bradley_and_terry() -> None:
    config = ShareConfig(users=4, pairs=1, tests=1500, own=(1.0,), size=2.0)
    rng = np.random.default_rng(3)
    pairs, best, _ = pairs_of_users(config, rng)
    again = np.random.default_rng(3).normal(size=(5, len(PROPERTIES)))
    theta = again / np.linalg.norm(again, axis=1, keepdims=True)
    right, chance = [], []
    for i, own in enumerate(pairs.values()):
        for pair in own[: config.tests]:
            phi = [_users.properties(text) for text in (pair.chosen, pair.rejected)]
            gain = float(theta[i] @ (phi[0] - phi[1]))
            right.append(gain > 0)
            chance.append(1.0 / (1.0 + np.exp(-abs(gain))))
    assert best == pytest.approx(np.reshape(right, (4, -1)).mean(axis=1))
    best = best.mean()
    deviation = np.sqrt(np.mean(np.multiply(chance, np.subtract(1, chance))) / len(right))
    assert abs(best - np.mean(chance)) < 4 * deviation
    assert 0.6 < best < 0.95


def test_users_without_wishes_of_their_own_agree() -> None:
    for own, expected in ((0.0, True), (1.0, False)):
        config = ShareConfig(
            users=2, pairs=1, tests=200, own=(own,), size=40.0
        )  # next to no chance
        pairs, best, _ = pairs_of_users(config, np.random.default_rng(0))
        assert best.min() > 0.9  # next to no chance in the answers
        first, second = (
            np.array([np.subtract(*map(_users.properties, (p.chosen, p.rejected))) for p in own])
            for own in pairs.values()
        )
        common = float(first.mean(0) @ second.mean(0))
        cosine = common / np.linalg.norm(first.mean(0)) / np.linalg.norm(second.mean(0))
        assert bool(cosine > 0.9) is expected


def test_distances_are_means_over_modules_without_the_head() -> None:
    rng, modules = np.random.default_rng(0), Modules([(30, 20), (25, 20), (1, 30)])
    X = torch.from_numpy(rng.normal(size=(12, 2, modules.width)))
    X[..., :30] = X[0, :, :30]  # one of two up factors is common
    assert distances(modules, X, "personal") == pytest.approx((0.5, 1.0), abs=0.05)
    (_, down), (_, other), _ = modules.split(X)
    for A in (down, other):
        A.copy_(down[:1].expand_as(A))
    assert distances(modules, X, "shared")[1] == pytest.approx(0.0, abs=1e-12)
    assert distances(modules, X, "frozen")[1] > 0.3  # the last module counts then
    X[:] = 0.0
    assert np.isnan(distances(modules, X, "personal")).all()


@pytest.mark.slow
def test_the_experiment_from_the_users_to_the_picture(model_folder: Path) -> None:
    config, table = TestBridge.small[sharelora], TestBridge.table(sharelora)
    assert len(table.unique("method")) == len(METHODS)
    end = table.where(epoch=config.epochs)
    assert (table.where(epoch=0.0)["up"] == sharelora.UNKNOWN).all()  # no factor yet
    assert end.where(method="SI")["up"].max() < 1e-5  # one factor for all
    assert end.where(method="LoRA-global")["down"].max() < 1e-5
    assert end.where(method="LoRA-local")["down"].min() > 0.3
    warm = table.where(method="G")
    assert warm.where(epoch=1.0)["down"].max() < 1e-5 < warm.where(epoch=3.0)["down"].min()
    accuracy = table["accuracy"]
    assert set(np.round(6 * accuracy, 3) % 1) == {0.0}  # of six held-out pairs
    analysis = TestBridge.analysed(sharelora)
    assert len(analysis.checks) == 11 + 7 + 1 + 3 + 2
    assert any(model_folder.name in note for note in analysis.notes)
    curves = {(s.name, s.panel) for s in analysis.series}
    assert {n for n, p in curves if p == sharelora.BY_USER} == {*METHODS, sharelora.BEST}
    assert ("SI", sharelora.FAR["up"]) not in curves
    assert ("LoRA-local, same wishes", sharelora.FAR["up"]) in curves
    three = [
        table.where(method="LoRA-local", wishes=w)["accuracy"].tolist()
        for w in ("mixed", "same", "unrelated")
    ]
    assert three[0] != three[1] != three[2]
    assert ("SI", sharelora.FAR["down"]) in curves
    axes = sharelora.draw(config, analysis).axes
    assert [ax.get_title() for ax in axes][:2] == [sharelora.MEAN, sharelora.BY_USER]
    assert len(axes) == 5


def _synthetic(config: ShareConfig, better: str, users: int) -> rc.Table:
    """Accuracies of which one method has larger ones, for the first users."""
    rng, parts = np.random.default_rng(0), []
    for block in sharelora.blocks(config):
        apart = {"same": 0.2, "unrelated": 0.1}.get(block["wishes"], 0.0)
        accuracy = 0.6 + apart + 0.01 * rng.random((config.seeds, 1, config.users))
        accuracy[..., :users] += 0.2 * (block["method"] == better)
        axes: dict[str, Any] = {
            "draw": np.arange(config.seeds),
            "epoch": [0.0, 1.0],
            "user": np.arange(config.users),
        }
        values = ("accuracy", "up", "down", "best", "missing")
        parts.append(
            rc.long_table(
                axes,
                **{name: accuracy for name in values},
                **{key: np.array(value) for key, value in block.items()},
                gamma=0.1,
                what="",
                name="",
            )
        )
    return rc.Table({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})


def test_the_claims_follow_the_accuracies() -> None:
    config = ShareConfig(seeds=3)

    def verdicts(better: str, users: int, *parts: str) -> list[bool | None]:
        checks = sharelora.analyse(config, _synthetic(config, better, users)).checks
        return [c.ok for c in checks if all(part in c.name for part in parts)]

    assert verdicts("SI", 5, "over users, SI −") == [True, True, True]
    assert verdicts("SI", 5, "over users", "− SI") == [False, False]
    assert verdicts("LoRA-local", 5, "over users", "− LoRA-local") == [False] * 3
    assert verdicts("WU", 3, "for whom WU is above") == [True, True]
    assert verdicts("LoRA-global", 4, "for whom WU is above LoRA-global") == [False]
    assert verdicts("SI", 4, "with the most of its own") == [False]
    assert verdicts("LoRA-global", 4, "with the most of its own") == [True]
    assert len(verdicts("SI", 5, "with the most of its own")) == 1
    assert verdicts("SI", 5, "unrelated wishes −") == [False, True]
    even = ShareConfig(seeds=3, own=(0.3,))
    names = [c.name for c in sharelora.analyse(even, _synthetic(even, "SI", 5)).checks]
    assert not any("most of its own" in name for name in names)


def _file(folder: Path, *counts: tuple[str, int]) -> Path:
    """Pairs and dialogues of some users, and an empty line."""
    file, lines = folder / "pairs.jsonl", []
    for user, count in counts:
        for i in range(count):
            begin = f"\n\nHuman: {i}\n\nAssistant:"
            pair = {"prompt": begin, "chosen": f" {user}", "rejected": " no", "user": user}
            sides = {"chosen": f"{begin} {user}", "rejected": f"{begin} no", "user": user}
            lines.append(json.dumps(sides if i % 2 else pair))
    file.write_text("\n\n".join(lines))
    return file


def test_pairs_of_a_file_go_to_their_users(model_folder: Path, tmp_path: Path) -> None:
    """The users with the most pairs, as many of each."""
    file = _file(tmp_path, ("ann", 9), ("bob", 12), ("cy", 2), ("dee", 10))
    config = ShareConfig(**TINY, model=model_folder, data=file)
    pairs, best, left_out = pairs_of_users(config, np.random.default_rng(0))
    assert left_out == 0
    assert {user: {p.chosen for p in own} for user, own in pairs.items()} == {
        user: {f" {user}"} for user in ("bob", "dee", "ann")
    }
    assert [len(own) for own in pairs.values()] == [9, 9, 9]
    assert np.isnan(best).all()
    drawn = UserSetup(config).draw("frozen", "test", 0)
    assert [drawn.oracle.task.size(i) for i in range(3)] == [3, 3, 3]
    assert drawn.what.endswith("data: pairs.jsonl")
    less = replace(config, checkpoint=True)  # of memory
    assert [UserSetup(c).bank().checkpoint for c in (config, less)] == [False, True]
    cut = UserSetup(replace(config, max_length=12)).draw("frozen", "test", 0)
    assert cut.what.endswith("data: pairs.jsonl; 27 of 27 samples cut to 12 tokens")
    odd = {"prompt": "p", "chosen": "the same", "rejected": "the same", "user": "ann"}
    file.write_text(f"{file.read_text()}\n{json.dumps(odd)}\n")
    shorter = UserSetup(replace(config, seed=1)).draw("frozen", "test", 0)
    assert shorter.what.endswith("data: pairs.jsonl; left out for empty or equal answers: 1")
    for change, message in (
        ({"users": 5}, "`data` must have pairs of users = 5 users; found 4 in .*: ann, bob, cy"),
        ({"tests": 9}, "more than tests = 9 pairs of every user; found 9 pairs of user 'ann'"),
    ):
        with pytest.raises(InputError, match=message):
            pairs_of_users(replace(config, **change), np.random.default_rng(0))
    _file(tmp_path, ("ann", 9))
    with pytest.raises(InputError, match=r"users = 3 users; found 1 in .*: ann"):
        pairs_of_users(config, np.random.default_rng(0))


@pytest.mark.slow
def test_a_file_runs_to_the_picture(model_folder: Path, tmp_path: Path) -> None:
    file = _file(tmp_path, ("ann", 9), ("bob", 9), ("cy", 9))
    config = ShareConfig(**TINY | {"epochs": 1.0}, model=model_folder, data=file)
    checks = sharelora.analyse(config, run(sharelora.EXPERIMENT, config, Store(tmp_path)))
    assert any("users: 0 ann, 1 bob, 2 cy" in note for note in checks.notes)
    assert sharelora.BEST not in {s.name for s in checks.series}
    assert not any("most of its own" in check.name for check in checks.checks)
    assert not any("wishes" in check.name for check in checks.checks)
    assert len(sharelora.draw(config, checks).axes) == 5


def test_bad_settings_are_named() -> None:
    for options, message in (
        ({"head": "lost"}, "`head`"),
        ({"own": (1.5,)}, "`own`"),
        ({"own": ()}, "`own`"),
        ({"points": 0}, "`points`"),
        ({"seeds": 2}, "`seeds`"),
        ({"users": 1}, "`users`"),
        ({"epochs": 0.0}, "`epochs`"),
    ):
        with pytest.raises(InputError, match=message):
            ShareConfig(**options)
    with pytest.raises(InputError, match="`head`"):
        Headed(gamma=1.0, head="lost")
