"""Users on machines of their own, a server that sees what is shared: the numbers are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from linsys import InputError
from linsys.preference.sharelora import METHODS, ShareLoRA, method
from tests.linsys.test_preference_sharelora import N, begin, users


class Alone:
    """One user of an oracle, as its only one."""

    def __init__(self, oracle: Any, user: int) -> None:
        self.oracle, self.user, self.modules = oracle, user, oracle.modules
        self.users, self.steps = 1, oracle.steps

    def grad(self, user: int, X: Any, epoch: int, step: int) -> Any:
        return self.oracle.grad(self.user, X, epoch, step)


def _apart(algorithm: ShareLoRA, oracle: Any, start: Any, lost: int | None) -> list[Any]:
    """The rows of all users, each of which was seen by its user only where they are personal."""
    warm = round(algorithm.warmup * oracle.steps)
    mask, blank = torch.from_numpy(algorithm.mask(oracle.modules)), torch.nan
    own = [algorithm.init(start[i : i + 1], Alone(oracle, i)) for i in range(N)]
    server = algorithm.init(start[:1], Alone(oracle, 0))
    for t in range(algorithm.total(oracle)):
        down = mask | (0 < warm >= t)
        together = torch.from_numpy(algorithm.together(t, oracle))
        up = []
        for i, state in enumerate(own):
            state = state._replace(X=torch.where(down, server.X, state.X))
            epoch, step = divmod(t, oracle.steps)
            G = oracle.grad(i, state.X[0], epoch, step)[None]
            own[i] = algorithm.move(state, Alone(oracle, i), G, G, [0] if i == lost else [])
            up.append(torch.where(together, torch.zeros_like(G) if i == lost else G, blank))
        mean = algorithm.pool(torch.concatenate(up))
        server = algorithm.move(server, Alone(oracle, 0), mean, mean)
    end = mask | (warm == algorithm.total(oracle))
    return [torch.where(end, server.X, state.X)[0] for state in own]


@pytest.mark.parametrize("lost", [None, 1])
@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
@pytest.mark.parametrize("name", METHODS)
def test_users_and_server_apart_are_the_run(name: str, optimizer: str, lost: int | None) -> None:
    oracle = users()
    algorithm = method(name, 0.1, epochs=2.0, optimizer=optimizer, decay=0.01)
    start = torch.from_numpy(begin(algorithm, oracle))

    class Lossy(type(oracle)):  # type: ignore[misc]
        def grad(self, user: int, *rest: Any) -> Any:
            gradient = super().grad(user, *rest)
            return gradient * np.nan if user == lost else gradient

    lossy = Lossy(oracle.data, oracle.batch, 5, 0.5, (1, 2))
    whole, _ = algorithm.run(algorithm.init(start, lossy), lossy)
    for i, X in enumerate(_apart(algorithm, oracle, start, lost)):
        assert torch.equal(X, whole.X[i])
        assert i == lost or not torch.equal(X, start[i])


def test_no_part_moves_when_all_epochs_are_done() -> None:
    oracle = users()
    algorithm = method("SI", 0.1, epochs=1.0)
    done = algorithm.init(begin(algorithm, oracle), oracle)._replace(t=3)
    with pytest.raises(InputError, match="must have steps left; found all 3 done"):
        algorithm.move(done, oracle, done.X[:1], done.X)
