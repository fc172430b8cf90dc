"""What a run leaves on the server's disk: how far it is after every round, and what came out.

``rounds`` holds the last two checkpoints, ``adapters.safetensors`` and ``result.json`` the end. The
latter is written last: where it is whole, everything is.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from safetensors.torch import save_file
from torch import Tensor

from linsys.json_text import from_json
from linsys.validate import InputError
from lora_bridge import checkpoint
from lora_bridge.failures import writing_explained
from lora_bridge.flower._parts import Server

__all__ = ["Progress", "Result"]

_LOG = logging.getLogger("lora_bridge.flower")


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Attributes:
        sha256: of the final adapters: those of the server, and what users keep, by their digests.
        rounds: done in all.
        resumed: the round at which the last part of the run began, which came to the end.
        missing: round, client and reason, for each time that the server did without a client; the
            end counts as one more round.
        clients: SHA-256 of what a client keeps, where clients keep adapters.
        seconds: of the rounds of the last part.
    """

    sha256: str
    rounds: int
    resumed: int = 0
    missing: tuple[tuple[int, int, str], ...] = ()
    clients: Mapping[int, str] = field(default_factory=dict)
    seconds: float = 0.0

    def put(self, base: Path, adapters: Mapping[str, Tensor]) -> None:
        """Keep it in a folder, with the server's adapters."""
        plain = {name: value.detach().cpu().contiguous() for name, value in adapters.items()}
        text = json.dumps(asdict(self), indent=1)
        with writing_explained("folder of the run", base):
            save_file(plain, base / "adapters.safetensors")
            (base / "result.json").write_text(text, encoding="utf-8")

    @classmethod
    def after(cls, rounds: int, base: Path, clients: int) -> Result | None:
        """The result in a folder after these rounds; None if it is not complete."""
        try:
            content = from_json((base / "result.json").read_text(encoding="utf-8"))
            missing = tuple((t, client, reason) for t, client, reason in content["missing"])
            digests = {int(client): digest for client, digest in content["clients"].items()}
            result = cls(**content | {"missing": missing, "clients": digests})
        except (OSError, ValueError, KeyError, TypeError):  # no end yet, or killed while writing
            return None
        # a client that keeps adapters and was absent at the end still lacks them
        complete = len(digests) in (0, clients) and (base / "adapters.safetensors").is_file()
        return result if complete and result.rounds == rounds else None


class Progress(NamedTuple):
    """How far a run is: the server's state, the rounds done, and who was missing in them."""

    state: Any
    rounds: int
    missing: tuple[tuple[int, int, str], ...] = ()

    def then(self, state: Any, lost: Mapping[int, str]) -> Progress:
        """The progress after one more round, in which these clients were missing."""
        return Progress(state, self.rounds + 1, self.without(lost))

    def without(self, lost: Mapping[int, str]) -> tuple[tuple[int, int, str], ...]:
        """Who was missing so far, and these clients in the next round."""
        new = ((self.rounds, client, reason) for client, reason in sorted(lost.items()))
        return (*self.missing, *new)

    def put(self, base: Path, about: str) -> None:
        """Keep it in a folder."""
        kept = {"state": self.state, "missing": json.dumps(self.missing)}
        checkpoint.save(base / "rounds", kept, self.rounds, about)

    @classmethod
    def kept(cls, base: Path, server: Server) -> Progress | None:
        """The newest progress in a folder that is not damaged; None before the first round.

        Raises:
            InputError: what is kept cannot be read, or is another run's.
        """
        unreadable: InputError | None = None
        for place in checkpoint.all_of(base / "rounds"):
            like = {"state": server.form(), "missing": ""}
            try:
                saved, rounds = checkpoint.restore(place, like, server.federation.about)
            except checkpoint.OfAnotherRun:
                raise InputError(
                    f"folder of the run must be new or hold this run; found rounds of another one "
                    f"in {base}: its algorithm, start or sizes differ"
                ) from None
            except InputError as error:
                unreadable = unreadable or error
                _LOG.warning("%s", error)
                continue
            missing = tuple((t, client, why) for t, client, why in from_json(saved["missing"]))
            return cls(saved["state"], rounds, missing)
        if unreadable is not None:
            raise unreadable
        return None
