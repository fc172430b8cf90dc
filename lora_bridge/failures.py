"""One-line errors for what ends a run: no memory, no writable disk, numbers that are not finite."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from linsys.validate import InputError

__all__ = ["first_line", "memory_explained", "unsound", "writing_explained"]

#: Parts of messages of PyTorch's out-of-memory errors that have no class of their own.
_OUT_OF_MEMORY = ("DefaultCPUAllocator", "out of memory", "STATUS_ALLOC_FAILED")
_LOG = logging.getLogger("lora_bridge")


def first_line(error: BaseException) -> str:
    """What a library says of an error, without its reference to a report that is not shown.

    >>> first_line(RuntimeError("No sizes fit. For details look at the above report!"))
    'No sizes fit.'
    >>> first_line(KeyError())
    'KeyError'
    """
    lines = str(error).strip().splitlines()
    return lines[0].partition(" For details look at")[0] if lines else type(error).__name__


@contextmanager
def memory_explained() -> Iterator[None]:
    """Out of memory, on a GPU or on the CPU, becomes an InputError that says what to lower."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        text = str(error)
        known = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not known and not any(part in text for part in _OUT_OF_MEMORY):
            raise
        tried = text.partition("ried to allocate ")[2].partition(".  ")[0]
        asked = " ".join(tried.split()[:2]).rstrip(".,")
        failure = f"that an allocation of {asked} failed" if asked else "that an allocation failed"
        raise InputError(
            "memory must hold the model and a step of it; "
            f"found {failure}: lower chunk (or memory), batch, max_length or rank"
        ) from error


@contextmanager
def writing_explained(what: str, folder: Path) -> Iterator[None]:
    """A disk that is full or cannot be written becomes an InputError; ``what`` names the folder."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{what} must be writable; found {folder}: {reason}") from error


def unsound(
    clients: Sequence[int], losses: Tensor, gradients: Tensor, when: str, on_nan: str
) -> dict[int, str]:
    """Places of the clients whose loss or gradient is not finite, each with the reason.

    Args:
        clients: their numbers.
        losses: (clients, ...).
        gradients: (clients, ...).
        when: such as "round 3, step 0".
        on_nan: "stop", or "skip" to write to the log only.

    Raises:
        InputError: there is one, and ``on_nan`` is "stop".

    >>> bad = torch.tensor([1.0, float("nan")])
    >>> unsound([4, 7], bad, bad, "round 2", "stop")
    Traceback (most recent call last):
    linsys.validate.InputError: client 7 must have a finite loss; found nan in round 2: lower the
    step size, or leave such clients out by on_nan=skip
    """
    given = {"loss": losses, "gradient": gradients}
    parts = {what: value.reshape(len(clients), -1) for what, value in given.items()}
    sound = [part.isfinite().all(1) for part in parts.values()]
    if bool(torch.stack(sound).all()):  # the usual case costs one look at the device
        return {}
    reasons = {}
    for place, client in enumerate(clients):
        for what, part in parts.items():
            bad = part[place][~part[place].isfinite()]
            if len(bad) and place not in reasons:
                sentence = f"client {client} must have a finite {what}"
                reasons[place] = f"{sentence}; found {float(bad[0])} in {when}"
    if on_nan == "stop":
        first, *others = reasons.values()
        more = f", and {len(others)} more clients too" if others else ""
        raise InputError(
            f"{first}{more}: lower the step size, or leave such clients out by on_nan=skip"
        )
    for sentence in reasons.values():
        _LOG.warning("%s: left out", sentence)
    return reasons
