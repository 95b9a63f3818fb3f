"""Signals and threads while a Program runs."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

SCRIPT = """
import sys, time
import numpy as np
from trn3 import nki
from trn3.nki import isa as nisa, language as nl

@nki.jit
def kernel(x, count):
    tile = nl.ndarray((128, 4096), nl.float32)
    nisa.memset(tile, 1.0)
    for _ in range(count):
        nisa.activation(tile, nl.tanh, tile)
    out = nl.ndarray((128, 4096), nl.float32, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out

x = np.zeros((1, 1), np.float32)
"""


def ticks(pid):
    """Processor time that a process has used."""
    return sum(int(n) for n in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13])


def start(body):
    code = SCRIPT + textwrap.dedent(body)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ})


@pytest.mark.parametrize("eager", [False, True])
def test_ctrl_c_stops_a_run_and_the_next_one_works(eager):
    process = start(f"""
        made = kernel.with_options(eager={eager})
        nki.record(kernel, x, 20000)
        print("ready", flush=True)
        try:
            made(x, 20000)
            print("finished", flush=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        print(made(x, 2)[0, 0] == np.float32(np.tanh(np.float32(np.tanh(1.0)))), flush=True)
    """)
    try:
        assert process.stdout.readline() == "ready\n"
        # The run starts after the line above; wait until it does by the processor time that it takes.
        first = ticks(process.pid)
        while ticks(process.pid) < first + 60:
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        assert process.stdout.readline() == "interrupted\n"
        assert time.monotonic() - sent < 1.5
        assert process.stdout.readline() in ("True\n", "False\n")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def test_two_threads_run_one_kernel():
    process = start("""
        import threading
        want = kernel(x, 40)
        results = []
        def work():
            for _ in range(3):
                results.append(np.array_equal(kernel(x, 40), want))
        threads = [threading.Thread(target=work) for _ in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        print(results == [True] * 9, flush=True)
    """)
    try:
        output, _ = process.communicate(timeout=6)
        assert output == "True\n"
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
