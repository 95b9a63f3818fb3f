"""Run AWS's public examples unmodified, hold them against float64, and write docs/conformance.md.

    python tools/conformance.py CHECKOUT           # writes the page
    python tools/conformance.py CHECKOUT --check   # exits with 1 if something fell behind what is expected

CHECKOUT is a folder of aws-neuron/aws-neuron-sdk; the figures of the page are those of commit 81ce03ae. The scripts
need PyTorch and JAX: `make conformance` runs this in the environment that has them.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import trn3
from trn3 import dtypes, launch
from trn3.errors import Trn3Error

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance.md"
BF16, FP32 = dtypes.bfloat16, np.dtype(np.float32)

#: Scripts that cannot run anywhere, or that show a mistake on purpose: what they are expected to end with.
EXPECTED = {
    "nki/examples/layout-dynamic-loop.py": "SyntaxError: the published file does not parse",
    "nki/examples/layout-loop.py": "no main program; its kernel names a variable that does not exist",
    "nki/examples/layout-violation.py": "refused on its line: partition.count_max (256 partitions; that is its point)",
}


@dataclass
class Figure:
    """How far a kernel is from float64."""

    kernel: str
    inputs: str
    error: float
    limit: float
    time_us: float
    seen: str

    @property
    def ok(self) -> bool:
        """Whether it is as near as its formats allow."""
        return bool(self.error <= self.limit)


def module_of(path: pathlib.Path) -> ModuleType:
    """Import one file, with its neighbours in reach."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.exists():
        raise SystemExit(f"{path}: no such file; give a checkout of aws-neuron/aws-neuron-sdk")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    # Some set the target for themselves; all figures are of the default one.
    environment = dict(os.environ)
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
        os.environ.clear()
        os.environ.update(environment)
    return module


def relative(got: Any, want: np.ndarray[Any, Any]) -> float:
    """Relative L2 distance; infinite for another shape."""
    values = np.asarray(got).astype(np.float64)
    if values.shape != want.shape:
        return float("inf")
    return float(np.linalg.norm(values - want) / max(np.linalg.norm(want), 1e-300))


def figure(name: str, kernel: Callable[..., Any], arguments: list[Any], want: Any, limit: float) -> Figure:
    """Run a kernel on random inputs and hold it against float64."""
    run = trn3.run(kernel, *arguments)
    arrays = [item for item in arguments if isinstance(item, np.ndarray)]
    shapes = " ".join("x".join(map(str, array.shape)) for array in arrays)
    results = run.result if isinstance(run.result, tuple) else (run.result,)
    wants = want if isinstance(want, tuple) else (want,)
    error = max(relative(got, one) for got, one in zip(results, wants, strict=True))
    rules = ", ".join(sorted({found["rule"] for found in run.findings}))
    return Figure(name, f"{arrays[0].dtype} {shapes}", error, limit, run.report.total_s * 1e6, rules)


def elementwise(examples: pathlib.Path) -> Iterator[Figure]:
    """Run the kernels of the short examples."""
    rng = np.random.default_rng(0)
    addition = module_of(examples / "tensor_addition" / "tensor_addition_nki_kernels.py")
    pool = module_of(examples / "average_pool2d" / "average_pool2d_nki_kernels.py")
    transpose = module_of(examples / "transpose2d" / "transpose2d_nki_kernels.py")
    split = module_of(examples / "index-case-1.py")
    maximum = module_of(examples / "index-case-3.py")
    passing = module_of(examples / "layout-pass.py")
    for dtype, limit in ((FP32, 1e-6), (BF16, 4e-3)):
        a, b = (rng.standard_normal((256, 1024), np.float32).astype(dtype) for _ in range(2))
        yield figure("nki_tensor_add", addition.nki_tensor_add, [a, b], a.astype(float) + b.astype(float), limit)
        x = rng.standard_normal((128, 24, 24), np.float32).astype(dtype)
        windows = x.astype(float).reshape(128, 12, 2, 12, 2)
        yield figure("tensor_avgpool_kernel", pool.tensor_avgpool_kernel, [x, 2], windows.mean(axis=(2, 4)), limit)
        yield figure("tensor_maxpool_kernel_", maximum.tensor_maxpool_kernel_, [x, 2], windows.max(axis=(2, 4)), 0.0)
        rows = rng.standard_normal((128, 12 * 20), np.float32).astype(dtype)
        turned = rows.astype(float).reshape(128, 12, 20).transpose(0, 2, 1).reshape(128, -1)
        yield figure("tensor_transpose2D_kernel_", transpose.tensor_transpose2D_kernel_, [rows, (12, 20)], turned, 0.0)
        halves = rows[:, ::2].astype(float), rows[:, 1::2].astype(float)
        yield figure("tensor_split_kernel_", split.tensor_split_kernel_, [rows], halves, 0.0)
        square = rng.standard_normal((128, 512), np.float32).astype(dtype)
        yield figure("tensor_exp_kernel_", passing.tensor_exp_kernel_, [square], np.exp(square.astype(float)), limit)


