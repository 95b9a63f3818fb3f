"""The data types that we register with NumPy: the contract of kernels.md 3.4, and life in a process."""

import copy
import gc
import importlib
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from trn3 import _native, dtypes

WORDS = [dtypes.float8_e4m3fn_x4, dtypes.float8_e5m2_x4, dtypes.float4_e2m1fn_x4]
ALL = [*WORDS, dtypes.tfloat32]


def some(dtype, shape=(2, 3)):
    """An array of words (or numbers) that all differ."""
    pattern = np.arange(1, 1 + int(np.prod(shape)), dtype=f"u{dtype.itemsize}")
    if dtype == dtypes.tfloat32:
        pattern <<= 20
    return pattern.reshape(shape).view(dtype)


@pytest.mark.parametrize(
    ("dtype", "name", "size"),
    [
        (dtypes.float8_e4m3fn_x4, "float8_e4m3fn_x4", 4),
        (dtypes.float8_e5m2_x4, "float8_e5m2_x4", 4),
        (dtypes.float4_e2m1fn_x4, "float4_e2m1fn_x4", 2),
        (dtypes.tfloat32, "tfloat32", 4),
    ],
)
def test_a_dtype_is_its_name_and_size(dtype, name, size):
    assert isinstance(dtype, np.dtype)
    assert (str(dtype), dtype.name, dtype.itemsize, dtype.alignment) == (name, name, size, size)
    assert np.dtype(dtype) is dtype
    assert np.dtype(dtype.type) is dtype
    assert dtype == dtype.type
    assert [dtype == other for other in ALL].count(True) == 1
    assert dtype not in (np.dtype(f"u{size}"), np.dtype(f"V{size}"), np.dtype(np.float32))
    assert {dtype: 1}[np.dtype(dtype.type)] == 1


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_arrays_behave(dtype):
    assert not np.zeros((4, 5), dtype).tobytes().strip(b"\0")
    assert np.empty((4, 5), dtype).shape == (4, 5)
    array = some(dtype)
    carrier = f"u{dtype.itemsize}"
    assert array.view(carrier).tobytes() == array.tobytes()
    assert array.view(np.uint8).shape == (2, 3 * dtype.itemsize)
    assert array.view(np.uint16).nbytes == array.nbytes
    assert (array[:, ::-1].view(carrier) == array.view(carrier)[:, ::-1]).all()
    assert (array.T.copy().view(carrier) == array.view(carrier).T).all()
    assert (array.reshape(-1)[2:4].copy().view(carrier) == array.view(carrier).reshape(-1)[2:4]).all()
    assert np.concatenate([array, array]).dtype is dtype
    assert np.stack([array, array])[1, 1, 2] == array[1, 2]
    assert np.array_equal(np.ascontiguousarray(array.T), array.T)
    assert (array == array.copy()).all()
    assert not (array != array).any()
    assert not (array == array[:, ::-1])[:, 0].any()
    assert np.array_equal(np.sort(array.reshape(-1)[::-1]), array.reshape(-1))
    assert np.count_nonzero(np.zeros(3, dtype)) == 0
    target = np.zeros_like(array)
    target[1] = array[0]
    assert target[1, 2] == array[0, 2]
    assert np.array_equal(np.full(3, array[0, 0], dtype), np.repeat(array[0, :1], 3))
    assert (array.byteswap().byteswap() == array).all()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_arrays_and_types_survive_pickle_and_copy(dtype):
    array = some(dtype)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert np.array_equal(pickle.loads(pickle.dumps(array, protocol)), array)
        assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype
        assert pickle.loads(pickle.dumps(array[0, 1], protocol)) == array[0, 1]
    assert np.array_equal(copy.deepcopy(array), array)
    assert copy.copy(dtype) == dtype


@pytest.mark.parametrize("dtype", WORDS, ids=str)
@pytest.mark.parametrize("other", [np.float32, np.float16, np.int32, dtypes.bfloat16, bool], ids=str)
def test_words_convert_to_nothing(dtype, other):
    with pytest.raises(TypeError):
        some(dtype).astype(other)
    with pytest.raises(TypeError):
        np.ones(3, other).astype(dtype)
    assert not np.can_cast(dtype, other, "unsafe")


