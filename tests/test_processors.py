"""The tests pass whatever code the numerical libraries choose for a processor.

BLAS and MKL, oneDNN, NumPy's and torch's own loops and the C library have other code for every
generation of processors. What passes through them differs in its last bits from one processor to
another, so tests compare it to rounding. What our own kernels compute has the same bits.

A setting makes every library compute for a generation older than this processor's own, which all
other tests run with. Where this processor is no newer than that, it changes nothing, and what the
libraries say of themselves must agree with it.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests._processor import AVX2, SSE, elementary, generation, newer, report_of_a_process
from tests.linsys.test_kernels_cache import ENTRIES, ROOT, digests, in_new_process

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="names processors of this family"),
]

#: Tests of small arrays that are sensitive to last bits, a few seconds of each kind.
ARRAYS = (
    "tests/mgda/test_apart.py",
    "tests/mgda/test_federated.py",
    "tests/mgda/test_simplex_hard.py",
    "tests/mgda/test_simplex.py",
    "tests/linsys/test_algorithms_affpcl.py",
    "tests/linsys/test_preference_systems.py",
    "tests/linsys/test_regression.py",
    "tests/linsys/test_sketching_apart.py",
    "tests/linsys/test_systems.py",
    "tests/psharelora/test_pessimism.py::test_labels_are_shares_under_which_the_heads_are_optimal",
    "tests/fslora/test_sketches.py::test_devices_agree_with_the_float64_code",
)
TENSORS = (
    "tests/mgda/test_apart.py",
    "tests/mgda/test_simplex_hard.py::test_gradients_with_a_history",
    "tests/linsys/test_preference_sharelora_apart.py",
    "tests/linsys/test_sketching_apart.py",
    "tests/lora_bridge/test_bank.py",
    "tests/lora_bridge/test_bilevel.py::test_so_it_is_in_single_precision",
    "tests/lora_bridge/test_domains.py::test_a_reward_is_read_before_the_end_token",
    "tests/lora_bridge/test_firm.py::test_a_client_alone_draws_what_it_draws_with_others",
    "tests/lora_bridge/test_head.py",
    "tests/lora_bridge/test_oracles.py",
    "tests/lora_bridge/test_rewards.py::test_the_beginning_of_a_long_prompt_is_not_read",
    "tests/lora_bridge/test_rollouts.py::test_a_client_alone_samples_what_it_samples_among_others",
    "tests/lora_bridge/test_rollouts.py::test_grouping_changes_no_token",
    "tests/lora_bridge/test_rollouts.py::test_the_reference_is_the_base_model_bit_for_bit",
    "tests/lora_bridge/test_rollouts.py::test_what_is_sampled_is_what_is_scored",
)
TESTS = tuple(dict.fromkeys((*ARRAYS, *TENSORS)))


class Setting(NamedTuple):
    """How one library is made to compute for a generation of processors.

    Attributes:
        variable, value: of the environment.
        says: what the library then says of itself, as :func:`tests._processor.report` has it.
    """

    variable: str
    value: str
    says: Any


#: Every library's setting for a generation: the newest one whose code it uses.
SETTINGS = {
    SSE: {
        "BLAS": Setting("OPENBLAS_CORETYPE", "Nehalem", ["Nehalem"]),
        "NumPy": Setting("NPY_DISABLE_CPU_FEATURES", newer(SSE), SSE),
        "torch": Setting("ATEN_CPU_CAPABILITY", "default", "DEFAULT"),
        "oneDNN": Setting("ONEDNN_MAX_CPU_ISA", "SSE41", ["Intel SSE4.1"]),
        # Its other values are for Intel's processors only.
        "MKL": Setting("MKL_CBWR", "COMPATIBLE", ["COMPATIBLE"]),
    },
    AVX2: {
        "BLAS": Setting("OPENBLAS_CORETYPE", "Haswell", ["Haswell"]),
        "NumPy": Setting("NPY_DISABLE_CPU_FEATURES", newer(AVX2), AVX2),
        "torch": Setting("ATEN_CPU_CAPABILITY", "avx2", "AVX2"),
    },
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def run_tests(tests: Sequence[str], environment: dict[str, str]) -> None:
    """Tests in a process with these variables pass, and are there."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("wanted", SETTINGS, ids=["SSE", "AVX2"])
