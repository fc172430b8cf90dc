"""What a client keeps between rounds, on its disk: its own state after the last ones.

A client that is asked for a round again, because its answer was lost or the server was restarted,
begins with the state that it had before that round, or without one in its first round, and gives
the same answer. A client that has missed rounds goes on with its last state: it counts as one that
did not move. Three states are kept: a server that loses its newest checkpoint goes back by one
round, and may have asked for the next one already.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linsys.validate import InputError
from lora_bridge import checkpoint
from lora_bridge.failures import writing_explained

__all__ = ["Kept"]

_STATES = 3
_FIRST_ROUND = "first-"  # a file whose name ends with the round of the first state


@dataclass(frozen=True)
class Kept:
    """States by round, in a folder: the last ones.

    Args:
        folder: of one client and one purpose.
        about: what the states belong to.
    """

    folder: Path
    about: str

    def before(self, t: int, like: Any) -> tuple[int, Any] | None:
        """The state with which round t begins, and the round it was kept for.

        None where nothing is kept, and for rounds before that of the first state.

        Args:
            t: the round.
            like: a state of the same form.

        Raises:
            InputError: the state is no longer kept, or cannot be read; what is kept is of another
                run.
        """
        places = checkpoint.all_of(self.folder)
        for place in places:
            if _round(place) <= t:
                return _round(place), self._read(place, like)
        if not places:
            return None
        self._read(places[-1], like)  # raises if it is of another run
        if not any(t < _round(first) for first in self.folder.glob(f"{_FIRST_ROUND}*")):
            raise InputError(
                f"the server must ask for round {_round(places[-1])} or a later one, for the state "
                f"before is no longer kept; found round {t}"
            )
        return None

    def missing_error(self, heard: int) -> InputError:
        """The error to raise if nothing is kept although the server has this step's answer."""
        return InputError(
            f"the client must hold what it has kept, for step {heard} it has answered; "
            f"found nothing in {self.folder}"
        )

    def at(self, t: int, like: Any) -> Any | None:
        """The state that was put for round t; None without one."""
        for place in checkpoint.all_of(self.folder):
            if _round(place) == t:
                return self._read(place, like)
        return None

    def put(self, t: int, state: Any) -> None:
        """Keep the state with which round t begins; those of later rounds are removed."""
        if all(_round(place) > t for place in checkpoint.all_of(self.folder)):
            with writing_explained("folder of what a client keeps", self.folder):
                for first in self.folder.glob(f"{_FIRST_ROUND}*"):
                    first.unlink()
                self.folder.mkdir(parents=True, exist_ok=True)
                (self.folder / f"{_FIRST_ROUND}{t:08d}").touch()
        checkpoint.save(self.folder, state, t, self.about, _STATES)

    def _read(self, place: Path, like: Any) -> Any:
        return checkpoint.restore(place, like, self.about)[0]


def _round(place: Path) -> int:
    return int(place.name.partition("-")[2])