def test_words_convert_to_no_other_word():
    for dtype in ALL:
        for other in ALL:
            if other != dtype:
                with pytest.raises(TypeError):
                    some(dtype).astype(other)


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_words_have_no_arithmetic(dtype):
    with pytest.raises(TypeError):
        some(dtype) + some(dtype)
    with pytest.raises(TypeError):
        float(some(dtype)[0, 0])


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_a_word_shows_its_bits(dtype):
    word = some(dtype)[0, 1]
    digits = "0x" + "2".rjust(2 * dtype.itemsize, "0")
    assert (str(word), repr(word)) == (digits, f"{dtype}({digits})")
    assert f"{dtype}({digits})" in repr(some(dtype))
    assert (int(word), hash(word), word) == (2, hash(2), dtype.type(2))
    assert word.dtype is dtype
    with pytest.raises(OverflowError):
        dtype.type(1 << 8 * dtype.itemsize)
    with pytest.raises(TypeError):
        dtype.type(1.5)


def test_tfloat32_is_a_number():
    third = np.float32(1 / 3)
    array = np.array([third, np.nan, -np.inf, 1e-45, 3.4028235e38], np.float32).astype(dtypes.tfloat32)
    assert array.view(np.uint32).tolist() == [0x3EAAA000, 0x7FC00000, 0xFF800000, 0, 0x7F800000]
    assert array.astype(np.float32)[0] == np.float32(0.33325195)
    assert (repr(array[0]), str(array[1]), float(array[2])) == ("tfloat32(0.33325195)", "nan", -np.inf)
    assert dtypes.tfloat32.type(1 / 3) == array[0]
    assert array[1] != array[1]
    assert (array == array).tolist() == [True, False, True, True, True]
    assert np.can_cast(dtypes.tfloat32, np.float32)
    assert not np.can_cast(np.float32, dtypes.tfloat32)
    assert np.array([0.5, 2], dtypes.tfloat32).astype(np.float32).tolist() == [0.5, 2]


def test_importing_again_registers_nothing():
    before = [np.dtype(each.type).num for each in ALL]
    module = sys.modules.pop("trn3._native")
    try:
        again = importlib.import_module("trn3._native")
        assert again.tfloat32 is _native.tfloat32
    finally:
        sys.modules["trn3._native"] = module
        # Importing has also set the package's attribute.
        sys.modules["trn3"]._native = module
    importlib.reload(_native)
    assert [np.dtype(getattr(_native, str(each))).num for each in ALL] == before


def test_a_fresh_process_reads_a_pickle():
    data = pickle.dumps(some(dtypes.float4_e2m1fn_x4))
    script = "import pickle, sys; print(pickle.loads(sys.stdin.buffer.read()).dtype)"
    done = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=True)
    assert done.stdout.split() == [b"float4_e2m1fn_x4"]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_nothing_leaks(dtype):
    array = some(dtype)

    def use():
        item = array[0, 1]
        array[1, 1] = item
        array.tolist(), str(item), hash(item), item == item, dtype.type(1), array == array, pickle.dumps(item)
        for wrong in ("text", None):
            with pytest.raises((TypeError, ValueError)):
                dtype.type(wrong)

    use()
    gc.collect()
    before = sys.getrefcount(dtype.type), sys.getrefcount(dtype)
    for _ in range(100):
        use()
    gc.collect()
    after = sys.getrefcount(dtype.type), sys.getrefcount(dtype)
    assert max(abs(a - b) for a, b in zip(after, before)) < 10


def test_threads_may_share_arrays():
    failures = []

    def work():
        try:
            for _ in range(50):
                for dtype in ALL:
                    array = some(dtype, (10, 10))
                    copied = array[::-1].copy()[::-1]
                    assert np.array_equal(copied, array)
                    repr(array)
                    dtypes.cast(np.ones(10_000, np.float32), "bfloat16", "stochastic")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
