"""Products with copies of a model's matrices in oneDNN's order are those with the matrices."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from lora_bridge import _packed
from lora_bridge._packed import packed

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
    reason="this build of torch has no oneDNN",
)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> nn.Sequential:
    """Two frozen linear modules, of which the second has no bias."""
    monkeypatch.setattr(_packed, "_LEAST", 0)
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(70, 50), nn.Linear(50, 33, bias=False))
    return layers.requires_grad_(False)


def assert_alike(actual: Tensor, expected: Tensor) -> None:
    """Sums of 70 products of about 1, in other orders."""
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=0)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(actual + 1e-4, expected, atol=1e-5, rtol=0)


def test_products_are_alike_and_modules_are_put_back(model: nn.Sequential) -> None:
    x = torch.randn(2, 9, 70)
    expected = model(x)
    with packed(model) as modules:
        assert modules == list(model)
        assert_alike(model(x), expected)
        with packed(model) as inner:
            assert inner == []  # the outer context's stay
        assert_alike(model(x), expected)
    assert torch.equal(model(x), expected)
    assert not any("forward" in vars(module) for module in model)


def test_ctrl_c_while_copies_are_made_puts_modules_back(
    model: nn.Sequential, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = _packed._multiply

    def stopped(module: nn.Linear, gradients: bool) -> Callable[[Tensor], Tensor]:
        if module is model[1]:
            raise KeyboardInterrupt
        return original(module, gradients)

    monkeypatch.setattr(_packed, "_multiply", stopped)
    with pytest.raises(KeyboardInterrupt), packed(model):
        pass
    assert not any("forward" in vars(module) for module in model)


def test_gradients_of_the_inputs_are_alike(model: nn.Sequential) -> None:
    x = torch.randn(2, 9, 70, requires_grad=True)

    def gradient() -> Tensor:
        return torch.autograd.grad(model(x).sin().sum(), x)[0]

    expected = gradient()
    with packed(model, gradients=True):
        assert_alike(gradient(), expected)
        slope = torch.autograd.grad(model(x).sin().sum(), x, create_graph=True)[0]
        with pytest.raises(RuntimeError, match="used in the graph"):
            torch.autograd.grad(slope.sum(), x)
    assert torch.equal(gradient(), expected)


@pytest.mark.parametrize(
    "change",
    [
        lambda weight: weight.zero_(),
        lambda weight: weight.data.mul_(2),
        lambda weight: setattr(weight, "data", weight.data.flip(0)),
        lambda weight: weight.data.copy_(weight.data.flip(0).clone()),
    ],
    ids=["in place", "through data", "another tensor", "rows in another order"],
)
def test_copies_are_kept_until_a_matrix_changes(
    model: nn.Sequential, change: Callable[[Tensor], object]
) -> None:
    x = torch.randn(9, 70)
    with packed(model, gradients=True):
        before = model(x)
    kept, changed = model
    assert isinstance(kept, nn.Linear)
    assert isinstance(changed, nn.Linear)
    first = _packed._COPIES[kept]
    with packed(model):
        assert _packed._COPIES[kept] is first
        change(changed.weight)
        assert torch.equal(model(x), before)  # they are copies
    expected = model(x)
    with pytest.raises(AssertionError):
        assert_alike(before, expected)
    with packed(model):
        assert_alike(model(x), expected)
        assert _packed._COPIES[kept] is first


def test_copies_end_with_their_model(model: nn.Sequential) -> None:
    with packed(model):
        kept = len(_packed._COPIES)
        assert set(model) <= set(_packed._COPIES)
    model[1] = nn.Identity()
    assert len(_packed._COPIES) == kept - 1


def test_nothing_is_packed_where_it_does_not_pay_or_fit(
    model: nn.Sequential, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 4 * (70 * 50 + 50 * 33)
    with torch.autocast("cpu", torch.bfloat16), packed(model) as modules:
        assert modules == []
    for free, gradients, fits in [(2 * size, False, True), (2 * size, True, False)]:
        monkeypatch.setattr(_packed, "free_memory", lambda free=free: free)
        with packed(model, gradients=gradients) as modules:
            assert bool(modules) == fits
        _packed._COPIES.clear()
    monkeypatch.setattr(_packed, "_LEAST", size + 1)
    with packed(model) as modules:
        assert modules == []
    monkeypatch.setattr(_packed, "_LEAST", size)
    with packed(model) as modules:
        assert modules == list(model)
    model[0].requires_grad_(True)
    with packed(model) as modules:
        assert modules == []  # what is left is too small
    with packed(model.requires_grad_(False).double()) as modules:
        assert modules == []