def matmuls(examples: pathlib.Path) -> Iterator[Figure]:
    """Run the versions of the matrix multiplication tutorial at the sizes of its launcher."""
    module = module_of(examples / "matrix_multiplication" / "matrix_multiplication_nki_kernels.py")
    rng = np.random.default_rng(1)
    sizes = {"nki_matmul_basic_": (128, 64, 512)}
    for version in ("tiled_", "hoist_load_", "block_free_dimension_", "fully_optimized_"):
        sizes[f"nki_matmul_{version}"] = (1024, 4096, 2048)
    for dtype, limit in ((FP32, 1e-6), (BF16, 4e-3)):
        for name, (k, m, n) in sizes.items():
            lhs, rhs = (rng.standard_normal((k, size), np.float32).astype(dtype) for size in (m, n))
            yield figure(name, getattr(module, name), [lhs, rhs], lhs.astype(float).T @ rhs.astype(float), limit)


def mamba(examples: pathlib.Path) -> Iterator[Figure]:
    """Run the three versions of the fused Mamba tutorial."""
    module = module_of(examples / "fused_mamba" / "mamba_nki_kernels.py")
    rng = np.random.default_rng(2)
    batch, channels, states, length = 1, 256, 16, 512
    delta = rng.uniform(0.1, 1, (batch, channels, length)).astype(np.float32)
    u = rng.standard_normal((batch, channels, length), np.float32)
    a = -rng.uniform(0.5, 2, (channels, states)).astype(np.float32)
    b, c = (rng.standard_normal((batch, states, length), np.float32) for _ in range(2))
    state = np.zeros((batch, channels, states))
    want = np.empty((batch, channels, length))
    for t in range(length):
        decay = np.exp(delta[:, :, None, t].astype(float) * a)
        state = decay * state + (delta[..., t].astype(float) * u[..., t])[:, :, None] * b[:, None, :, t]
        want[..., t] = (state * c[:, None, :, t]).sum(axis=-1)
    for version in ("mamba_v1", "mamba_v2", "mamba_v3"):
        yield figure(version, getattr(module, version), [delta, u, a, b, c], want, 1e-5)


def microscaling(folder: pathlib.Path) -> Iterator[Figure]:
    """Run the eight checks of the microscaling deep dive against its own golden model."""
    module = module_of(folder / "mx_toplevel.py")
    module.device, module.cpu = sys.modules["torch_xla"].device(), None
    compared: list[float] = []
    module.compare_and_print_results = lambda got, golden, **_: compared.append(relative(got, golden.astype(float)))
    module.setup_compiler_workdir = lambda _: None
    e5m2, e2m1 = module.mld.float8_e5m2, module.mld.float4_e2m1fn
    checks: list[tuple[str, Callable[[], None], float]] = [
        ("offline quantised E5M2", lambda: module.run_offline_quantized_matmul_mx_test(e5m2), 4e-3),
        ("offline quantised E2M1", lambda: module.run_offline_quantized_matmul_mx_test(e2m1), 4e-3),
        ("on device E2M1 x E5M2", lambda: module.run_on_device_quantize_matmul_mx_test(e2m1, e5m2), 4e-3),
        ("on device E5M2 x E5M2", lambda: module.run_on_device_quantize_matmul_mx_test(e5m2, e5m2), 4e-3),
    ]
    for packed in (False, True):
        for copies in (True, False):
            name = f"strided by {'tensor_copy' if copies else 'DMA'}, scales {'packed' if packed else 'apart'}"
            call = lambda c=copies, p=packed: module.run_copy_strided_test(e5m2, use_tensor_copy=c, pack_scales=p)  # noqa: E731
            checks.append((name, call, 4e-3))
    np.random.seed(0)  # noqa: NPY002 - the deep dive draws from the global generator
    for name, call, limit in checks:
        runs: list[Any] = []
        with trn3.nki._kernel.observed(runs.append), contextlib.redirect_stdout(io.StringIO()):
            call()
        last = runs[-1]
        report = trn3.Report(last.program, last.table, last.turns)
        rules = ", ".join(sorted({found["rule"] for found in last.findings}))
        yield Figure(last.program.kernel, name, compared[-1], limit, report.total_s * 1e6, rules)


