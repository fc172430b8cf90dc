"""What the numerical libraries say of the processor that they compute for: ``python -m``."""

from __future__ import annotations

import hashlib
import json
import math
import re
import subprocess
import sys
from typing import Any

import numba
import numpy as np
import scipy.linalg  # noqa: F401  (it has a BLAS of its own)
import torch
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
from threadpoolctl import threadpool_info

from linsys.kernels.lanes_math import exp2
from linsys.kernels.simd import LANES, load, store

#: Generations: without fused multiply-adds; AVX2 with them; AVX-512.
SSE, AVX2, AVX512 = 2, 3, 4


def generation() -> int:
    """The one whose code NumPy uses: by groups of features, which older versions do not name."""
    has = __cpu_features__
    if has.get("X86_V4", has["AVX512_SKX"]):
        return AVX512
    return AVX2 if has.get("X86_V3", has["AVX2"] and has["FMA3"]) else SSE


def newer(than: int) -> str:
    """NumPy's names of what it uses of this processor beyond a generation."""
    used = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    if than == AVX2:
        used = [name for name in used if name.startswith("AVX512") or name == "X86_V4"]
    return " ".join(used)


def elementary() -> str:
    """A digest of functions of the C library, of enough numbers for a last bit to differ."""
    numbers = np.random.default_rng(0).uniform(-20.0, 20.0, 20_000).tolist()
    functions = [(math.sin(v), math.exp(v), math.pow(abs(v), 1.7)) for v in numbers]
    return hashlib.sha256(np.array(functions).tobytes()).hexdigest()


@numba.njit  # type: ignore[untyped-decorator]
def _power(address: int) -> None:
    store(address, 0, exp2(load(address, 0)))


def registers() -> str:
    """The widest vector registers that a function of the kernels uses: xmm, ymm or zmm."""
    x = np.linspace(-3.0, 3.0, LANES)
    _power(x.ctypes.data)
    (assembly,) = _power.inspect_asm().values()
    return max(re.findall(r"%([xyz]mm)", assembly))


def report() -> dict[str, Any]:
    """What the libraries of this process say; MKL and oneDNN print theirs when asked to."""
    torch.ones(2, 3).to_mkldnn()
    torch.ones(32, 32) @ torch.ones(32, 32)
    pools = threadpool_info()
    return {
        "BLAS": sorted({pool["architecture"] for pool in pools if pool["user_api"] == "blas"}),
        "NumPy": generation(),
        "C library": elementary(),
        "torch": torch.backends.cpu.get_cpu_capability(),
        "threads": sorted({torch.get_num_threads(), *(pool["num_threads"] for pool in pools)}),
        "kernels": registers(),
    }


def report_of_a_process(environment: dict[str, str]) -> dict[str, Any]:
    """The same of a process with these variables, with what MKL and oneDNN print."""
    done = subprocess.run(
        [sys.executable, "-m", "tests._processor"],
        env={**environment, "MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    details: dict[str, Any] = json.loads(printed.splitlines()[-1])
    details["MKL"] = sorted(set(re.findall(r"CNR:(\w+)", printed)))
    details["oneDNN"] = re.findall(r"info,cpu,isa:(.*)", printed)
    return details


if __name__ == "__main__":
    print(f"\n{json.dumps(report())}")
