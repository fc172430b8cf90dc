"""Rates of FSLoRA: the family against the algorithm, the laws, and verdicts that can turn."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from experiments._model import Analysis, Context
from experiments._plots import style
from experiments._runner import joined
from experiments._table import Table
from experiments.fslora import rate_bias, rate_devices, rate_local, rate_sketch, rate_t
from experiments.fslora._rates_floors import Floor
from experiments.fslora._rates_systems import Squares, local_steps, rounds
from linsys import InputError
from linsys._validate import Array
from linsys.sketching import FSLoRA, LeastSquares, Modules
from linsys.sketching.exact import global_gradient, global_loss
from linsys.sketching.sketch import dense, support

SMALL: dict[ModuleType, Any] = {
    rate_bias: rate_bias.RateBiasConfig(r=6, m=3, n=2, instances=2),
    rate_local: rate_local.RateLocalConfig(
        gamma=0.02, steps=(1, 2, 4), devices=8, replicates=30, relaxations=4.0
    ),
    rate_devices: rate_devices.RateDevicesConfig(
        gamma=0.02, counts=(4, 8, 16), replicates=30, relaxations=4.0
    ),
    rate_sketch: rate_sketch.RateSketchConfig(
        r=4, k=(3, 2, 1), ranks=(2, 4, 6), gamma=0.04, replicates=30, relaxations=6.0
    ),
    rate_t: rate_t.RateTConfig(times=(256, 512, 1024), replicates=30),
}
NAMES = [module.__name__.rpartition(".")[2] for module in SMALL]
FAMILY = Squares(r=3, n=2, ranks=(2, 1, 2), targets=(1.0, 1.2, 0.7), noise=0.3)


def table_of(module: ModuleType, config: Any, *, backwards: bool = False) -> Table:
    parts = []
    blocks = list(module.EXPERIMENT.blocks(config))
    for block in reversed(blocks) if backwards else blocks:
        columns = module.compute(config, block, Context(threads=2 if backwards else 1))
        rows = max(np.size(column) for column in columns.values())
        cells = {**block, **columns}
        parts.append(Table({k: np.broadcast_to(v, (rows,)) for k, v in cells.items()}))
    return joined(parts)


@pytest.fixture(scope="module")
def tables() -> dict[ModuleType, Table]:
    return {module: table_of(module, config) for module, config in SMALL.items()}


def failed(analysis: Analysis) -> set[str]:
    return {check.name for check in analysis.checks if check.ok is False}


@pytest.mark.parametrize("module", SMALL, ids=NAMES)
def test_small_configuration_runs_to_the_figure(
    module: ModuleType, tables: dict[ModuleType, Table]
) -> None:
    config = SMALL[module]
    analysis = module.analyse(config, tables[module])
    assert failed(analysis) == set()
    assert sum(check.ok is True for check in analysis.checks) > len(analysis.checks) / 2
    assert analysis.notes
    with style():
        figure = module.draw(config, analysis)
        figure.draw_without_rendering()
    assert len(figure.axes) == len({s.panel for s in analysis.series})
    assert module.EXPERIMENT.kind == "rate"


@pytest.mark.parametrize("module", SMALL, ids=NAMES)
def test_blocks_do_not_matter(module: ModuleType, tables: dict[ModuleType, Table]) -> None:
    first, second = tables[module], table_of(module, SMALL[module], backwards=True)
    for name in first:
        assert sorted(first[name].tolist()) == sorted(second[name].tolist())
    series = [module.analyse(SMALL[module], table).series for table in (first, second)]
    for one, other in zip(*series, strict=True):
        np.testing.assert_array_equal(one.y, other.y)


LOCAL = "one sketch a round"


def stated(module: ModuleType, **changes: float) -> dict[str, float]:
    return {**module.STATED, **{getattr(module, panel): value for panel, value in changes.items()}}


WRONG: list[tuple[ModuleType, str, Any, str]] = [
    (rate_bias, "POINT", 1.5, "gradient (instance 0)"),
    (rate_bias, "GAP", 1.0, "f - min f at the minimiser (instance 1)"),
    (rate_local, "STATED", stated(rate_local, TUNED=3.0), f"{LOCAL}, step ~ 1/√H: exponent"),
    (rate_local, "STATED", stated(rate_local, ALLOWED=0.5), f"{LOCAL}, step ~ 1/H²: exponent"),
    (rate_local, "STATED", stated(rate_local, GIVEN=-0.5), "fresh sketches, given step: as stated"),
    (rate_local, "IN_H", 1.0, "one sketch a round: bias in H - 1, as derived"),
    (
        rate_local,
        "IN_GAMMA",
        {rate_local.FIXED: 2.0, rate_local.FRESH: 2.0},
        "fresh sketches: bias in gamma, as derived",
    ),
    (rate_devices, "STATED", stated(rate_devices, GIVEN=0.5), f"{LOCAL}, given step: exponent"),
    (
        rate_devices,
        "STATED",
        stated(rate_devices, TUNED=-1.0),
        "one step, sketches and batches, step ~ √N: as stated",
    ),
    (
        rate_sketch,
        "term",
        lambda source, c: np.ones_like(c),
        "batches, against k/r: as stated",
    ),
    (
        rate_sketch,
        "bound",
        lambda config, source, c: np.full(c.shape, 1e-6),
        "sketches, against k/r: floor / (6)",
    ),
    (
        rate_sketch,
        "closed_form",
        lambda config, source, r, k: 1.0 / k,
        "sketches, against k/r: as derived",
    ),
    (rate_t, "STATED", -1.0, "fresh sketches, step of Corollary 4.5: as stated"),
    (rate_t, "STATED", 0.0, "one sketch a round, step of Corollary 4.5: as derived"),
    (rate_t, "OPTIMISATION", -0.5, "fresh sketches, given step: without the floor, as derived"),
    (
        rate_t,
        "expected",
        lambda floors, A, times: 1.3 * rate_t.leading(floors, A, times),
        "one sketch a round, given step: mean / law, last T",
    ),
]


@pytest.mark.parametrize(("module", "constant", "value", "name"), WRONG)
def test_a_wrong_prediction_fails(
    module: ModuleType,
    constant: str,
    value: Any,
    name: str,
    tables: dict[ModuleType, Table],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, constant, value)
    assert name in failed(module.analyse(SMALL[module], tables[module]))


@pytest.mark.parametrize(
    ("column", "check"),
    [
        ("least", "min f^S / closed form - 1 (instance 0)"),
        ("law", "f - min f at the minimiser (instance 0): deviation over its uncertainty"),
    ],
)
def test_a_wrong_closed_form_fails(
    column: str, check: str, tables: dict[ModuleType, Table]
) -> None:
    table = tables[rate_bias]
    changed = Table({**table, column: 0.999 * table[column]})
    assert check in failed(rate_bias.analyse(SMALL[rate_bias], changed))


@pytest.mark.parametrize("module", [rate_local, rate_devices])
def test_floors_with_the_factor_of_the_paper_fail(
    module: ModuleType, tables: dict[ModuleType, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The law of fresh sketches does not describe fixed ones."""
    config = type(SMALL[module])
    floor = config.floor

    def mistaken(self: Any, panel: str, name: str, x: int) -> Floor:
        found: Floor = floor(self, panel, module.FRESH, x)
        return found

    monkeypatch.setattr(config, "floor", mistaken)
    names = failed(module.analyse(SMALL[module], tables[module]))
    assert f"{LOCAL}, given step: as derived" in names
    assert f"{LOCAL}, given step: floor / law, last point" in names


