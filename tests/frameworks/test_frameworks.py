"""Kernels take tensors of PyTorch and JAX, and give the same back."""

import numpy as np
import pytest

from trn3 import errors, launch, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

torch = pytest.importorskip("torch", reason="PyTorch is in an environment of its own: make test-torch")


def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "int32", "uint8", "int8"])
def test_torch_tensors_come_back_as_torch_tensors(name):
    dtype = getattr(torch, name)
    x = torch.arange(12).reshape(3, 4).to(dtype)
    got = nki.jit(doubled)(x)
    assert isinstance(got, torch.Tensor)
    assert got.dtype == dtype
    assert torch.equal(got, x * 2)


@pytest.mark.parametrize("name", ["float8_e5m2", "float8_e4m3fn", "bool", "uint16", "uint32"])
def test_bits_of_other_types_come_back(name):
    dtype = getattr(torch, name)
    x = torch.tensor([[0, 1, 2, 3]], dtype=torch.float32).to(dtype)
    got = nki.jit(copied)(x)
    assert got.dtype == dtype
    assert torch.equal(got.view(torch.uint8), x.view(torch.uint8))


def test_packed_types_come_as_integers():
    def kernel(x):
        return copied(x.view(nl.float8_e5m2_x4))

    x = torch.arange(8, dtype=torch.int32).reshape(2, 4).view(torch.uint32)
    got = nki.jit(kernel)(x)
    assert got.dtype == torch.uint32
    assert torch.equal(got, x)


def test_arguments_are_written_in_place():
    def kernel(x, y):
        nisa.dma_copy(x, nl.add(nl.load(x), nl.load(y)))
        return x

    x, y = torch.ones(4, 5), torch.full((4, 5), 2.0)
    got = nki.jit(kernel)(x, y)
    assert got is x
    assert torch.equal(x, torch.full((4, 5), 3.0))


def test_views_and_gradients_are_taken_by_value():
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4).T.requires_grad_()
    assert torch.equal(nki.jit(doubled)(x), 2 * x.detach())


def test_structures_hold_tensors():
    def kernel(pair):
        return {"sum": copied(pair[0]), "both": [copied(pair[1])]}

    got = nki.jit(kernel)((torch.ones(2, 2), torch.zeros(2, 2)))
    assert torch.equal(got["sum"], torch.ones(2, 2))
    assert torch.equal(got["both"][0], torch.zeros(2, 2))


def test_frameworks_are_not_mixed():
    jax = pytest.importorskip("jax", reason="JAX is in an environment of its own: make test-torch")
    with pytest.raises(errors.RuleError, match=r"kernel\.argument"):
        nki.jit(lambda x, y: copied(x))(torch.ones(2, 2), jax.numpy.ones((2, 2)))


def test_tensors_elsewhere_are_refused():
    with pytest.raises(errors.RuleError, match="is on meta"):
        nki.jit(doubled)(torch.ones(2, 2, device="meta"))


@pytest.mark.parametrize("name", ["float32", "bfloat16", "int32"])
def test_jax_arrays_come_back_as_jax_arrays(name):
    jax = pytest.importorskip("jax", reason="JAX is in an environment of its own: make test-torch")
    x = jax.numpy.arange(12).reshape(3, 4).astype(name)
    got = nki.jit(doubled)(x)
    assert isinstance(got, jax.Array)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(got), np.asarray(x * 2))


def test_scripts_find_the_device_that_they_name(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch_xla\n"
        "import torch_xla.core.xla_model as xm\n"
        "import nki, nki.language as nl\n"
        "from torch_neuronx import nki_jit\n"
        "@nki_jit\n"
        "def kernel(x):\n"
        "    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(out, nl.load(x))\n"
        "    return out\n"
        "x = torch.ones(2, 3).to(torch_xla.device())\n"
        "xm.mark_step()\n"
        "print(kernel(x))\n"
    )
    runs = launch.run_script(script)
    assert "1., 1., 1." in capsys.readouterr().out
    assert [run.program.kernel for run in runs] == ["kernel"]
