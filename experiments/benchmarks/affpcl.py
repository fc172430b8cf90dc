"""AffPCL: the simulation kernel, the exact engine and Figure 1 against their peers.

``ratecheck bench affpcl`` times; ``python -m experiments.benchmarks.affpcl`` also writes the tables
under ``results/``. Ours and a peer run in turn on one core, each with its best number of
replicates per call. "Correct" means: our kernel equals the reference algorithm on common samples to
1e-12, and the peer's mean squared error, from its own random numbers, is within five standard
errors of ours.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ratecheck as rc
from experiments.benchmarks._peers import PEERS, bench_step, bench_system
from experiments.benchmarks._probe import kernel_work, throughput
from experiments.benchmarks._timing import Duel, Peers, alone, duel, one_core, seconds
from linsys.algorithms import AffPCL, Independent, Sampling, Steps
from linsys.kernels import draw, simulate
from linsys.moments import exact_moments
from linsys.moments.halfvec import unpack
from linsys.rounds import rounds
from linsys.systems import FiniteSystem

__all__ = ["Measured", "measure", "run"]

SIZES = ((20, 5), (50, 20))
#: Enough rounds that what a call costs once is below a hundredth of it, for ours and for peers.
ROUNDS = {20: 400, 50: 240}
REPLICATES = 64
#: Two means from different random numbers agree within this many standard errors.
STANDARD_ERRORS = 5.0


@dataclass
class Measured:
    """The rows, and what belongs beside them in a table."""

    rows: list[rc.BenchRow] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def add(self, row: rc.BenchRow, **details: Any) -> None:
        """Add a row with its spread, and say it: a whole benchmark takes minutes."""
        print(f"{row.name}, {row.peer}: {row.ratio:.2f}", file=sys.stderr, flush=True)
        self.rows.append(row)
        self.details[f"{row.name} | {row.peer}"] = details


def run(quick: bool) -> list[rc.BenchRow]:
    """Every row; ``quick`` takes fewer repetitions, one size and a part of Figure 1."""
    return measure(quick).rows


def measure(quick: bool) -> Measured:
    """Every row with its spread."""
    measured = Measured()
    sizes = SIZES[:1] if quick else SIZES
    with one_core(), Peers() as peers:
        rates = throughput(5 if quick else 50)
        measured.details["machine, one core, per second"] = rates
        trials = 2 if quick else 10
        for n, d in sizes:
            _kernel(measured, peers, n, d, rates, budget=1.0 if quick else 6.0, trials=trials)
        _exact(measured, repeats=3 if quick else 15)
    if rc.cores() > 1:
        for n, d in sizes:
            _threads(measured, n, d, budget=1.0 if quick else 8.0)
    _figure(measured, quick)
    return measured


def _simulate(
    n: int, d: int, replicates: int, seed: int, *, threads: int = 1, longer: int = 1
) -> NDArray[np.float64]:
    """Mean squared errors at the end, (replicates,)."""
    end = simulate(
        bench_system(n, d),
        AffPCL(),
        steps=bench_step(d),
        times=[ROUNDS[n] * longer],
        replicates=replicates,
        seed=seed,
        threads=threads,
    )
    return end.mean_error[:, 0]


def _equals_reference(n: int, d: int) -> bool:
    """Whether the kernel equals the algorithm on common samples, relative to 1e-12."""
    system, algorithm, count, replicates = bench_system(n, d), AffPCL(), 25, 9
    samples = draw(system, rounds=count, replicates=replicates, seed=0)
    agents = Sampling(lambda t: system.observe(samples[t]), Steps.constant(bench_step(d)))
    start = algorithm.init(np.zeros((replicates, n, d)), agents)
    *_, (state, _) = rounds(algorithm, agents, start, count)
    truth = ((algorithm.personal(state) - system.x_star) ** 2).sum(-1)
    ours = simulate(
        system, algorithm, steps=bench_step(d), times=[count], replicates=replicates, seed=0
    ).error[:, 0]
    return bool(np.abs(ours - truth).max() <= 1e-12 * truth.max())


def _kernel(
    measured: Measured,
    peers: Peers,
    n: int,
    d: int,
    rates: dict[str, float],
    budget: float,
    trials: int,
) -> None:
    """One thread, per step and replicate, against every peer."""
    name, rounds = f"AffPCL kernel, n={n}, d={d}, per step and replicate", ROUNDS[n]
    exact = _equals_reference(n, d)
    ours_errors: list[float] = []
    unit = rounds * REPLICATES

    def ours() -> float:
        seed = len(ours_errors)
        return seconds(lambda: ours_errors.extend(_simulate(n, d, REPLICATES, seed).tolist()))

    ours()
    best = best_peer = np.inf
    for peer, (_, batches) in PEERS.items():
        if peer.startswith("JAX") and importlib.util.find_spec("jax") is None:
            print(f"{peer} is left out: install the extra `bench` for it", file=sys.stderr)
            continue
        shared = {"peer": peer, "n": n, "d": d, "rounds": rounds}
        trial = {
            batch: min(
                peers.ask(**shared, replicates=batch, seed=1)["seconds"] for _ in range(trials)
            )
            / batch
            for batch in batches
        }
        batch = min(trial, key=lambda b: trial[b])
        peer_errors: list[float] = []

        def theirs(shared: Any = shared, batch: int = batch, into: Any = peer_errors) -> float:
            reply = peers.ask(**shared, replicates=batch, seed=len(into) + 2)
            into.extend(reply["error"])
            # Seconds for as many replicates as ours.
            return float(reply["seconds"]) * REPLICATES / batch

        # The best peer gets the most pairs.
        times = duel(ours, theirs, budget * (3 if peer == "NumPy" else 1))
        score = _standard_errors(ours_errors, peer_errors)
        agree = exact and abs(score) <= STANDARD_ERRORS
        summary = times.summary(unit)
        best, best_peer = min(best, summary["ours_min_s"]), min(best_peer, summary["peer_min_s"])
        measured.add(
            _row(name, f"{peer} ({batch} replicates)", times, unit, agree),
            **summary,
            standard_errors_apart=score,
            kernel_equals_reference=exact,
        )
    work = kernel_work(n, d)
    bound = {key: work[key] / rates[key] for key in work}
    total = sum(bound.values())
    measured.details[f"n={n}, d={d}: share of the machine"] = {
        **{f"{key} per step": value for key, value in work.items()},
        **{f"seconds of {key} at peak": value for key, value in bound.items()},
        "seconds at peak": total,
        "seconds measured": best,
        "share of peak": total / best,
        "share of multiply-adds alone": bound["multiply-adds"] / best,
        "share of exponentials alone": bound["exponentials"] / best,
        "times faster than the best peer": best_peer / best,
        "times faster than the best peer, if all went at peak": best_peer / total,
        "times faster than the best peer, if only multiply-adds took time": best_peer
        / bound["multiply-adds"],
    }


def _row(name: str, peer: str, times: Duel, unit: float, correct: bool) -> rc.BenchRow:
    """The least of many times taken in turn: what else runs on a machine only ever adds."""
    return rc.BenchRow(name, peer, min(times.ours) / unit, min(times.peer) / unit, correct)


def _standard_errors(a: list[float], b: list[float]) -> float:
    """How far apart two means are, in standard errors of their difference."""
    x, y = np.array(a), np.array(b)
    spread = np.sqrt(x.var(ddof=1) / x.size + y.var(ddof=1) / y.size)
    return float((x.mean() - y.mean()) / spread)


def _threads(measured: Measured, n: int, d: int, budget: float) -> None:
    """Two threads against one, the same bits."""
    longer = 2  # blocks of replicates that take a few milliseconds each

    def with_threads(threads: int) -> NDArray[np.float64]:
        return _simulate(n, d, REPLICATES, 1, threads=threads, longer=longer)

    one, two = with_threads(1), with_threads(2)
    times = duel(
        lambda: seconds(lambda: with_threads(2)), lambda: seconds(lambda: with_threads(1)), budget
    )
    unit = REPLICATES * ROUNDS[n] * longer
    name = f"AffPCL kernel, n={n}, d={d}, two threads, per step and replicate"
    row = _row(name, "ours with one thread", times, unit, bool(np.array_equal(one, two)))
    measured.add(row, **times.summary(unit))


def _finite(n: int, types: int, d: int = 5, states: int = 6) -> FiniteSystem:
    """A system of ``types`` types of agents."""
    rng = np.random.default_rng(0)
    kind = np.arange(n) % types
    noise = rng.uniform(-1, 1, (2, states, d, d)) / d
    return FiniteSystem.from_objectives(
        A=np.eye(d) + noise[0],
        Phi=np.eye(d) + noise[1],
        theta=rng.standard_normal((types, d))[kind],
        mu=rng.dirichlet(np.full(states, 4.0), types)[kind],
    )


def _exact(measured: Measured, repeats: int) -> None:
    """E||x_t^i - x_*^i||^2 at t = 10^9 after set-up, and with 50 times as many agents."""
    t, alpha = 10**9, 2e-8  # halfway to stationarity, where every digit of I + X counts
    engine = exact_moments(_finite(4, 4), AffPCL(), agents=[0])
    recursion, start = engine.views[0].recursion, engine.views[0].start
    generator = recursion.generator(alpha)
    identity = np.eye(len(start))

    def naive() -> Any:
        return np.linalg.matrix_power(identity + generator, t) @ start

    size = recursion.size

    def moments(vector: Any) -> NDArray[np.float64]:
        return unpack(np.asarray(vector, dtype=np.float64)[None], size)[0, :-1, :-1]

    truth = moments(_extended(generator, start, t))

    def error(estimate: NDArray[np.float64]) -> float:
        return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))

    ours = error(recursion.at(start, np.array([t]), alpha)[0, :-1, :-1])
    loss = error(moments(naive()))
    times = duel(
        lambda: seconds(lambda: engine.at([t], alpha)), lambda: seconds(naive), 0.2 * repeats
    )
    measured.add(
        _row(
            "exact moments at t=10^9, d=5, one type",
            f"np.linalg.matrix_power (its relative error: {loss:.0e})",
            times,
            1,
            ours <= 1e-12,
        ),
        **times.summary(1),
        our_relative_error=ours,
        peer_relative_error=loss,
    )
    large, small = _finite(1000, 1), _finite(20, 1)
    many, few = exact_moments(large, AffPCL()), exact_moments(small, AffPCL())
    times = duel(
        lambda: seconds(lambda: many.at([t], alpha)),
        lambda: seconds(lambda: few.at([t], alpha)),
        0.2 * repeats,
    )
    # Independent learning does not know how many agents there are; AffPCL gains from more.
    alone = [exact_moments(s, Independent()).at([t], alpha).error[0, 0] for s in (large, small)]
    gain = few.at([t], alpha).error[0, 0] - many.at([t], alpha).error[0, 0]
    measured.add(
        _row(
            "exact moments at t=10^9, d=5, 1000 agents of one type",
            "ours with 20 agents",
            times,
            1,
            bool(abs(alone[0] / alone[1] - 1) <= 1e-12 and gain > 0),
        ),
        **times.summary(1),
    )


def _extended(generator: NDArray[np.float64], start: NDArray[np.float64], t: int) -> Any:
    """(I + X)^t start in the processor's extended precision, by (I + X)^2 - I = 2 X + X^2."""
    power, result = generator.astype(np.longdouble), start.astype(np.longdouble)
    while t:
        if t & 1:
            result = result + power @ result
        power = 2 * power + power @ power
        t >>= 1
    return result


