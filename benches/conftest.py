"""Shared by the benchmarks: interleaved timing, so that both sides of a ratio see the same machine."""

import os
import statistics
import time

import pytest


def pytest_configure(config):
    if config.getoption("--benchmark-enable", default=False):
        pinned = [name for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if name in os.environ]
        if pinned:
            raise pytest.UsageError(f"unset {', '.join(pinned)}: they pin a slow OpenBLAS kernel, the yardstick")


@pytest.fixture
def ratio(benchmark, request):
    """Time two functions in turn: ``ratio(ours, yardstick)`` gives yardstick seconds / our seconds (medians)."""

    def measure(ours, yardstick, work, unit, rounds=9):
        ours(), yardstick()
        if not request.config.getoption("--benchmark-enable"):
            benchmark.pedantic(ours, rounds=1)
            return None
        seconds = {"ours": [], "yardstick": []}
        for _ in range(rounds):
            for name, function in (("ours", ours), ("yardstick", yardstick)):
                start = time.perf_counter()
                function()
                seconds[name].append(time.perf_counter() - start)
        mine, theirs = (statistics.median(seconds[name]) for name in ("ours", "yardstick"))
        benchmark.extra_info.update(
            {"unit": unit, "ours": work / mine, "yardstick": work / theirs, "ratio": theirs / mine, "rounds": rounds}
        )
        benchmark.pedantic(ours, rounds=3)
        figures = f"{work / mine:.4g} {unit}, yardstick {work / theirs:.4g}, ratio {theirs / mine:.2f}"
        print(f"\n{request.node.name}: {figures}")
        return theirs / mine

    return measure
