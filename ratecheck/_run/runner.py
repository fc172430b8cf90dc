"""Computes the blocks that the store does not have yet; whatever stops it, finished blocks stay."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from linsys.validate import InputError
from ratecheck._discover import registry
from ratecheck._experiment.model import Block, Columns, Config, Context, Experiment
from ratecheck._experiment.table import Table
from ratecheck._processes import elsewhere
from ratecheck._processes.ended import answer_of, lasting
from ratecheck._processes.interrupts import Interrupted, Progress
from ratecheck._processes.pool import call_in_processes, refuse_in_worker
from ratecheck._run.metrics import Keeping, following
from ratecheck._run.plan import Board, Plan
from ratecheck._store.files import temporary_folder
from ratecheck._store.revision import check_revision
from ratecheck._store.store import Result, Store

if TYPE_CHECKING:
    from lora_bridge.runs import Watch


def run(
    experiment: Experiment[Any],
    config: Config,
    store: Store,
    *,
    threads: int = 1,
    progress: Progress | None = None,
    reference: str | None = None,
    plan: Plan | None = None,
    tensorboard: Path | None = None,
    save_adapters: int | None = None,
) -> Table:
    """The table of all blocks in order: stored ones are read, missing ones computed and stored.

    An exception of ``compute`` passes through unchanged; nothing of the block it broke is stored.
    Of two processes that compute the same, the second waits and reads what the first has stored.
    Inside :func:`on_cluster` every block is a task of the cluster, which a worker stores.
    What runs of an experiment on a language model measure is written beside the table, see
    :mod:`lora_bridge.metrics`.

    Args:
        experiment: defined in a file.
        config: one of its profiles, or one of one's own.
        store: where blocks are kept.
        threads: for ``compute``, or as many blocks at once in processes of their own.
        progress: called with the number of blocks that are done and of all.
        reference: how another process finds the experiment: its id, or the path of its file.
        plan: of an experiment on a language model; then ``progress`` counts parts of blocks, too.
        tensorboard: a folder for TensorBoard's event files of such an experiment; None: none.
        save_adapters: after how many of its rounds adapters are saved as PEFT's folders.

    Raises:
        InputError: blocks that are not distinct; a folder that cannot be written; adapters of
            blocks that were computed without saving them; another experiment for the last two; a
            block whose process the system killed twice, as where memory is short.

    Example::

        experiment = rc.find_experiment("affpcl/rate_n")
        config = experiment.profiles["quick"]
        table = rc.run(experiment, config, rc.Store("results"))
        analysis = experiment.analyse(config, table)
        for check in analysis.checks:
            print(check.name, check.measured, check.ok)
    """
    if threads > 1:
        refuse_in_worker("run")
    blocks = list(experiment.blocks(config))
    if not blocks or len({str(sorted(b.items())) for b in blocks}) != len(blocks):
        raise InputError(
            f"blocks of {experiment.id} must be distinct and at least one; found {len(blocks)}"
        )
    result = store.result(experiment, config)
    keeping = Keeping.of(experiment.id, result, tensorboard, save_adapters)
    report = progress or (lambda done, total: None)
    try:
        with (
            result.locked(lambda: _say_that_it_waits(experiment.id)),
            following(keeping) as follow,
        ):
            result.clean()
            tables = [result.load(block) for block in blocks]
            missing = [i for i, table in enumerate(tables) if table is None]
            begun = [b for b, t in zip(blocks, tables, strict=True) if t is not None]
            keeping.check(
                begun
                + [b for b in map(blocks.__getitem__, missing) if result.unfinished(b).exists()]
            )
            done = len(blocks) - len(missing)
            report(done, len(blocks))
            todo = [(blocks[i], result.unfinished(blocks[i])) for i in missing]
            with _board(plan, len(todo)) as board:

                def look(running: Collection[int]) -> None:
                    follow()
                    if board is not None and plan is not None:
                        report(done + board.done(running, plan), len(blocks))

                work = _stored(
                    experiment, config, todo, threads, reference, board, keeping, look, result
                )
                try:
                    for position, table in work:
                        tables[missing[position]] = table
                        done += 1
                        report(done, len(blocks))
                finally:
                    result.write_manifest()
    except KeyboardInterrupt:
        in_part = result.saved_in_part(blocks)
        raise Interrupted(result.saved(blocks), len(blocks), in_part=in_part) from None
    return joined([t for t in tables if t is not None])


def redraw(experiment: Experiment[Any], config: Config, store: Store) -> tuple[Table, Result]:
    """The table of a complete stored result, even of older source code; computes nothing."""
    blocks = list(experiment.blocks(config))
    result = store.latest(experiment, config, blocks)
    return joined([t for t in map(result.load, blocks) if t is not None]), result


def joined(tables: Sequence[Table]) -> Table:
    """The tables below each other; all must have the same columns."""
    names = list(tables[0])
    if any(set(table) != set(names) for table in tables):
        raise InputError(
            f"all blocks must have the same columns; found {sorted({n for t in tables for n in t})}"
        )
    return Table({name: np.concatenate([table[name] for table in tables]) for name in names})


def _say_that_it_waits(name: str) -> None:
    print(
        f"ratecheck: another process computes {name}; waiting for it", file=sys.stderr, flush=True
    )


@contextmanager
def _board(plan: Plan | None, blocks: int) -> Iterator[Board | None]:
    """Where the blocks of a planned experiment say how far they are."""
    if plan is None:
        yield None
        return
    with temporary_folder("ratecheck-steps-") as folder:
        yield Board.made(folder / "steps", blocks)


def _stored(
    experiment: Experiment[Any],
    config: Config,
    todo: Sequence[tuple[Block, Path]],
    threads: int,
    reference: str | None,
    board: Board | None,
    keeping: Keeping,
    look: Callable[[Collection[int]], None],
    result: Result,
) -> Iterator[tuple[int, Table]]:
    """The position and the stored table of each block, given with its folder, as it gets ready."""
    there, cards = elsewhere.current() is not None, getattr(config, "cards", 1)
    workers = min(threads, len(todo)) if experiment.parallel == "blocks" else 1
    if workers <= 1 and cards == 1 and not there:
        inner = 1 if experiment.parallel == "blocks" else threads
        for position, (block, folder) in enumerate(todo):
            watch = _watch(board, position, keeping, block, partial(look, [position]))
            with lasting(_in_words(experiment.id, block)):
                columns, seconds = _timed(experiment, config, block, Context(inner, folder, watch))
            saved = result.save_shard(block, columns, seconds)
            result.note(block, seconds)
            yield position, saved
        return
    # A worker finds the experiment by its reference: functions of a user's file do not pickle.
    values = {name: getattr(config, name) for name in config.to_dict()}
    name = reference or experiment.id
    place = (result.home, result.parameters, result.revision)
    tasks = [
        (name, values, *one, board, keeping, position, place, there)
        for position, one in enumerate(todo)
    ]
    made: Iterator[tuple[int, float]] = (
        (position, answer_of(future, _in_words(experiment.id, todo[position][0])))
        for position, future in call_in_processes(_remote, tasks, workers, look=look)
    )
    for position, seconds in made if cards == 1 else _by_cards(cards, tasks, look):
        block = todo[position][0]
        table = result.load(block)
        if table is None:
            raise InputError(
                f"worker must see the results of {experiment.id} in {result.folder.resolve()}; "
                f"found that a block it has stored is not there"
            )
        result.note(block, seconds)
        yield position, table


def _watch(
    board: Board | None,
    position: int,
    keeping: Keeping,
    block: Block,
    after: Callable[[], None] = lambda: None,
) -> Watch | None:
    """What is told of a block's runs."""
    writes = keeping.watch(block, after)
    if board is None or writes is None:
        return writes if board is None else board.watch(position, after)
    from lora_bridge.runs import Both

    return Both(writes, board.watch(position, after))


