"""Run kernels of a checkout of aws-neuron/aws-neuron-sdk unmodified, and hold them against NumPy.

    python tools/aws_examples.py CHECKOUT

CHECKOUT is a folder of that repository (the public commit 81ce03ae was used). Every kernel of
``nki/examples/tensor_addition`` and ``nki/examples/matrix_multiplication`` runs in FP32 and BF16; exit code 1 if one
differs from NumPy by more than the rounding of its result.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import trn3
from trn3 import nki

MATMULS = {
    "nki_matmul_basic_": (128, 64, 512),
    "nki_matmul_tiled_": (1024, 4096, 2048),
    "nki_matmul_hoist_load_": (1024, 4096, 2048),
    "nki_matmul_block_free_dimension_": (1024, 4096, 2048),
    "nki_matmul_fully_optimized_": (1024, 4096, 2048),
}
"""Contraction, rows and columns of each kernel's result: the sizes of the launchers beside them."""


def load(path: pathlib.Path) -> ModuleType:
    """Import one file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise SystemExit(f"{path}: no such file; give a checkout of aws-neuron/aws-neuron-sdk")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def judge(name: str, kernel: Callable[..., Any], arrays: list[Any], expected: Any, limit: float) -> bool:
    """Run a kernel, print its error and time, and say whether it is within the limit."""
    run = trn3.run(kernel, *arrays)
    got = np.asarray(run.result).astype(np.float64)
    error = float(np.linalg.norm(got - expected) / np.linalg.norm(expected))
    ok = got.shape == expected.shape and error <= limit
    verdict = "ok" if ok else f"WRONG, limit {limit:.0e}"
    print(f"{name:<34} {arrays[0].dtype!s:<9} {error:9.1e}  {run.report.total_s * 1e6:10.1f} us  {verdict}")
    return ok


def main() -> int:
    """Run them all."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    examples = pathlib.Path(sys.argv[1]) / "nki" / "examples"
    nki.activate(force=True)
    addition = load(examples / "tensor_addition" / "tensor_addition_nki_kernels.py")
    matmul = load(examples / "matrix_multiplication" / "matrix_multiplication_nki_kernels.py")
    rng = np.random.default_rng(0)
    passed = []
    print(f"{'kernel':<34} {'dtype':<9} {'rel. L2':>9}  {'emulated time':>13}")
    for dtype, limit in ((np.dtype(np.float32), 1e-6), (trn3.dtypes.bfloat16, 3e-3)):
        a, b = (rng.standard_normal((256, 1024), np.float32).astype(dtype) for _ in range(2))
        exact = a.astype(np.float64) + b.astype(np.float64)
        passed.append(judge("nki_tensor_add", addition.nki_tensor_add, [a, b], exact, limit))
        for name, (k, m, n) in MATMULS.items():
            lhs_t, rhs = (rng.standard_normal((k, size), np.float32).astype(dtype) for size in (m, n))
            exact = lhs_t.astype(np.float64).T @ rhs.astype(np.float64)
            passed.append(judge(name, getattr(matmul, name), [lhs_t, rhs], exact, limit))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