def test_tests_pass_with_code_for_older_processors(wanted: int) -> None:
    settings = SETTINGS[min(wanted, generation())]  # or the newest one that this processor can run
    environment = dict(os.environ)
    environment |= {setting.variable: setting.value for setting in settings.values()}
    says = report_of_a_process(environment)
    assert {name: says[name] for name in settings} == {
        name: setting.says for name, setting in settings.items()
    }
    run_tests(TESTS, environment)


def test_tests_pass_without_fused_multiply_adds_in_the_c_library() -> None:
    environment = {**os.environ, "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"}
    differs = report_of_a_process(environment)["C library"] != elementary()
    assert differs == (generation() > SSE and platform.libc_ver()[0] == "glibc")
    run_tests(ARRAYS, environment)


def test_tests_pass_with_two_threads() -> None:
    environment = {**os.environ, **dict.fromkeys(THREADS, "2")}
    # OpenBLAS takes no more than there are processors
    expected = [2] if len(os.sched_getaffinity(0)) > 1 else [1, 2]
    assert report_of_a_process(environment)["threads"] == expected
    run_tests(TESTS, environment)


def test_a_test_that_asks_for_bits_of_this_processor_fails(tmp_path: Path) -> None:
    here = np.tanh(np.linspace(-2.0, 2.0, 999)).tobytes()
    test = tmp_path / "test_bits.py"
    test.write_text(
        "import numpy as np\n\n\ndef test_bits():\n"
        f"    assert np.tanh(np.linspace(-2.0, 2.0, 999)).tobytes() == {here!r}\n"
    )
    run_tests([str(test)], dict(os.environ))
    older = {**os.environ, "NPY_DISABLE_CPU_FEATURES": newer(SSE)}
    if generation() > SSE:
        with pytest.raises(AssertionError, match="1 failed"):
            run_tests([str(test)], older)
    with pytest.raises(AssertionError, match="not found"):
        run_tests([f"{test}::test_of_another_name"], older)


#: Of the kernels' machine code: numba's names of a processor's features, and its widest registers.
TARGETS = {SSE: ("", "xmm"), AVX2: ("+avx2,+fma,+avx", "ymm")}


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_have_the_same_bits_on_older_processors(target: int, tmp_path: Path) -> None:
    """Without AVX-512, and without even fused multiply-adds in hardware."""
    features, widest = TARGETS[min(target, generation())]
    variables = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    assert report_of_a_process({**os.environ, **variables})["kernels"] == widest
    printed = in_new_process(ENTRIES, tmp_path, **variables)
    assert printed == dict(zip(ENTRIES, digests(ENTRIES), strict=True))


#: The kernels with two roundings where they have one, as a compiler of another mind might.
UNFUSED = """
import sys
from linsys.kernels import simd
call = simd._call
simd._call = lambda name, arity: (
    (lambda b, x, y, z: b.fadd(b.fmul(x, y), z)) if name == "fma" else call(name, arity)
)
from tests.linsys.test_kernels_cache import digests
print(*digests(sys.argv[1:]), sep="\\n")
"""


def test_other_roundings_in_the_kernels_are_noticed(tmp_path: Path) -> None:
    entries = ["draw Gaussian"]
    printed = in_new_process(entries, tmp_path, UNFUSED)
    assert printed != dict(zip(entries, digests(entries), strict=True))


def test_the_cache_tells_processors_apart(tmp_path: Path) -> None:
    """Machine code for one is never loaded for the other, nor written over."""
    entries = ["draw Gaussian"]

    def kept(**variables: str) -> int:
        in_new_process(entries, tmp_path, **variables)
        return len(list(tmp_path.rglob("*.nbc")))

    older = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}
    functions = kept()
    assert functions > 0
    assert kept(**older) == 2 * functions
    assert kept() == kept(**older) == 2 * functions
