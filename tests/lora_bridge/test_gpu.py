"""The bank and FIRM on a card: as on a processor, and as in higher precision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from lora_bridge.bank import AdapterBank
from tests.lora_bridge._models import LOSSES, TARGETS, small_batch, small_model
from tests.lora_bridge.test_firm import alignment, model, start

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
N, b, r = 3, 2, 2


def _gradients(kind: str, device: str, dtype: torch.dtype, **options: Any) -> Tensor:
    base = small_model(kind).to(device=device, dtype=dtype)  # the same weights in every precision
    bank = AdapterBank(base, TARGETS[kind], **options)
    generator = torch.Generator().manual_seed(3)
    X = 0.3 * torch.randn((N, r, bank.width), generator=generator)
    batch = {name: value.to(device) for name, value in small_batch(N, b).items()}
    precise = torch.float64 if dtype == torch.float64 else torch.float32
    slopes = bank.gradients(X.to(device, precise), batch, LOSSES[kind])[1]
    assert slopes.device.type == device
    return slopes.cpu()


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
@pytest.mark.parametrize("engine", ["bank", "sequential"])
def test_gradients_are_those_of_the_processor(kind: str, engine: str) -> None:
    expected = _gradients(kind, "cpu", torch.float64)
    slopes = _gradients(kind, "cuda", torch.float64, engine=engine)
    if kind == "gpt2":  # the others compute norms in single precision
        torch.testing.assert_close(slopes, expected, rtol=1e-10, atol=1e-12)
    single = _gradients(kind, "cuda", torch.float32, engine=engine).double()
    assert (single - expected).norm() <= 1e-3 * expected.norm()  # products may be TF32's


@pytest.mark.parametrize("kind", ["llama", "gpt2", "bert"])
def test_autocast_is_as_far_from_single_precision_as_a_half_precision_model(kind: str) -> None:
    exact = _gradients(kind, "cuda", torch.float32)
    half = _gradients(kind, "cuda", torch.bfloat16)
    slopes = _gradients(kind, "cuda", torch.float32, autocast=torch.bfloat16)
    assert 0 < (slopes - exact).norm() <= 2 * (half - exact).norm()


def _firm(device: str) -> tuple[Tensor, Tensor, Tensor]:
    oracle = alignment(bank=AdapterBank(model().to(device), ["c_attn"]))
    gradients, memory, common = oracle.jac(start(oracle).to(device), oracle.init())
    assert gradients.device.type == device
    return memory.rollout["input_ids"].cpu(), gradients.cpu(), common.cpu()


def test_a_step_of_firm_is_that_of_the_processor() -> None:
    """Responses too: their noise is computed from the same bits on every device."""
    expected, on_card = _firm("cpu"), _firm("cuda")
    assert torch.equal(on_card[0], expected[0])
    for ours, theirs in zip(on_card[1:], expected[1:], strict=True):
        size = float(theirs.abs().max())  # advantages are in single precision
        torch.testing.assert_close(ours, theirs, atol=1e-5 * size, rtol=1e-4)
