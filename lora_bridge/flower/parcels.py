"""What goes between server and clients: a few facts, tensors of any dtype, and a checksum of both.

A parcel is one piece of bytes: the SHA-256 of the rest, the length of the facts, the facts in JSON,
the tensors in safetensors' format. Nothing is pickled, so that bytes from outside run no code, and
what was damaged on the way is recognised before anybody uses it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from linsys.json_text import from_json

__all__ = ["Damaged", "Fact", "Lost", "Parcel", "fingerprint"]

#: What a fact can be.
Fact = int | float | str
_DIGEST = 32
_LENGTH = 8


class Damaged(ValueError):
    """Bytes that are no parcel, or no longer the one that was sent."""


@dataclass(frozen=True)
class Lost:
    """There is no answer of a client; the text says why."""

    reason: str


@dataclass(frozen=True)
class Parcel:
    """Facts and tensors.

    >>> sent = Parcel({"t": 3}, {"rows": torch.ones(2, dtype=torch.bfloat16)}).encode()
    >>> back = Parcel.decode(sent)
    >>> back.facts, back.tensors["rows"].dtype
    ({'t': 3}, torch.bfloat16)
    >>> Parcel.decode(sent[:-1] + b"!")
    Traceback (most recent call last):
        ...
    lora_bridge.flower.parcels.Damaged: bytes whose checksum is another one
    """

    facts: Mapping[str, Fact] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The parcel as bytes."""
        facts = json.dumps(dict(self.facts), sort_keys=True).encode()
        tensors = save({name: _plain(value) for name, value in self.tensors.items()})
        body = len(facts).to_bytes(_LENGTH, "big") + facts + tensors
        return hashlib.sha256(body).digest() + body

    @classmethod
    def decode(cls, data: bytes) -> Parcel:
        """The parcel that :meth:`encode` made these bytes of.

        Raises:
            Damaged: they are others.
        """
        digest, body = data[:_DIGEST], data[_DIGEST:]
        if hashlib.sha256(body).digest() != digest:
            raise Damaged("bytes whose checksum is another one")
        end = _LENGTH + int.from_bytes(body[:_LENGTH], "big")
        try:
            facts = from_json(body[_LENGTH:end])
            tensors = load(body[end:])
        except (ValueError, SafetensorError) as error:
            raise Damaged(f"bytes that are no parcel ({error})") from None
        if not isinstance(facts, dict) or not all(isinstance(v, Fact) for v in facts.values()):
            raise Damaged("facts that are no numbers and texts")
        return cls(facts, tensors)

    def text(self, name: str) -> str:
        """A fact as text; empty where there is none."""
        return str(self.facts.get(name, ""))

    def number(self, name: str) -> int:
        """A fact as a whole number; -1 where there is none."""
        fact = self.facts.get(name, -1)
        return fact if isinstance(fact, int) else -1


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """SHA-256 of tensors: of their dtypes, shapes and bits.

    >>> fingerprint([torch.zeros(2)])[:8], fingerprint([torch.zeros(2, 1)])[:8]
    ('2b6922d7', '5741435c')
    """
    digest = hashlib.sha256()
    for value in tensors:
        plain = _plain(value)
        digest.update(f"{plain.dtype} {tuple(plain.shape)}\n".encode())
        digest.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _plain(value: Tensor) -> Tensor:
    """On the CPU, in one piece, without a gradient or a storage that others share."""
    return value.detach().cpu().contiguous().clone()
