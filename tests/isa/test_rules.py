"""Each rule: a case at its limit, which runs, and one past it, which is refused on the user's line."""

import inspect
import linecache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import rule_cases
import rule_cases_accumulators
import rule_cases_dma
import rule_cases_gpsimd
import rule_cases_vector
import rule_tiles
from rule_cases import CASES as GENERAL_CASES
from rule_cases_accumulators import ACCUMULATOR_CASES
from rule_cases_dma import DMA_CASES
from rule_cases_gpsimd import GPSIMD_CASES
from rule_cases_vector import VECTOR_CASES
from rule_tiles import X

from trn3 import _native, errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

CASES = [*GENERAL_CASES, *VECTOR_CASES, *ACCUMULATOR_CASES, *GPSIMD_CASES, *DMA_CASES]
MODULES = (rule_cases, rule_cases_accumulators, rule_cases_dma, rule_cases_gpsimd, rule_cases_vector, rule_tiles)
FILES = [module.__file__ for module in MODULES]

ELSEWHERE = {
    "local_gather.bounds": "test_search_and_statistics.py",
    "nc_n_gather.bounds": "test_search_and_statistics.py",
    "tensor.reshape_partitions": "../nki/test_functions.py",
    "tensor.assignment": "../nki/test_functions.py",
    "loop.no_reorder": "../nki/test_functions.py",
    "language.broadcast": "../nki/test_functions.py",
    "language.operator": "../nki/test_functions.py",
    "argument.ufunc": "../nki/test_functions.py",
    "operand.simulator_only": "../nki/test_functions.py",
    "kernel.cores": "../nki/test_cores.py",
    "sendrecv.size": "../nki/test_cores.py",
    "sendrecv.tiles": "../nki/test_cores.py",
    "sendrecv.rank": "../nki/test_cores.py",
    "core_barrier.data": "../nki/test_cores.py",
    "core_barrier.cores": "../nki/test_cores.py",
    "cores.logical": "../nki/test_cores.py",
    "cores.race": "../nki/test_cores.py",
    "uninitialized.sent": "../nki/test_cores.py",
    "cores.control_flow": "../nki/test_cores.py",
    "cores.value": "../nki/test_cores.py",
    "tensor.scalar_offset_bounds": "../nki/test_loops.py",
    "tensor.scalar_offset": "../nki/test_loops.py",
    "register.unwritten": "../nki/test_loops.py",
    "uninitialized.register": "../nki/test_loops.py",
    "loop.value": "../nki/test_loops.py",
    "loop.unclosed": "../nki/test_loops.py",
    "loop.tensor_scope": "../nki/test_loops.py",
    "loop.bound": "../nki/test_loops.py",
    "loop.condition": "../nki/test_loops.py",
    "loop.depth": "../nki/test_loops.py",
    "loop.endless": "../nki/test_loops.py",
    "loop.step": "../nki/test_loops.py",
    "register.value": "../nki/test_loops.py",
    "register.frozen": "../nki/test_loops.py",
    "register.element": "../nki/test_loops.py",
    "matmul.transpose_identity": "test_nc_transpose.py",
    "dma.index_bounds": "test_dma_copy.py",
    "dma_compute.duplicates": "test_dma_compute.py",
    "operand.free_dims_max": "a view has at most 5 dimensions: tensor.view",
    "argument.unimplemented": "no instruction has such an argument",
    "output.unwritten": "below",
    "uninitialized.output": "below",
    "program.specialised": "../program/test_specialised.py",
    "program.target": "../system/test_chip.py",
    "program.input": "../system/test_chip.py",
    "options.checks": "../nki/test_kernel.py",
    "options.uninitialized": "../program/test_uninitialized.py",
    "options.seed": "../nki/test_kernel.py",
    "uninitialized.read": "../program/test_uninitialized.py",
    "kernel.scope": "below",
    "kernel.argument": "../nki/test_kernel.py",
    "kernel.grid": "../nki/test_kernel.py",
    "kernel.input_writable": "../nki/test_kernel.py",
    "kernel.output_space": "below",
    "kernel.output_view": "../nki/test_kernel.py",
    "options.nki_version": "../nki/test_kernel.py",
    "options.overrides": "../spec/test_overrides.py",
    "program.overrides": "../spec/test_overrides.py",
    "tensor.address_overwrites": "../nki/test_addresses.py",
    "tensor.dtype_generation": "test_generations.py",
    "matmul.double_row_generation": "test_generations.py",
    "activation.bias": "test_generations.py",
    "tensor_copy.scalar_engine": "test_generations.py",
    "tensor_scalar.scalar_engine_generation": "test_generations.py",
    "operand.operator_generation": "test_generations.py",
    "dma.priority_generation": "test_generations.py",
    "cores.generation": "test_generations.py",
    "nonzero_with_count.generation": "test_generations.py",
    "sendrecv.direct_generation": "test_generations.py",
    "dma.hwdge_generation": "test_generations.py",
    "dma.indirect_generation": "test_generations.py",
    "exponential.generation": "test_generations.py",
    "range_select.generation": "test_generations.py",
    "select_reduce.generation": "test_generations.py",
}