def test_means_with_the_noise_of_fresh_sketches_fail(
    tables: dict[ModuleType, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    floor = rate_t.RateTConfig.floor

    def mistaken(self: Any, sketches: str, T: int | None = None) -> Floor:
        return floor(self, rate_t.FRESH, T)

    monkeypatch.setattr(rate_t.RateTConfig, "floor", mistaken)
    names = failed(rate_t.analyse(SMALL[rate_t], tables[rate_t]))
    assert names >= {f"{LOCAL}, {p[4:]}: mean / law, last T" for p in (rate_t.TUNED, rate_t.GIVEN)}


@dataclass(frozen=True)
class Batches:
    """The family as FSLoRA sees it: targets y I of every device and step, (H, N)."""

    n: int
    y: Array

    @property
    def modules(self) -> Modules:
        return Modules([(self.n, self.n)])

    @property
    def devices(self) -> int:
        return int(self.y.shape[1])

    def grad(self, device: int, X: Any, scale: float, round_: int, step: int) -> Any:
        return squares(self.n, [self.y[step, device]]).gradient(0, X, scale)

    def merged(self, products: Any) -> Any:
        raise NotImplementedError


def squares(n: int, targets: Any) -> LeastSquares:
    """f_i = |B A - d_i I|_F^2 / 2 as a mean over the n inputs sqrt(n) e_j."""
    x = np.sqrt(n) * np.eye(n)
    return LeastSquares(
        np.zeros((n, n)), inputs=(x,) * len(targets), targets=tuple(d * x for d in targets)
    )


def modules_of(A: Array) -> Array:
    return np.asarray(Modules([(A.shape[1], A.shape[1])]).join([(A.T, A)]))


@pytest.mark.parametrize("fresh", [False, True])
def test_a_round_is_that_of_fslora(fresh: bool) -> None:
    H, N, gamma = 3, 6, 0.1
    rng = np.random.default_rng(3)
    A = rng.normal(size=(3, 2))
    _, y = FAMILY.draw(rng, N, 1, H, fresh=fresh)
    ranks = [FAMILY.ranks[i % 3] for i in range(N)]
    algorithm = FSLoRA(gamma=gamma, H=H, ranks=ranks, fresh=fresh, seed=5)
    state, _ = algorithm.round(algorithm.init(modules_of(A), Batches(2, y[..., 0])))
    s = np.array(
        [
            [np.diagonal(dense(support(5, 0, i, 3, k, h), 3)) for i, k in enumerate(ranks)]
            for h in range(H if fresh else 1)
        ]
    )
    found = local_steps(A[:, :, None], s.swapaxes(1, 2), y[..., 0], gamma).mean(axis=2)
    np.testing.assert_allclose(modules_of(found), state.X, rtol=1e-12, atol=1e-14)


def test_the_family_is_that_of_the_exact_forms() -> None:
    rng = np.random.default_rng(0)
    A, other = rng.normal(size=(2, 3, 2))
    system = squares(2, FAMILY.targets)
    X = modules_of(A)
    exact = global_gradient(system, X, FAMILY.ranks)
    np.testing.assert_allclose(exact[:, 2:], FAMILY.gradient(A), rtol=1e-12)
    np.testing.assert_allclose((exact**2).sum(), FAMILY.squared_norm(A), rtol=1e-12)
    difference = global_loss(system, X, FAMILY.ranks) - global_loss(
        system, modules_of(other), FAMILY.ranks
    )
    np.testing.assert_allclose(difference, FAMILY.loss(A) - FAMILY.loss(other), rtol=1e-12)
    e = 1e-6
    slope = (FAMILY.gradient(A + e * other) - FAMILY.gradient(A - e * other)) / (2.0 * e)
    np.testing.assert_allclose(FAMILY.derivative(A, other), slope, rtol=1e-7, atol=1e-8)
    assert abs(FAMILY.gradient(FAMILY.minimiser())).max() < 1e-12


def test_sketches_and_batches_are_drawn_evenly() -> None:
    s, y = FAMILY.draw(np.random.default_rng(1), 6, 4000, 2, fresh=True)
    assert (s.shape, y.shape) == ((2, 3, 6, 4000), (2, 6, 4000))
    count = 2 * 4000
    for i, (k, d) in enumerate(zip(FAMILY.ranks * 2, FAMILY.targets * 2, strict=True)):
        error = np.sqrt((3.0 / k - 1.0) / count)
        assert (abs(s[:, :, i].mean(axis=(0, 2)) - 1.0) < 5.0 * error).all()
        assert abs(y[:, i].mean() - d) < 5.0 * FAMILY.noise / np.sqrt(count)
        assert set(np.unique(s[:, :, i])) == {0.0, 3.0 / k}


def test_traces_of_the_noise_are_those_of_the_matrices() -> None:
    floor = Floor(system=FAMILY, gamma=0.01, H=2, devices=3, fresh=True)
    P, sketch, batch = floor._matrices
    A = FAMILY.minimiser()
    np.testing.assert_allclose(
        [float(t[0]) for t in FAMILY.steepness(A[..., None])],
        [np.trace(P @ sketch), np.trace(P @ batch)],
        rtol=1e-12,
    )
    # one component of a module (n = 1) in closed form
    r, k, d, R, sigma = 5, 2, 1.3, 0.4, 0.2
    one = Squares(r=r, n=1, ranks=(k, k), targets=(d - R, d + R), noise=sigma)
    traces = [float(t[0]) for t in one.steepness(one.minimiser()[..., None])]
    spread = (r / k - 1.0) ** 2 / (r - 1.0)
    expected = [2 * d**2 * spread * R**2, 2 * d**2 * (1.0 + spread) * sigma**2]
    np.testing.assert_allclose(traces, expected, rtol=1e-12)


def test_the_closed_forms_of_one_component_are_the_laws() -> None:
    config = SMALL[rate_sketch]
    for source in (rate_sketch.SKETCHES, rate_sketch.BATCHES):
        for r, k in (*config.points(rate_sketch.RATIO), *config.points(rate_sketch.RANK)):
            law = config.floor(source, r, k).total
            np.testing.assert_allclose(rate_sketch.closed_form(config, source, r, k), law)


def test_the_mean_without_noise_is_that_of_the_run() -> None:
    """The energy balance is exact to second order in the step: its error falls like the square."""
    A = 0.5 * FAMILY.minimiser()[..., None] + 0.02
    quiet = Squares(r=3, n=2, ranks=(3,))
    off = []
    for gamma, T in ((0.02, 200), (0.01, 400), (0.005, 800)):
        floor = Floor(system=quiet, gamma=gamma, H=3, devices=1, fresh=True)
        rng = np.random.default_rng(0)
        run = rounds(quiet, A, T, gamma=gamma, H=3, devices=1, fresh=True, rng=rng)
        off.append(rate_t.expected([floor], A, np.array([T]))[0] / run.mean() - 1.0)
    ratios = np.array(off[:-1]) / np.array(off[1:])
    assert (abs(ratios - 4.0) < 0.5).all()


@pytest.mark.parametrize("fresh", [False, True])
def test_laws_are_the_limits_of_small_steps(fresh: bool) -> None:
    """Deviations of the exact bias and of the refined floor shrink with the step."""
    system = Squares(r=3, n=2, ranks=(2, 1), targets=(1.0, 1.3))
    off = []
    for gamma in (0.004, 0.002, 0.001):
        floor = Floor(system=system, gamma=gamma, H=4, devices=10, fresh=fresh)
        off.append([abs(floor.exact_bias / floor.bias - 1.0), abs(floor.refined / floor.total - 1)])
    ratios = np.array(off[:-1]) / np.array(off[1:])
    assert (abs(ratios - 2.0) < 0.2).all()


def test_runs_start_where_they_are_told_and_bad_input_is_named() -> None:
    A = np.repeat(FAMILY.minimiser()[..., None], 2, axis=2)
    rng = np.random.default_rng(0)
    found = rounds(FAMILY, 2.0 * A, 3, gamma=0.01, H=1, devices=3, fresh=False, rng=rng)
    np.testing.assert_allclose(found[0], FAMILY.squared_norm(2.0 * A))
    with pytest.raises(InputError, match="`n` must be 1 or r - 1"):
        Squares(r=4, n=2, ranks=(1,))
    with pytest.raises(InputError, match="`ranks` and `targets`"):
        Squares(r=4, n=1, ranks=(1,), targets=(1.0, 2.0))
    floor = Floor(system=FAMILY, gamma=0.01, H=2, devices=3, fresh=False)
    with pytest.raises(InputError, match="`noise` must be 0"):
        _ = floor.refined
    long = Floor(system=FAMILY, gamma=0.01, H=12, devices=3, fresh=True)
    with pytest.raises(InputError, match="sequences of sketches"):
        _ = long.exact_bias