def _figure(measured: Measured, quick: bool) -> None:
    """The whole command once compiled, against the reference algorithms on the same samples.

    If ``quick``, the reference runs on one of the figure's systems, and its time is multiplied.
    """
    from experiments.affpcl.figures import fig1

    profile = "quick" if quick else "paper"
    config = fig1.EXPERIMENT.profiles[profile]
    systems = [(level, k) for level in config.levels for k in range(config.instances)]
    timed = [(config.levels[-1], 0)] if quick else systems

    def command() -> tuple[float, dict[str, Any]]:
        with tempfile.TemporaryDirectory() as folder:
            call = [sys.executable, "-m", "ratecheck", "run", "affpcl/fig1", "--json"]
            done: Any = None

            def once() -> None:
                nonlocal done
                done = subprocess.run(
                    [*call, "--profile", profile, "--out", folder],
                    capture_output=True,
                    text=True,
                    check=False,
                    env=alone(),
                )

            spent = seconds(once)
            if not done.stdout:
                raise RuntimeError(f"affpcl/fig1 printed nothing: {done.stderr[-500:]}")
            return spent, json.loads(done.stdout)

    _, answer = command()  # compiles, fills the disk's cache
    spent = [command()[0] for _ in range(1 if quick else 5)]
    curve: Any = None

    def reference() -> None:
        nonlocal curve
        for level, k in timed:
            for label, algorithm in fig1.methods(config).items():
                mse = _reference(config, algorithm, k, level)
                if (level, k, label) == (config.levels[-1], 0, "AffPCL"):
                    curve = mse

    peer = seconds(reference) * len(systems) / len(timed)
    last = fig1.panel(config.levels[-1])
    answers = answer if isinstance(answer, list) else [answer]
    drawn = next(
        s["y"] for s in answers[0]["series"] if (s["name"], s["panel"]) == ("AffPCL", last)
    )
    row = rc.BenchRow(
        f"ratecheck run affpcl/fig1 --profile {profile}, whole command once compiled",
        "linsys.rounds on the same samples, computation alone"
        + (f", from one of {len(systems)} systems" if quick else ""),
        min(spent),
        peer,
        bool(np.allclose(drawn, curve, rtol=1e-10)),
    )
    measured.add(row, ours_min_s=min(spent), ours_median_s=float(np.median(spent)), peer_s=peer)


def _reference(config: Any, algorithm: Any, instance: int, level: float) -> NDArray[np.float64]:
    """Mean over runs and agents of the squared error at every round, (rounds + 1,)."""
    system = config.system(instance, level, level, config.n)
    samples = draw(
        system,
        rounds=config.rounds,
        replicates=config.replicates,
        seed=config.derive("samples", instance),
    )
    agents = Sampling(lambda t: system.observe(samples[t]), Steps.constant(config.alpha))
    start = algorithm.init(np.zeros((config.replicates, config.n, config.d)), agents)
    after = (state for state, _ in rounds(algorithm, agents, start, config.rounds))
    points = [algorithm.personal(state) for state in (start, *after)]
    errors = [((x - system.x_star) ** 2).sum(-1).mean() for x in points]
    return np.array(errors)


if __name__ == "__main__":
    from experiments.benchmarks._tables import write

    write("affpcl", measure("--quick" in sys.argv))