def recorded(statement, **options):
    def kernel(x):
        statement()
        return x

    simulated = nki.simulate(kernel, **options)
    simulated(X)
    return simulated


def ids():
    return [f"{item.rule}-{number}" for number, item in enumerate(CASES)]


@pytest.mark.parametrize("item", CASES, ids=ids())
def test_at_the_limit(item):
    simulated = recorded(item.at, **(item.options if item.at_options is None else item.at_options))
    assert [f for f in simulated.findings if f["rule"] == item.rule] == []


@pytest.mark.parametrize("item", CASES, ids=ids())
def test_past_the_limit(item):
    if item.level == "documented":
        simulated = recorded(item.past, **item.options)
        finding = next(f for f in simulated.findings if f["rule"] == item.rule)
        assert finding["file"] in FILES
        assert finding["operand"] == item.operand
        line = linecache.getline(finding["file"], finding["line"])
        assert "nisa." in line or "nl." in line
        assert finding["message"] and finding["fix"] and finding["value"] and finding["limit"]
        levels = ["documented", "hardware"]
    else:
        levels = ["lenient", "documented", "hardware"]
    for level in levels:
        with pytest.raises(errors.Trn3Error) as caught:
            recorded(item.past, **item.options, checks=level)
        error = caught.value
        if level == "hardware" and item.sooner:
            assert error.rule == item.sooner
            continue
        assert type(error) is item.error
        assert error.rule == item.rule
        assert error.operand == item.operand
        assert error.value
        assert error.limit
        assert error.fix
        assert f"[{item.rule}]" in str(error)
        assert error.instruction, "an instruction or a method is named"
        if item.instruction:
            assert error.instruction == item.instruction
        if item.where:
            file, _, line = error.where.rpartition(":")
            assert file in FILES
            assert linecache.getline(file, int(line)).strip()


def test_the_line_is_that_of_the_call():
    def kernel(x):
        tile = nl.load(x)
        nisa.memset(tile, 0.0)
        nisa.memset(tile, "a")
        return x

    line = inspect.getsourcelines(kernel)[1] + 3
    with pytest.raises(errors.RuleError) as caught:
        nki.simulate(kernel)(X)
    assert caught.value.where == f"{__file__}:{line}"


def test_every_rule_has_a_case():
    rules = {rule["id"] for rule in _native.shared_rules()}
    for instruction in _native.instruction_table():
        rules |= {rule["id"] for rule in instruction["rules"]}
    missing = rules - {item.rule for item in CASES} - set(ELSEWHERE)
    assert missing == set()


