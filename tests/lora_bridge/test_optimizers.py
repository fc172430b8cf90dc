"""Steps of all clients' rows at once are N independent optimizers of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from linsys import InputError
from linsys.optimizers import Moments, adamw, clipped
from linsys.preference.sharelora import ShareLoRA
from linsys.sketching import HeteroLoRA
from linsys.sketching.adapters import Modules

N, R = 3, 4
MODULES = Modules([(3, 2), (2, 4)])
GAMMA, STEPS, CLIP = 0.05, 6, 1.5


def _pull(client: int, X: Tensor, t: int) -> Tensor:
    """A gradient whose length differs between clients and steps by orders of magnitude."""
    generator = torch.Generator().manual_seed(100 * client + t)
    noise = torch.randn(X.shape, generator=generator, dtype=X.dtype)
    return (10.0 ** (client - 1)) * (X + 0.3 * noise)


@dataclass
class Clients:
    """Devices and users with these gradients; user 1 has none in step 2."""

    lost: tuple[int, int] | None = None
    modules: Modules = MODULES
    devices: int = N
    users: int = N
    steps: int = 2

    def grad(self, client: int, X: Tensor, *when: Any) -> Tensor:
        epoch, step = when[-2:]
        t = self.steps * epoch + step
        gradient = _pull(client, X, t)
        return gradient * torch.nan if (client, t) == self.lost else gradient


def _start(dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn((N, R, MODULES.width), generator=generator, dtype=dtype)


def _alone(
    start: Tensor,
    make: Callable[[list[Tensor]], torch.optim.Optimizer],
    clip: float | None,
    skipped: Any = (),
    client: int = 0,
    steps: int = STEPS,
) -> Tensor:
    """One client with an optimizer of PyTorch of its own."""
    row = torch.nn.Parameter(start.clone())
    optimizer = make([row])
    for t in range(steps):
        if t in skipped:
            continue
        row.grad = _pull(client, row.detach(), t)
        if clip is not None:
            torch.nn.utils.clip_grad_norm_([row], clip)
        optimizer.step()
    return row.detach()


MAKE: dict[str, tuple[float, Callable[[list[Tensor]], torch.optim.Optimizer]]] = {
    "sgd": (0.0, lambda rows: torch.optim.SGD(rows, lr=GAMMA)),
    "adam": (0.0, lambda rows: torch.optim.Adam(rows, lr=GAMMA)),
    "adamw": (0.1, lambda rows: torch.optim.AdamW(rows, lr=GAMMA, weight_decay=0.1)),
}
each_optimizer = pytest.mark.parametrize("name", list(MAKE))
with_and_without_clipping = pytest.mark.parametrize("clip", [None, CLIP])


@with_and_without_clipping
@each_optimizer
def test_rows_together_are_independent_optimizers(name: str, clip: float | None) -> None:
    decay, make = MAKE[name]
    X, moments = _start(), Moments()
    for t in range(STEPS):
        G = clipped(torch.stack([_pull(i, X[i], t) for i in range(N)]), clip)
        if name == "sgd":
            X = X - GAMMA * G
        else:
            X, moments = adamw(X, G, moments, GAMMA, decay)
    for i in range(N):
        expected = _alone(_start()[i], make, clip, client=i)
        torch.testing.assert_close(X[i], expected, rtol=1e-12, atol=1e-13)


@with_and_without_clipping
@each_optimizer
def test_local_steps_of_devices_are_independent_optimizers(name: str, clip: float | None) -> None:
    decay, make = MAKE[name]
    algorithm = HeteroLoRA(
        gamma=GAMMA,
        H=STEPS,
        ranks=(1, 4, 2),
        optimizer="sgd" if name == "sgd" else "adamw",
        decay=decay,
        clip=clip,
    )
    start = _start()[0]
    seen: dict[int, Tensor] = {}
    for device, outcome in algorithm._one_by_one(algorithm.init(start, Clients()), Clients()):
        assert isinstance(outcome, tuple)
        seen[device] = outcome[1]
    for device, rank in enumerate(algorithm.ranks):
        expected = _alone(start[:rank], make, clip, client=device)
        torch.testing.assert_close(seen[device], expected, rtol=1e-12, atol=1e-13)


@with_and_without_clipping
@each_optimizer
@pytest.mark.parametrize("lost", [None, (1, 2)])
def test_personal_rows_are_independent_optimizers_even_where_a_user_misses_a_step(
    name: str, clip: float | None, lost: tuple[int, int] | None
) -> None:
    decay, make = MAKE[name]
    algorithm = ShareLoRA(
        gamma=GAMMA,
        shared="none",
        epochs=3.0,
        schedule="constant",
        optimizer="sgd" if name == "sgd" else "adamw",
        decay=decay,
        clip=clip,
    )
    state, rejected = algorithm.run(algorithm.init(_start(), Clients(lost)), Clients(lost))
    assert rejected == ({} if lost is None else {1: 1})
    for i in range(N):
        skipped = [lost[1]] if lost is not None and lost[0] == i else []
        expected = _alone(_start()[i], make, clip, skipped, client=i)
        torch.testing.assert_close(state.X[i], expected, rtol=1e-12, atol=1e-13)


def test_shared_coordinates_stay_equal_where_a_user_misses_a_step() -> None:
    algorithm = ShareLoRA(gamma=GAMMA, shared="up", schedule="constant", clip=CLIP)
    mask = torch.from_numpy(algorithm.mask(MODULES))
    start = torch.where(mask, _start()[:1], _start())
    state, _ = algorithm.run(algorithm.init(start, Clients((1, 2))), Clients((1, 2)))
    assert (state.X[:, :, mask] == state.X[:1, :, mask]).all()
    assert (state.moments.step[0] == STEPS).all()
    assert (state.moments.step[1] == torch.where(mask, STEPS, STEPS - 1)).all()


def test_clipping_is_for_each_row_and_leaves_short_ones() -> None:
    G = torch.stack([_pull(i, _start()[i], 0) for i in range(N)])
    scaled = clipped(G, CLIP)
    lengths = scaled.flatten(1).norm(dim=1)
    assert G[0].norm() < CLIP < G[1].norm() < G[2].norm()
    assert torch.equal(scaled[0], G[0])
    torch.testing.assert_close(
        lengths[1:], torch.full((2,), CLIP, dtype=G.dtype), rtol=1e-6, atol=0
    )
    together = G * (CLIP / G.norm()).clamp(max=1.0)  # what one norm for all would do
    assert (together - scaled).abs().max() > 0.1
    assert clipped(G, None) is G


@pytest.mark.parametrize("clip", [0.0, -1.0, float("nan")])
def test_bad_norms(clip: float) -> None:
    with pytest.raises(InputError, match="`clip` must be"):
        ShareLoRA(gamma=0.1, clip=clip)
    with pytest.raises(InputError, match="`clip` must be"):
        HeteroLoRA(gamma=0.1, H=1, ranks=[1], clip=clip)
