"""Training with shared coordinates: against plain loops, in torch, and with users that fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from linsys import InputError
from linsys.preference import Comparisons
from linsys.preference.likelihood import factor_gradients
from linsys.preference.oracle import ComparisonOracle
from linsys.preference.sharelora import METHODS, ShareLoRA, method
from linsys.sketching.adapters import Modules

N, R = 3, 2


def users(batch: int | None = 4, blocks: tuple[int, ...] | None = (1, 2)) -> ComparisonOracle:
    rng = np.random.default_rng(0)
    counts = (10, 7, 3)
    data = Comparisons.of_users(
        [rng.standard_normal((n, 4, 3)) for n in counts],
        [rng.integers(0, 2, n) for n in counts],
        [rng.random(n) + 0.1 for n in counts],
    )
    return ComparisonOracle(data, batch=batch, seed=5, scale=0.5, blocks=blocks)


def begin(algorithm: ShareLoRA, oracle: ComparisonOracle) -> np.ndarray:
    return algorithm.start(oracle.modules, N, 1, np.random.default_rng(1))


def test_the_oracle_has_the_gradient_of_the_likelihood() -> None:
    oracle = users(batch=None, blocks=None)
    X = np.random.default_rng(2).standard_normal((N, R, 7))
    [(B, A)] = oracle.modules.split(X)
    for i in range(N):
        total = oracle.data.user(i).weights.sum()
        # Delta = scale B A: the factor on one side of the chain rule
        by_B, by_A = factor_gradients(oracle.data.user(i), 0.5 * B[i], A[i : i + 1])
        expected = oracle.modules.join([(0.5 * by_B, by_A[0])])
        np.testing.assert_allclose(oracle.grad(i, X[i], 0, 0), -expected / total, rtol=1e-12)


def test_modules_alike_are_multiplied_as_those_of_many_shapes() -> None:
    def answers(alike: bool, factor: float = 1.0) -> np.ndarray:
        oracle = users(blocks=(1, 1, 1))
        oracle.__dict__["_alike"] = alike
        X = factor * np.random.default_rng(4).standard_normal((R, oracle.modules.width))
        return np.concatenate([oracle.delta(X).ravel(), oracle.grad(2, X, 1, 0).ravel()])

    assert users(blocks=(1, 1, 1))._alike
    assert not users(blocks=(1, 2))._alike
    np.testing.assert_allclose(answers(True), answers(False), rtol=1e-13, atol=1e-15)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(answers(True, 1.0 + 1e-9), answers(False), rtol=1e-13)


@pytest.mark.parametrize("blocks", [(1, 2), (1, 1, 1)])
def test_gradients_of_several_runs_are_those_of_each(blocks: tuple[int, ...]) -> None:
    oracle = users(blocks=blocks)
    X = np.random.default_rng(4).standard_normal((2, 3, R, oracle.modules.width))
    together = oracle.grad(2, X, 1, 0)
    each = [[oracle.grad(2, one, 1, 0) for one in runs] for runs in X]
    np.testing.assert_allclose(together, each, rtol=1e-12, atol=1e-14)
    assert np.abs(together - together[::-1]).max() > 1e-3
    everybody = np.random.default_rng(5).standard_normal((2, N, R, oracle.modules.width))
    for batch in (2, 4):  # all users have as many, or the last one has fewer
        oracle = users(batch=batch, blocks=blocks)
        alone = [oracle.grad(i, everybody[:, i], 1, 0) for i in range(N)]
        found = oracle.gradients(everybody, 1, 0)
        np.testing.assert_allclose(found, np.stack(alone, axis=1), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("blocks", [(1, 2), (1, 1, 1)])
def test_blocks_are_parts_of_delta(blocks: tuple[int, ...]) -> None:
    oracle = users(batch=None, blocks=blocks)
    X, D = np.random.default_rng(3).standard_normal((2, R, oracle.modules.width))
    one = replace(oracle, blocks=None)

    def loss(X: np.ndarray) -> float:
        data = oracle.data.user(1)
        z = np.einsum("nab,ab->n", data.features, oracle.delta(X))
        terms = data.labels * np.logaddexp(0, -z) + (1 - data.labels) * np.logaddexp(0, z)
        return float((data.weights * terms).sum() / data.weights.sum())

    h = 1e-5
    derivative = (loss(X + h * D) - loss(X - h * D)) / (2 * h)
    assert (oracle.grad(1, X, 0, 0) * D).sum() == pytest.approx(derivative, rel=1e-8)
    assert one.modules.shapes == ((4, 3),)


def test_an_epoch_shows_every_comparison_of_the_largest_user_once() -> None:
    oracle = users()
    drawn = np.concatenate([oracle.draw(0, 2, s) for s in range(oracle.steps)])
    assert oracle.steps == 3
    assert set(drawn) == set(range(10))
    assert len(oracle.draw(2, 0, 1)) == 3  # a user with fewer than a batch shows them all
    assert set(oracle.draw(2, 0, 1)) == set(range(17, 20))
    assert oracle.draw(0, 0, 0).tolist() != oracle.draw(0, 1, 0).tolist()


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", METHODS)
def test_it_is_the_loop_of_the_definition(name: str, optimizer: str) -> None:
    """Users, shared parts and moments apart, one by one."""
    oracle = users()
    algorithm = method(name, 0.1, epochs=2.0, optimizer=optimizer, decay=0.01)
    X = begin(algorithm, oracle)
    state, rejected = algorithm.run(algorithm.init(X, oracle), oracle)
    total, mask = 6, algorithm.mask(oracle.modules)
    rows = [X[i].copy() for i in range(N)]
    warm = {"G": 4, "WU": 1}.get(name, 0)  # of 6 steps: 2/3 and 1/10, rounded
    moments = [(np.zeros_like(X[0]), np.zeros_like(X[0])) for _ in range(N)]
    for t in range(total):
        if t == warm:
            moments = [(np.zeros_like(X[0]), np.zeros_like(X[0])) for _ in range(N)]
        since = t - (warm if t >= warm else 0) + 1
        epoch, s = divmod(t, 3)
        grads = [oracle.grad(i, rows[i], epoch, s) for i in range(N)]
        mean = sum(grads) / N
        for i in range(N):
            together = np.ones_like(mask) if t < warm else mask
            G = np.where(together, mean, grads[i])
            gamma = 0.1 * (1 - t / total)
            if optimizer == "sgd":
                moved = rows[i] - gamma * G
            else:
                m = 0.9 * moments[i][0] + 0.1 * G
                v = 0.999 * moments[i][1] + 0.001 * G**2
                moments[i] = m, v
                step = m / (1 - 0.9**since) / (np.sqrt(v / (1 - 0.999**since)) + 1e-8)
                moved = rows[i] * (1 - gamma * 0.01) - gamma * step
            rows[i] = np.where(mask & (name == "Share-Rep"), rows[i], moved)
    np.testing.assert_allclose(state.X, np.stack(rows), rtol=1e-11, atol=1e-13)
    assert rejected == {}
    assert (state.X[:, :, mask] == state.X[:1, :, mask]).all()  # equal to the last bit
    if name in ("SI", "LoRA-local"):
        assert not np.allclose(state.X[0][:, ~mask], state.X[1][:, ~mask])


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", ["SI", "G", "Share-Rep"])
def test_torch_gives_the_same_numbers(name: str, optimizer: str) -> None:
    torch = pytest.importorskip("torch")
    oracle = users()
    algorithm = method(name, 0.1, optimizer=optimizer)
    X = begin(algorithm, oracle)
    ours, _ = algorithm.run(algorithm.init(X, oracle), oracle)
    theirs, _ = algorithm.run(algorithm.init(torch.asarray(X), oracle), oracle)
    assert isinstance(theirs.X, torch.Tensor)
    np.testing.assert_allclose(theirs.X.numpy(), ours.X, rtol=1e-12, atol=1e-12)


class Broken:
    """User 1 has no gradient in the first two steps."""

    def __init__(self, oracle: ComparisonOracle) -> None:
        self.modules, self.users, self.steps = oracle.modules, oracle.users, oracle.steps
        self.oracle = oracle

    def grad(self, user: int, X: Any, epoch: int, step: int) -> Any:
        gradient = self.oracle.grad(user, X, epoch, step)
        return gradient * np.nan if user == 1 and epoch == 0 and step < 2 else gradient


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_a_user_without_a_gradient_is_named_and_the_rest_goes_on(optimizer: str) -> None:
    oracle = users()
    algorithm = method("SI", 0.1, optimizer=optimizer)
    mask = algorithm.mask(oracle.modules)
    state = algorithm.init(begin(algorithm, oracle) + 0.1, Broken(oracle))
    after, missing = algorithm.round(state, Broken(oracle))
    assert missing == {1: "rejected: its gradient is not finite"}
    np.testing.assert_array_equal(after.X[1][:, ~mask], state.X[1][:, ~mask])
    assert (after.X[0][:, ~mask] != state.X[0][:, ~mask]).all()
    assert (after.X[:, :, mask] == after.X[:1, :, mask]).all()
    if optimizer == "sgd":  # it counts as one with gradient 0
        mean = sum(oracle.grad(i, state.X[i], 0, 0)[:, mask] for i in (0, 2)) / 3
        np.testing.assert_allclose(after.X[0][:, mask], state.X[0][:, mask] - 0.1 * mean)
    end, rejected = algorithm.run(after, Broken(oracle))
    assert rejected == {1: 1}
    assert np.isfinite(end.X).all()
    assert (end.X[1][:, ~mask] != state.X[1][:, ~mask]).all()


def test_masks_of_two_modules() -> None:
    modules = Modules([(2, 1), (1, 2)])

    def mask(shared: str, **options: Any) -> list[int]:
        return ShareLoRA(gamma=1.0, shared=shared, **options).mask(modules).astype(int).tolist()

    assert mask("up") == [1, 1, 0, 1, 0, 0]
    assert mask("down") == [0, 0, 1, 0, 1, 1]
    assert mask("all") == [1] * 6
    assert mask("none") == [0] * 6
    assert mask("modules", representation=0.5) == [1, 1, 1, 0, 0, 0]


def test_rates_and_lengths_of_the_paper() -> None:
    G = method("G", 5e-5)
    assert G.rate(200, 300) == pytest.approx(5e-5 / 3)  # 1.67e-5, where its last epoch begins
    assert method("WU", 5e-5).warmup == pytest.approx(0.3)
    assert ShareLoRA(gamma=0.1, epochs=0.5).total(users()) == 2
    assert ShareLoRA(gamma=0.1, schedule="constant").rate(2, 3) == 0.1


@pytest.mark.slow
def test_descent_reaches_the_shared_maximum() -> None:
    """Full batches and plain descent end where the maximum-likelihood estimate is."""
    from linsys.preference.estimators import fit_shared

    rng = np.random.default_rng(7)
    X = rng.standard_normal((4, 60, 3, 2))
    data = Comparisons.of_users(X, rng.integers(0, 2, (4, 60)))
    oracle = ComparisonOracle(data)
    algorithm = ShareLoRA(
        gamma=2.0, epochs=4000.0, optimizer="sgd", schedule="constant", shared="up"
    )
    X0 = algorithm.start(oracle.modules, 4, 1, rng)
    state, _ = algorithm.run(algorithm.init(X0, oracle), oracle)
    best = fit_shared(data, k=1)
    np.testing.assert_allclose(oracle.delta(state.X), best.Delta, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ShareLoRA(gamma=0.0), "`gamma` must be a number in (0, inf)"),
        (lambda: ShareLoRA(gamma=1.0, epochs=0), "`epochs` must be a number in (0, inf)"),
        (lambda: ShareLoRA(gamma=1.0, warmup=4.0), "`warmup` must be a number in [0, 3]"),
        (lambda: ShareLoRA(gamma=1.0, shared="left"), "`shared` must be one of up, down, all"),
        (lambda: ShareLoRA(gamma=1.0, optimizer="lion"), "`optimizer` must be one of adamw, sgd"),
        (lambda: method("FedAvg", 1.0), "`name` must be one of SI, G, WU"),
        (
            lambda: ShareLoRA(gamma=1.0).start(Modules([(2, 3)]), 2, 3, np.random.default_rng()),
            "`r` must be a whole number of at least 1 and at most 2; found 3",
        ),
        (
            lambda: ShareLoRA(gamma=1.0).init(np.zeros((2, 5)), users()),
            "`X` must be an array of shape (N, r, w) or (r, w) with w = 11; found (2, 5)",
        ),
        (
            lambda: ShareLoRA(gamma=1.0).init(np.zeros((2, 1, 11)), users()),
            "`X` must have rows of 3 users; found 2",
        ),
        (
            lambda: ShareLoRA(gamma=1.0).init(np.full((1, 11), np.nan), users()),
            "`X` must hold finite floating point numbers",
        ),
        (
            lambda: ShareLoRA(gamma=1.0).init(np.arange(33.0).reshape(3, 1, 11), users()),
            "`X` must be equal for all users where they share",
        ),
        (
            lambda: method("Share-Rep", 1.0).init(np.zeros((3, 1, 7)), users(blocks=None)),
            "`representation` must leave a module to train; found 0.7 of 1,",
        ),
        (lambda: replace(users(), batch=0), "`batch` must be a whole number of at least 1"),
        (lambda: replace(users(), blocks=2), "`blocks` must be a list of whole numbers; found 2"),
        (lambda: replace(users(), data=None), "`data` must be Comparisons, as from"),
        (lambda: replace(users(), blocks=(1, 1)), "`blocks` must be d2 = 3 columns in all; found"),
    ],
)
def test_bad_input(call: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_step_after_the_last() -> None:
    algorithm = ShareLoRA(gamma=0.1, epochs=1.0)
    state, _ = algorithm.run(algorithm.init(np.zeros((1, 11)), users()), users())
    with pytest.raises(InputError, match="found all 3 done"):
        algorithm.round(state, users())