def test_every_rule_id_of_the_sources_has_a_case():
    """Ids that the recorder and the views use without a place in the table."""
    import re

    root = Path(__file__).parents[2]
    sources = [
        p
        for d in ("rust/mem/src", "rust/program/src", "rust/py/src", "python/trn3/nki")
        for p in (root / d).rglob("*")
        if p.suffix in (".rs", ".py")
    ]
    found = set()
    for path in sources:
        text = path.read_text()
        found |= set(re.findall(r'Violation::new\(\s*"([a-z_.]+\.[a-z_.]+)"', text))
        found |= set(re.findall(r'\brule="([a-z_.]+\.[a-z_.]+)"', text))
        found |= set(re.findall(r'"(capacity\.[a-z]+)"', text))
    assert found
    assert found - {item.rule for item in CASES} - set(ELSEWHERE) == set()


# Unwritten data ------------------------------------------------------------------------------------------------------


def half_written(x):
    tile = nl.ndarray((4, 4), nl.float32)
    nisa.memset(tile[:, 0:2], 1.0)
    out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out, tile)
    return out


def never_written(x):
    out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(out[0:2], x[0:2, 0:4])
    return out


@pytest.mark.parametrize("eager", [False, True])
def test_unwritten_data_that_reaches_an_output(eager):
    simulated = nki.simulate(half_written, eager=eager)
    for _ in range(2):
        np.testing.assert_array_equal(simulated(X), [[1, 1, np.nan, np.nan]] * 4)
        (finding,) = simulated.findings
        assert finding["rule"] == "uninitialized.output"
        assert "dma_copy(out, tile)" in linecache.getline(finding["file"], finding["line"])
    for checks in ("documented", "hardware"):
        with pytest.raises(errors.UninitializedReadError) as caught:
            nki.simulate(half_written, eager=eager, checks=checks)(X)
        assert caught.value.rule == "uninitialized.output"
        assert caught.value.where.startswith(__file__)


@pytest.mark.parametrize("eager", [False, True])
def test_an_output_that_is_never_written(eager):
    simulated = nki.simulate(never_written, eager=eager)
    for _ in range(2):
        np.testing.assert_array_equal(simulated(X), [[1] * 4] * 2 + [[np.nan] * 4] * 2)
        assert [f["rule"] for f in simulated.findings] == ["output.unwritten"]
    with pytest.raises(errors.UninitializedReadError) as caught:
        nki.simulate(never_written, eager=eager, checks="documented")(X)
    assert caught.value.rule == "output.unwritten"
    assert caught.value.where.startswith(__file__)


def test_unwritten_integers_are_zero_and_a_finding():
    def kernel(x):
        tile = nl.ndarray((4, 4), nl.int32)
        nisa.memset(tile[:, 0:2], 1)
        out = nl.ndarray((4, 4), nl.int32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, tile)
        return out

    simulated = nki.simulate(kernel)
    np.testing.assert_array_equal(simulated(X), [[1, 1, 0, 0]] * 4)
    assert [f["rule"] for f in simulated.findings] == ["uninitialized.output"]


def test_unwritten_data_that_is_thrown_away_is_no_finding():
    def kernel(x):
        tile, other = nl.ndarray((4, 4), nl.float32), nl.ndarray((4, 4), nl.float32)
        nisa.tensor_copy(other, tile)
        nisa.memset(other, 1.0)
        out = nl.ndarray((4, 4), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, other)
        return out

    simulated = nki.simulate(kernel, checks="documented")
    np.testing.assert_array_equal(simulated(X), np.ones((4, 4)))
    assert simulated.findings == []


def test_a_tile_that_takes_over_an_address_is_as_unwritten_as_a_fresh_one():
    def kernel(x):
        for _ in range(64):
            tile = nl.ndarray((128, 16), nl.float32)
            nisa.dma_copy(tile, x)
        fresh = nl.ndarray((128, 16), nl.float32)
        out = nl.ndarray((128, 16), nl.float32, buffer=nl.shared_hbm)
        nisa.dma_copy(out, fresh)
        return out

    assert np.isnan(nki.simulate(kernel)(X)).all()


# Scope ---------------------------------------------------------------------------------------------------------------


