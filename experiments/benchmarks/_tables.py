"""Write a benchmark's tables: what ran, when, with which versions, on which processor."""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import json
import os
import sys
from pathlib import Path
from typing import Any

import ratecheck as rc

__all__ = ["write"]

RESULTS = Path(__file__).parent / "results"
LIBRARIES = ("jax", "torch", "transformers", "peft", "torchjd", "quadprog", "clarabel", "cvxpy")


def write(name: str, measured: Any) -> None:
    """Write ``results/NAME.json`` and ``results/NAME.md``."""
    used = rc.versions() | _peers(measured)
    about = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": rc.machine(),
        "load": list(os.getloadavg()) if hasattr(os, "getloadavg") else [],
        "versions": used,
    }
    rows = [row.to_dict() for row in measured.rows]
    RESULTS.mkdir(exist_ok=True)
    everything = {**about, "rows": rows, "details": measured.details}
    (RESULTS / f"{name}.json").write_text(json.dumps(everything, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(_markdown(name, about, measured))


def _peers(measured: Any) -> dict[str, str]:
    """Versions of the libraries that ran beside ours: in this process, or in that of the peers."""
    ran = set(sys.modules)
    if any("jax" in row.peer.lower() for row in measured.rows):
        ran.add("jax")
    versions = {}
    for name in LIBRARIES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            if name in ran:
                versions[name] = importlib.metadata.version(name)
    return versions


def _markdown(name: str, about: dict[str, Any], measured: Any) -> str:
    lines = [
        f"# Benchmark `{name}`",
        "",
        f"{about['date']}, {about['machine']['cpu']}, {about['machine']['cores']} cores, "
        f"{about['machine']['system']}; "
        + ", ".join(f"{key} {value}" for key, value in about["versions"].items())
        + "; load of the machine over the last 1, 5 and 15 minutes at the end: "
        + ", ".join(f"{value:.2f}" for value in about["load"])
        + ".",
        "",
        f"Written by `python -m experiments.benchmarks.{name}`. Ours and a peer ran in turn;",
        "times are the least of many, since what else runs on a machine only ever adds. The spread",
        "is that of the ratio within a pair, its median and from 10 % to 90 % of the pairs.",
        "",
        "| what | peer | ours | peer's | times faster | within pairs | same result |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in measured.rows:
        detail = measured.details[f"{row.name} | {row.peer}"]
        spread = (
            f"{detail['ratio_median']:.2f} ({detail['ratio_p10']:.2f} to {detail['ratio_p90']:.2f})"
            if "ratio_p10" in detail
            else ""
        )
        lines.append(
            f"| {row.name} | {row.peer} | {_time(row.ours_s)} | {_time(row.peer_s)} "
            f"| {row.ratio:.2f} | {spread} | {'yes' if row.correct else 'NO'} |"
        )
    shown = {f"{row.name} | {row.peer}" for row in measured.rows}
    for title, values in measured.details.items():
        if title not in shown:
            lines += ["", f"## {title[0].upper()}{title[1:]}", ""]
            lines += [f"- {key}: {_plain(key, value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _plain(key: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if key.startswith("share"):
        return f"{100 * value:.0f} %"
    if key.startswith("seconds"):
        return _time(value)
    return f"{value:.4g}"
