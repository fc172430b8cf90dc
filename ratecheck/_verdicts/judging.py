"""Judging many claims by processes: each has a limit of CPU time, and none can harm the others.

A worker finds a claim by its module or file and its id, because measures do not pickle. Verdicts
depend on the claim, the effort and the seed alone, so any number of workers gives the same ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from ratecheck._claims.claim import RateClaim
from ratecheck._discover.catalogue import Item, families_of, find
from ratecheck._processes import limit as limit_module, pool
from ratecheck._processes.ended import in_words, was_late
from ratecheck._search.search import Families
from ratecheck._store.files import temporary_folder
from ratecheck._verdicts import trace as trace_module
from ratecheck._verdicts.verdict import LIMITS, Verdict, judge

#: CPU seconds after a claim's own limit, which can say more, until its process is killed.
_GRACE = 2.0
#: Seconds over which instances are counted.
_LOOK = 0.5


def judge_all(
    items: Sequence[Item],
    effort: str,
    seed: int,
    *,
    workers: int,
    limit: float | None = None,
    doing: Callable[[str], None] = lambda what: None,
) -> Iterator[tuple[Item, Verdict]]:
    """Each claim with its verdict, as they get ready.

    A claim that raises or ends its process has the verdict "error", with the reason and, where it
    is known, the instance; one that computes (or waits) for more than ``limit`` seconds has what
    :func:`judge` says of that, or "error" if its process had to be killed. Compilation has no
    limit; ``doing`` is told again and again "compiling" while a worker is at it, and else how many
    instances all of them measure in a second.
    """
    limit = LIMITS[effort] if limit is None else limit
    # rates take longest; begun last, one of them would leave all other workers idle
    ordered = sorted(items, key=lambda item: not isinstance(item.entry, RateClaim))
    known = families_of(items)
    with temporary_folder("ratecheck-") as scratch:
        notes = [scratch / item.id for item in ordered]
        tasks = [
            (item.origin, item.id, effort, seed, limit, note, known[item.id])
            for item, note in zip(ordered, notes, strict=True)
        ]

        pace = _Pace()

        def look(running: Collection[int]) -> None:
            compiles = any(trace_module.compiles(notes[position]) for position in running)
            rate = pace.look({k: trace_module.begun(notes[k]) for k in running})
            doing("compiling" if compiles else _pace_in_words(rate))

        # by the wall clock, where the kernel counts no CPU time
        timeout = None if limit_module.KERNEL else limit + _GRACE
        for position, future in pool.call_in_processes(
            _judge_in_worker,
            tasks,
            workers,
            groups=[_shared(item) for item in ordered],
            timeout=timeout,
            look=look,
        ):
            item = ordered[position]
            yield item, _verdict_of_worker(future, item, limit, notes[position])


def _shared(item: Item) -> Hashable:
    """What claims have in common that one process computes once: their instances, or runs."""
    space = getattr(item.entry, "space", None)
    return item.origin if space is None else id(space)


def _pace_in_words(rate: float) -> str:
    """Instances per second, or seconds per instance where these are more than one."""
    if not rate:
        return ""
    return f"{rate:,.0f} instances/s" if rate >= 1 else f"{1 / rate:,.0f} s per instance"


class _Pace:
    """How many instances workers measure in a second, from what each has begun."""

    def __init__(self) -> None:
        self._rate, self._at = 0.0, time.perf_counter()
        self._seen: Mapping[int, int] = {}

    def look(self, begun: Mapping[int, int]) -> float:
        """The rate since the last look, or the one before where that was a moment ago."""
        now = time.perf_counter()
        if now - self._at >= _LOOK:
            new = sum(count - self._seen.get(position, 0) for position, count in begun.items())
            self._rate, self._at, self._seen = max(new, 0) / (now - self._at), now, begun
        return self._rate


def _judge_in_worker(
    origin: str, name: str, effort: str, seed: int, limit: float, note: Path, known: Families
) -> Verdict:
    with trace_module.tracing(note) as trace:
        with limit_module.killed_after(limit, trace.compiling):  # a user's file may do anything
            entry = find(origin, name).entry
        with limit_module.killed_after(limit + _GRACE, trace.compiling):
            return judge(
                entry,
                effort,
                seed,
                limit=limit,
                watch=trace.watch,
                families=known,
                violated=lambda verdict: trace.violated(verdict.to_dict()),
            )


def _verdict_of_worker(future: Future[Verdict], item: Item, limit: float, note: Path) -> Verdict:
    """The worker's verdict, or one that says how the worker ended without a verdict."""
    from pebble import ProcessExpired

    begun = trace_module.begun(note)
    late = (
        f"no answer within {limit:g} s of CPU time or of waiting (a larger `--limit` allows more); "
        f"its process was killed in evaluation {begun:,} and had reported no violation"
    )
    try:
        return future.result()
    except TimeoutError:
        reason = late
    except (ProcessExpired, BrokenProcessPool) as error:
        reason = late if was_late(error) else in_words(error)
    except (Exception, SystemExit) as error:  # the worker was to exit, not this process
        reason = f"{type(error).__name__}: {error}"
    if violation := trace_module.violation(note):
        return Verdict.from_dict(violation)
    instance = trace_module.last(note)
    corrected = item.entry.corrected
    return Verdict(
        item.id,
        "error",
        instances=begun,
        counterexample=instance,
        corrected=corrected,
        reason=reason,
    )
