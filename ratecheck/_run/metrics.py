"""What runs on language models leave beside an experiment's table: measurements and adapters.

They are written by :mod:`lora_bridge.metrics`, in ``runs`` of the result's folder, below a folder
for every block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from linsys.validate import InputError, check_integer
from ratecheck._discover import registry
from ratecheck._experiment.model import Block
from ratecheck._store.files import writing
from ratecheck._store.store import Result

if TYPE_CHECKING:
    from lora_bridge.runs import Watch

#: In a result's folder.
RUNS = "runs"


@dataclass(frozen=True)
class Keeping:
    """What is kept of an experiment's runs; another process can be given it.

    Attributes:
        folder: of the runs, or None where the experiment is not about a language model.
        tensorboard: where its event files go, or None.
        save_adapters: after how many rounds adapters are saved, or None.
    """

    folder: Path | None
    tensorboard: Path | None
    save_adapters: int | None

    @classmethod
    def of(
        cls, experiment: str, result: Result, tensorboard: Path | None, save_adapters: int | None
    ) -> Keeping:
        """What is kept of the experiment with this id.

        Raises:
            InputError: event files or adapters of an experiment without a language model; less
                than one round.
        """
        if not experiment.startswith(f"{registry.BRIDGE}/"):
            for name, given in (("tensorboard", tensorboard), ("save_adapters", save_adapters)):
                if given is not None:
                    raise InputError(
                        f"`{name}` must be for an experiment on a language model; "
                        f"found {experiment}"
                    )
            return cls(None, None, None)
        if save_adapters is not None:
            check_integer("save_adapters", save_adapters, low=1)
        if tensorboard is not None:
            name = f"{experiment.replace('/', '-')}-{result.parameters[:8]}"
            tensorboard = Path(tensorboard) / name
        return cls(result.folder / RUNS, tensorboard, save_adapters)

    def of_block(self, block: Block) -> Path:
        """The folder of a block's runs."""
        from lora_bridge.metrics import short_name

        assert self.folder is not None
        return self.folder / short_name(",".join(f"{k}={v}" for k, v in block.items()))

    def _mark(self, block: Block) -> Path:
        """The file that says how often adapters of a block were saved."""
        return self.of_block(block) / f"adapters-every-{self.save_adapters}"

    def check(self, begun: Sequence[Block]) -> None:
        """Refuse to save adapters where blocks were ``begun`` without it.

        Raises:
            InputError: there are such blocks.
        """
        if self.folder is None or self.save_adapters is None:
            return
        if without := [block for block in begun if not self._mark(block).exists()]:
            raise InputError(
                f"`save_adapters` must be given from the beginning on; found {len(without)} "
                f"block{'s' * (len(without) > 1)} computed without "
                f"{self.save_adapters}: take another folder of results"
            )

    def watch(self, block: Block, then: Callable[[], None]) -> Watch | None:
        """What writes down the runs of a block and calls ``then`` after every line."""
        if self.folder is None:
            return None
        from lora_bridge.metrics import Recorder

        if self.save_adapters is not None:
            mark = self._mark(block)
            with writing("output folder", mark.parent):
                mark.parent.mkdir(parents=True, exist_ok=True)
                mark.touch()
        place, every = self.of_block(block), self.save_adapters
        return Recorder(place, block=block, save_adapters=every, then=then)


@contextmanager
def following(keeping: Keeping) -> Iterator[Callable[[], None]]:
    """A function that brings TensorBoard's event files up to date, as is done at the end."""
    if keeping.tensorboard is None or keeping.folder is None:
        yield lambda: None
        return
    from lora_bridge.metrics import TensorBoard

    events = TensorBoard(keeping.folder, keeping.tensorboard)
    try:
        yield events.update
    finally:
        events.close()