def leaked():
    kept = []

    def kernel(x):
        kept.append(nl.load(x))
        return x

    nki.simulate(kernel)(X)
    return kept[0]


def test_calls_outside_of_a_kernel():
    for call in (lambda: nl.ndarray((4, 4), nl.float32), lambda: nl.program_id(), lambda: nl.shared_constant(X)):
        with pytest.raises(errors.RuleError, match=r"kernel\.scope"):
            call()
    with pytest.raises(errors.RuleError) as caught:
        nisa.memset(leaked(), 0.0)
    assert caught.value.rule == "kernel.scope"
    assert caught.value.where.startswith(__file__)


def test_tensors_of_another_kernel_are_refused():
    old = leaked()

    def kernels():
        def reads(x):
            nisa.tensor_copy(nl.load(x), old)
            return x

        def writes(x):
            nisa.tensor_copy(old, nl.load(x))
            return x

        def returns(x):
            return old.reshape((128, 16))

        def indexes(x):
            nisa.dma_copy(nl.load(x), x.ap([[16, 128], [1, 16]], vector_offset=old))
            return x

        def scales(x):
            nisa.tensor_scalar(nl.load(x), nl.load(x), nl.add, old[:, 0:1])
            return x

        return reads, writes, returns, indexes, scales

    for kernel in kernels():
        with pytest.raises(errors.RuleError) as caught:
            nki.simulate(kernel)(X)
        assert caught.value.rule in ("kernel.scope", "kernel.output_space"), kernel
    assert repr(old)


def test_on_chip_results_are_refused():
    for buffer in (nl.sbuf, nl.psum):

        def kernel(x):
            tile = nl.ndarray((4, 4), nl.float32, buffer=buffer)
            nisa.memset(tile, 0.0)
            return tile

        with pytest.raises(errors.RuleError, match=r"kernel\.output_space"):
            nki.simulate(kernel)(X)


def test_psum_over_capacity_with_live_tiles():
    def kernel(x, count):
        tiles = [nl.ndarray((128, 512), nl.float32, buffer=nl.psum) for _ in range(count)]
        for tile in tiles:
            nisa.memset(tile, 0.0)
        for tile in tiles:
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        return x

    nki.simulate(kernel)(X, 8)
    with pytest.raises(errors.CapacityError) as caught:
        nki.simulate(kernel)(X, 9)
    assert caught.value.rule == "capacity.psum"
    assert "16384" in caught.value.limit
    file, _, line = caught.value.where.rpartition(":")
    assert file == __file__
    assert "psum" in linecache.getline(file, int(line))


def test_sbuf_over_capacity_with_live_tiles_spills_or_says_so():
    def kernel(x, count):
        tiles = [nl.ndarray((128, 16384), nl.float32) for _ in range(count)]
        for tile in tiles:
            nisa.memset(tile, 0.0)
        for tile in tiles:
            nisa.tensor_scalar(tile, tile, nl.add, 1.0)
        return x

    nki.simulate(kernel)(X, 2)
    nki.simulate(kernel)(X, 5)
    nki.simulate(kernel, spill="error")(X, 2)
    with pytest.raises(errors.CapacityError, match=r"capacity\.sbuf"):
        nki.simulate(kernel, spill="error")(X, 5)


def test_checks_must_be_a_level():
    with pytest.raises((ValueError, errors.RuleError)):
        nki.simulate(half_written, checks="strict")(X)


def test_ml_dtypes_and_names_are_data_types():
    def kernel(x):
        for dtype in ("bfloat16", ml_dtypes.bfloat16, np.float16, np.dtype("float32"), "int8"):
            nl.ndarray((4, 4), dtype)
        return x

    nki.simulate(kernel)(X)
    for bad in (np.float64, "float64", np.int64, object, "nonsense", None, 3):
        with pytest.raises((TypeError, ValueError, KeyError)):
            nki.simulate(lambda x: (nl.ndarray((4, 4), bad), x)[1])(X)
