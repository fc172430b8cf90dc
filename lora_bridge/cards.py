"""Several graphics cards of one machine: a process for each, among which the clients are divided.

All processes make the same run. A bank with ``divided=True`` computes the gradients, losses and
responses of a share of the clients in each of them, and every process gets those of all. States
are then equal everywhere without being sent, and the first process keeps them.

PyTorch's ``torchrun --nproc-per-node=4 program.py`` starts the processes of a program, which calls
:func:`together`; ``ratecheck bridge NAME --set cards=4`` starts those of an experiment. They talk
through NCCL on cards, and through gloo on a processor. Without either, everything here is that of
one process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as group
from torch import Tensor

from linsys.validate import InputError, check_choice, check_integer

__all__ = ["check_same", "is_first", "joined", "size", "together", "wait"]


def size() -> int:
    """How many processes make this run together."""
    return group.get_world_size() if group.is_available() and group.is_initialized() else 1


def is_first() -> bool:
    """Whether this process is the one that keeps what all have."""
    return size() == 1 or group.get_rank() == 0


def wait() -> None:
    """Until all processes are here."""
    if size() > 1:
        group.barrier()


@contextmanager
def together(
    device: str = "cuda",
    *,
    rank: int | None = None,
    processes: int | None = None,
    meeting: Path | None = None,
) -> Iterator[torch.device]:
    """In this block the process is one of those that make a run together; gives its own device.

    Args:
        device: "cuda" or "cpu".
        rank: number of this process, from 0; that of torchrun without one, and without torchrun
            the process stays alone.
        processes: how many there are, with ``rank``.
        meeting: a file that does not exist yet, where they find one another, with ``rank``.

    Raises:
        InputError: another device; fewer cards than processes.

    >>> with together("cpu") as device:
    ...     device, size()
    (device(type='cpu'), 1)
    """
    check_choice("device", device, ("cuda", "cpu"))
    if rank is None and "RANK" not in os.environ:
        yield torch.device(device)
        return
    card = int(os.environ["LOCAL_RANK"]) if rank is None else rank
    there = torch.cuda.device_count()
    if device == "cuda" and card >= there:
        raise InputError(f"`cards` must be at most the {there} of this machine; found {card + 1}")
    own = torch.device("cuda", card) if device == "cuda" else torch.device("cpu")
    backend = "nccl" if device == "cuda" else "gloo"
    if device == "cuda":
        torch.cuda.set_device(own)
    if rank is None:
        group.init_process_group(backend)
    else:
        check_integer("processes", processes, low=1)
        group.init_process_group(
            backend, init_method=f"file://{meeting}", rank=rank, world_size=processes or 1
        )
    yield own
    group.destroy_process_group()  # where the block fails the others are ended, not told


def joined(N: int, compute: Callable[[slice], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """What ``compute`` gives of all N clients, whose first axis they are.

    Every process computes as many clients as the others, so that all tensors are of one shape;
    where their number does not go into N some clients are computed by two of them.

    >>> joined(3, lambda part: (torch.arange(3)[part],))
    (tensor([0, 1, 2]),)
    """
    processes = size()
    if processes == 1:
        return compute(slice(0, N))
    each = -(-N // processes)
    starts = [min(rank * each, N - each) for rank in range(processes)]
    start = starts[group.get_rank()]
    whole = []
    for own in compute(slice(start, start + each)):
        parts = [torch.empty_like(own, memory_format=torch.contiguous_format) for _ in starts]
        group.all_gather(parts, own.contiguous())
        values = own.new_empty(N, *own.shape[1:])
        for at, part in zip(starts, parts, strict=True):
            values[at : at + each] = part
        whole.append(values)
    return tuple(whole)


def check_same(name: str, values: Tensor) -> None:
    """Check that all processes have the same values, by their sum.

    Raises:
        InputError: they have not.
    """
    total = values.detach().double().sum().reshape(1).view(torch.int64)  # also where it is NaN
    totals = [torch.empty_like(total) for _ in range(size())]
    group.all_gather(totals, total)
    if len({int(one) for one in totals}) > 1:
        raise InputError(
            f"`{name}` must be the same in all {size()} processes; found different ones: cards of "
            "one kind, and a program that draws the same in every process, give the same"
        )
