"""Values that the public documents state."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from emulated import execute, numpy_dtype
from trn3.nki import isa as nisa
from trn3.nki import language as nl

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no reader of TOML")
VECTORS = tomllib.loads((Path(__file__).parents[1] / "vectors/nki.toml").read_text())


@pytest.mark.parametrize("vector", VECTORS["activation"], ids=lambda v: v["op"])
def test_activation(vector):
    x = np.array([[vector["x"]]], np.float32)
    got = execute(lambda d, t: nisa.activation(d, getattr(nl, vector["op"]), t), np.zeros_like(x), x)[0]
    assert abs(float(got[0, 0]) - vector["y"]) <= vector["within"]


@pytest.mark.parametrize("vector", VECTORS["scale_rows"], ids=lambda v: str(v["partitions"]))
def test_scale_rows_that_quantize_mx_writes(vector):
    partitions = vector["partitions"]
    x = np.ones((partitions, 8), ml_dtypes.bfloat16)

    def body(words, scales, source):
        nisa.quantize_mx(words, source, scales)

    arrays = np.zeros((partitions, 2), numpy_dtype("float8_e5m2_x4")), np.full((128, 2), 7, np.uint8), x
    scales = execute(body, *arrays)[1]
    assert np.flatnonzero((scales != 7).any(1)).tolist() == vector["rows"]


@pytest.mark.parametrize("vector", VECTORS["packed_scale"], ids=lambda v: f"{v['dtype']}-{v['amax']}-{v['version']}")
def test_scale_bytes(vector):
    x = np.full((32, 4), vector["amax"], ml_dtypes.bfloat16)

    def body(words, scales, source):
        nisa.quantize_mx(words, source, scales)

    arrays = np.zeros((32, 1), numpy_dtype(vector["dtype"])), np.zeros((4, 1), np.uint8), x
    np.testing.assert_array_equal(execute(body, *arrays, nki_version=vector["version"])[1], vector["byte"])
