from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from linsys import InputError
from linsys.bilevel import DomainOracle, hypergradient, inner, kernels, meta_distribution
from tests.linsys._asserts import assert_equal_numbers

BETA, D = 2.0, 40

SIZES = {
    "small": {"prompts": 3, "answers": 4, "p": 3, "q": 2},
    "wide": {"prompts": 7, "answers": 33, "p": 19, "q": 11, "strength": 0.5},
    "one prompt": {"prompts": 1, "answers": 3, "p": 3, "q": 5},
}


def case(size: str, kind: str, batch: int | None) -> tuple[DomainOracle, Any, Any]:
    domain = meta_distribution(2, reward=kind, **SIZES[size]).train[1]
    oracle = DomainOracle(domain=domain, beta=BETA, inner_batch=batch, outer_batch=batch, seed=9)
    rng = np.random.default_rng(4)
    return oracle, 0.3 * rng.standard_normal(oracle.q), rng.standard_normal(oracle.p)


@pytest.mark.parametrize("size", list(SIZES))
@pytest.mark.parametrize("kind", ["linear", "tanh"])
@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize("bounded", [False, True])
def test_compiled_bodies_are_the_reference_on_the_same_samples(size, kind, batch, bounded):
    oracle, phi, theta = case(size, kind, batch)
    options: dict[str, Any] = {"alpha": 0.4 * oracle.stable_step(phi), "D": D, "k": 3}
    if bounded:
        options["radius"] = 0.5 * float(np.linalg.norm(theta))
    path, expected = (f.descend(oracle, phi, theta, **options) for f in (kernels, inner))
    for ours, theirs in zip(path.samples, expected.samples, strict=True):
        if batch is None:
            assert ours is theirs is None
        else:
            assert all((a == b).all() for a, b in zip(ours, theirs, strict=True))
    assert_equal_numbers(path.theta, expected.theta, "path")
    assert_equal_numbers(path.shrink, expected.shrink, "shrink")
    if bounded:
        assert min(path.shrink) < 1  # the first step at the latest starts outside
    z = oracle.draw_outer(3)
    reference = hypergradient.adjoint(oracle, phi, expected, z)
    for given in (path, expected):
        assert_equal_numbers(kernels.adjoint(oracle, phi, given, z), reference, "adjoint")
    assert_equal_numbers(hypergradient.adjoint(oracle, phi, path, z), reference, "mixed")
    assert np.abs(reference).max() > 1e-4
    other = kernels.descend(oracle, phi, theta, **{**options, "alpha": 1.01 * options["alpha"]})
    with pytest.raises(AssertionError, match="path"):
        assert_equal_numbers(other.theta, expected.theta, "path")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"D": 0}, "`D` must be a whole number of at least 1; found 0"),
        ({"alpha": 0.0}, "`alpha` must be a number in"),
        ({"radius": 0.0}, "`radius` must be a number in"),
        ({"phi": np.array([np.nan, 0.0])}, "`phi` must be finite"),
        ({"phi": np.full(2, 1e4)}, r"`beta` must keep exp\(r / beta\) in the range"),
        ({"phi": np.zeros(3)}, r"`phi` must have shape \(2,\); found \(3,\)"),
        ({"theta_0": np.zeros(4)}, r"`theta_0` must have shape \(3,\); found \(4,\)"),
        ({"alpha": 1e3}, r"the inner loop diverges: .* at step 1 .*`alpha` below .* is stable"),
    ],
)
def test_bad_input_is_one_clear_line(change, message):
    oracle, phi, theta = case("small", "linear", None)
    given = {"phi": phi, "theta_0": theta, "alpha": 0.1, "D": 5, **change}
    with pytest.raises(InputError, match=message) as caught:
        kernels.descend(oracle, given.pop("phi"), given.pop("theta_0"), **given)
    assert "\n" not in str(caught.value)


def test_other_arrays_are_left_to_the_reference():
    assert kernels.serves(np.zeros(1), np.zeros(2))
    assert not kernels.serves(np.zeros(1), np.zeros(2, dtype=np.float32))
    assert not kernels.serves([0.0])
