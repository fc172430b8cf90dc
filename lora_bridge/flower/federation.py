"""What the server and the clients of a federated run agree on, and what each derives from it.

A run is described once, by a function ``setup(config) -> Federation`` in a file that server and
clients have. Nobody sends it code: each calls its own copy. The server asks it for the algorithm
and the start; a client also for its oracle, which holds the model and the client's own data, and is
made where they are.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from linsys.sketching.adapters import Modules
from linsys.validate import InputError, check_function, check_instance, check_integer, check_number
from lora_bridge._checks import finite
from lora_bridge.flower.parcels import fingerprint

__all__ = ["Blank", "Config", "Federation", "load_setup"]

#: The options of a run, as Flower keeps them.
Config = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Federation:
    """A federated run.

    Args:
        algorithm: FSLoRA, HeteroLoRA, FlexLoRA, FedStackLoRA, ShareLoRA, FIRM, FedCMOO,
            LinearScalarization or SingleObjective.
        start: where it starts: global modules (r, w) for FSLoRA and its rivals; rows (N, r, w), or
            (r, w) for all users alike, for ShareLoRA; flat parameters (d,) for the algorithms of
            :mod:`mgda`.
        clients: N.
        oracle: number of a client to its oracle, of the kind that the algorithm asks. It is called
            on the client's machine and needs no other client's data; :mod:`lora_bridge.flower` says
            how to number the samples of a client that knows its own alone.
        rounds: aggregations; ShareLoRA's epochs say how many steps it makes.
        modules: the adapted matrices, for all but the algorithms of mgda.
        scaling: the bank's, for FedStackLoRA, which merges products into frozen matrices.
        steps: batches of an epoch of ShareLoRA; without it, the most that a client has.
        objectives: M, for the algorithms of mgda.

    Raises:
        InputError: no clients, no rounds, no batches, no objectives; a start that is no tensor of
            finite numbers; something else than a function of a client's number.
    """

    algorithm: Any
    start: Tensor
    clients: int
    oracle: Callable[[int], Any]
    rounds: int = 1
    modules: Modules | None = None
    scaling: float = 1.0
    steps: int | None = None
    objectives: int | None = None

    def __post_init__(self) -> None:
        check_integer("clients", self.clients, low=1)
        check_integer("rounds", self.rounds, low=1)
        finite("start", self.start)
        check_function("oracle", self.oracle, "client")
        check_number("scaling", self.scaling, low=0.0, low_open=True)
        if self.modules is not None:
            check_instance("modules", self.modules, Modules, "the `modules` of a bank")
        for name in ("steps", "objectives"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=1)

    @property
    def about(self) -> str:
        """Sixteen letters that differ between runs of different algorithms, starts or sizes."""
        text = f"{self.algorithm!r} {self.clients} {self.modules} {self.scaling}"
        text += f" {self.steps} {self.objectives} {fingerprint([self.start])}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def blank(self, steps: int | None = None, users: int = 1) -> Blank:
        """What the server has in the place of an oracle."""
        if self.modules is None:
            raise InputError("`modules` must be given for this algorithm; found None")
        return Blank(self.modules, self.clients, users, steps or 1, self.scaling)


@dataclass(frozen=True, eq=False)
class Blank:
    """An oracle that knows shapes and what has been merged, and answers nothing: the server's.

    Attributes:
        modules: the adapted matrices.
        devices: N, as FSLoRA and its rivals count.
        users: as ShareLoRA counts: those whose rows its state has.
        steps: batches in an epoch.
        scaling: of merged products.
        frozen: what has been merged into the frozen matrices, (m, n) each; none at first.
    """

    modules: Modules
    devices: int
    users: int = 1
    steps: int = 1
    scaling: float = 1.0
    frozen: tuple[Tensor, ...] = ()

    def merged(self, products: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """With products added, as :meth:`lora_bridge.bank.AdapterBank.merged` adds them."""
        kept = tuple(self.scaling * product for product in products)
        if self.frozen:
            kept = tuple(a + b for a, b in zip(self.frozen, kept, strict=True))
        return kept

    def with_frozen(self, frozen: tuple[Tensor, ...]) -> Blank:
        """With these merged."""
        return Blank(self.modules, self.devices, self.users, self.steps, self.scaling, frozen)


def load_setup(name: str, config: Config, folder: Path | None = None) -> Federation:
    """The federation that a function makes of a run's options.

    Args:
        name: "module:function", of an installed module or of a file in ``folder``.
        config: passed to it.
        folder: where else to look.

    Raises:
        InputError: no such module or function, one that makes something else, or one that asks
            for an option that is not given.
    """
    module, _, made_by = check_instance("name", name, str, "a text, module:function").partition(":")
    if folder is not None and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        setup = getattr(importlib.import_module(module), made_by)
        made = check_function("setup", setup, "config")(_Options(config))
    except (ImportError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"`setup` must be module:function; found {name!r} ({error})") from None
    if not isinstance(made, Federation):
        raise InputError(
            f"`setup` must make a Federation; found that {name} makes a {type(made).__name__}"
        )
    return made


class _Options(dict[str, Any]):
    """Options of a run; an error names a missing one."""

    def __missing__(self, name: str) -> Any:
        raise InputError(f"option {name} must be given, for the setup; found {', '.join(self)}")