def script(checkout: pathlib.Path, path: pathlib.Path) -> tuple[str, bool]:
    """Run a script as its author would; how it ended, and whether that is as it should be."""
    name = str(path.relative_to(checkout))
    expected = EXPECTED.get(name)
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.chdir(path.parent):
        try:
            runs = launch.run_script(path)
        except SyntaxError:
            return expected or "SyntaxError", expected is not None
        except Trn3Error as error:
            rule = getattr(error, "rule", "")
            return expected or f"{rule}: {error}", expected is not None and rule == "partition.count_max"
    text = printed.getvalue()
    if expected is not None:
        return expected, not runs
    differs = "differ" in text or "pass? False" in text or "matches? False" in text
    said = "its own check passes" if any(w in text for w in ("match", "pass? True")) else "runs"
    return (
        "its own check fails" if differs else said
    ) + f"; {len(runs)} {'kernel call' if len(runs) == 1 else 'kernel calls'}", not differs


def page(figures: list[Figure], scripts: list[tuple[str, str, bool]]) -> str:
    """Return the page."""
    lines = [
        "# Conformance",
        "",
        "Made by `make conformance CHECKOUT=...` from AWS's public documentation repository",
        "(aws-neuron/aws-neuron-sdk, commit 81ce03ae), whose files run unmodified; nothing of them is part of ours.",
        "",
        "## Scripts",
        "",
        "Every Python file of `nki/examples` and the microscaling deep dive, run by `trn3 run`.",
        "",
        "| script | outcome |",
        "|---|---|",
    ]
    lines += [f"| `{name}` | {outcome}{'' if ok else ' **(unexpected)**'} |" for name, outcome, ok in scripts]
    lines += [
        "",
        "## Kernels against float64",
        "",
        "Relative L2 distance from the same computation in float64 on the same inputs (the microscaling checks: from",
        "the deep dive's own golden model; their kernels return BF16), and the emulated time on one Trainium3 core.",
        "",
        "| kernel | inputs | relative L2 | limit | time, us | findings |",
        "|---|---|---|---|---|---|",
    ]
    for f in figures:
        verdict = "" if f.ok else " **(too far)**"
        cells = [
            f"`{f.kernel}`",
            f.inputs,
            f"{f.error:.1e}{verdict}",
            f"{f.limit:.0e}",
            f"{f.time_us:.1f}",
            f.seen or "-",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run everything."""
    arguments = [item for item in sys.argv[1:] if item != "--check"]
    if len(arguments) != 1:
        raise SystemExit(__doc__)
    checkout = pathlib.Path(arguments[0]).resolve()
    examples, deep = checkout / "nki" / "examples", checkout / "nki" / "deep-dives" / "src" / "mxfp-matmul"
    scripts = []
    for path in sorted([*examples.rglob("*.py"), deep / "mx_toplevel.py"]):
        print(path.relative_to(checkout), file=sys.stderr)
        scripts.append((str(path.relative_to(checkout)), *script(checkout, path)))
    figures: list[Figure] = []
    with launch.stand_ins():
        for group in (elementwise(examples), matmuls(examples), mamba(examples), microscaling(deep)):
            for one in group:
                print(f"{one.kernel} {one.inputs}: {one.error:.1e}", file=sys.stderr)
                figures.append(one)
    if "--check" not in sys.argv:
        PAGE.write_text(page(figures, scripts))
    return 0 if all(one.ok for one in figures) and all(ok for _, _, ok in scripts) else 1


if __name__ == "__main__":
    sys.exit(main())