def _timed(
    experiment: Experiment[Any], config: Config, block: Block, context: Context
) -> tuple[Columns, float]:
    start = time.perf_counter()
    columns = experiment.compute(config, block, context)
    return columns, time.perf_counter() - start


@functools.lru_cache(maxsize=8)
def _found(reference: str, revision: str) -> Experiment[Any]:
    """The experiment, looked for once by a worker that computes many blocks of one revision."""
    return registry.find_experiment(reference)


def _remote(
    reference: str,
    values: dict[str, Any],
    block: Block,
    folder: Path,
    board: Board | None,
    keeping: Keeping,
    position: int,
    place: tuple[Path, str, str],
    foreign: bool,
    keeps: bool = True,
) -> float:
    """In a worker: compute and store a block, if nobody has; returns how long that took.

    Args:
        place: home, parameters and revision of the result.
        foreign: whether this machine may have other files of the user's.
        keeps: whether it is this process that stores the block and tells of its runs.
    """
    experiment = _found(reference, place[-1])
    config = experiment.config_type(**values)
    result = Result(*place, experiment.id, config)
    if foreign:
        check_revision(experiment, result.revision)
        # a worker that was given up may have stored it before it ended
        if result.load(block) is not None:
            return 0.0
    watch = _watch(board, position, keeping, block) if keeps else None
    columns, seconds = _timed(experiment, config, block, Context(1, folder, watch))
    if keeps:
        result.save_shard(block, columns, seconds)
    return seconds


def _by_cards(
    cards: int, tasks: Sequence[tuple[Any, ...]], look: Callable[[Collection[int]], None]
) -> Iterator[tuple[int, float]]:
    """One block after the other, each by a process for every card, which divide its clients."""
    for position, task in enumerate(tasks):
        with temporary_folder("ratecheck-cards-") as folder:
            calls = [(rank, cards, folder / "meeting", task) for rank in range(cards)]
            seconds = 0.0

            def follow(ranks: Collection[int], at: int = position) -> None:
                look([at])

            what = _in_words(task[0], task[2])
            work = call_in_processes(_on_card, calls, cards, look=follow, together=True)
            for _, future in work:
                seconds = max(seconds, answer_of(future, what))
        yield position, seconds


def _in_words(name: str, block: Block) -> str:
    """A block of an experiment, as a line names it."""
    keys = ", ".join(f"{key}={value}" for key, value in block.items())
    return f"block {keys} of {name}" if keys else name


def _on_card(rank: int, cards: int, meeting: Path, task: tuple[Any, ...]) -> float:
    """In a worker: compute a block together with those of the other cards; the first stores it."""
    from lora_bridge.cards import together

    device = task[1]["device"]
    with together(device, rank=rank, processes=cards, meeting=meeting):
        arguments = *task, rank == 0
        return _remote(*arguments)
