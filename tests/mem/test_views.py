"""Views of tensors against NumPy's views of an array of element numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trn3 import errors, nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl

ON_CHIP = (nl.sbuf, nl.psum)


def inside(function, **options):
    """Run ``function(x)`` while a kernel is recorded, and return what it returns."""
    results = []

    def kernel(x):
        results.append(function(x))
        return x

    nki.simulate(kernel, **options)(np.zeros((2, 2), np.float32))
    return results[0]


def addresses(view):
    """Element numbers that a view names, by its public attributes."""
    index = np.indices(view.shape) if view.shape else np.zeros((0,))
    return view.offset + sum(stride * i for stride, i in zip(view.strides, index, strict=True))


def numbered(shape):
    return np.arange(math.prod(shape)).reshape(shape)


def agree(view, model):
    assert view.shape == model.shape
    assert view.ndim == model.ndim
    assert view.size == model.size
    assert len(view) == model.shape[0]
    assert view.get_pattern() == [list(pair) for pair in zip(view.strides, view.shape, strict=True)]
    np.testing.assert_array_equal(addresses(view), model)


SHAPES = st.lists(st.integers(1, 6), min_size=2, max_size=5).map(tuple)


def on_chip_index(model, key):
    """What NumPy gives, with the dimensions kept that a tile keeps."""
    key = key if isinstance(key, tuple) else (key,)
    if Ellipsis in key:
        at = key.index(Ellipsis)
        key = key[:at] + (slice(None),) * (model.ndim - len(key) + 1) + key[at + 1 :]
    key = key + (slice(None),) * (model.ndim - len(key))
    ints = [axis for axis, item in enumerate(key) if isinstance(item, int)]
    kept = [0] if 0 in ints else []
    result = model
    sliced = tuple(
        slice(item % n, item % n + 1) if isinstance(item, int) else item
        for item, n in zip(key, model.shape, strict=True)
    )
    result = model[sliced]
    drop = [axis for axis in ints if axis not in kept]
    while result.ndim - len(drop) < 2:
        drop.pop(0)
    return result.squeeze(tuple(drop)) if drop else result


@st.composite
def step(draw, shape, chip):
    """A method call on a view of ``shape``: (call on a tensor, call on an array)."""
    rank = len(shape)
    low = 1 if chip else 0
    choices = ["subscript", "permute", "slice", "select"]
    choices += ["expand_dim"] if rank < 5 else []
    ones = [axis for axis in range(low, rank) if shape[axis] == 1]
    choices += ["broadcast"] if ones else []
    choices += ["squeeze_dim"] if ones and rank > low + 1 else []
    composite = [(axis, d) for axis in range(low, rank) for d in range(2, shape[axis]) if shape[axis] % d == 0]
    choices += ["reshape_dim"] if composite and rank < 5 else []
    kind = draw(st.sampled_from(choices))
    signed = lambda axis: draw(st.sampled_from([axis, axis - rank]))  # noqa: E731
    if kind == "subscript":
        key = []
        for n in shape[: draw(st.integers(1, rank))]:
            if draw(st.booleans()):
                key.append(draw(st.integers(-n, n - 1)))
            else:
                start = draw(st.integers(0, n - 1))
                stop, by = draw(st.integers(start + 1, n)), draw(st.integers(1, 3))
                key.append(
                    draw(
                        st.sampled_from(
                            [slice(start, stop, by), slice(None), slice(start, None), slice(start - n, None, by)]
                        )
                    )
                )
        if draw(st.booleans()):
            key.append(...)
        key = tuple(key)
        if chip:
            return lambda t: t[key], lambda a: on_chip_index(a, key)
        if sum(isinstance(item, int) for item in key) == rank:
            key = (slice(0, 1), *key[1:])
        return lambda t: t[key], lambda a: a[key]
    if kind == "permute":
        order = [*range(low), *(draw(st.permutations(range(low, rank))))]
        return lambda t: t.permute(tuple(order)), lambda a: a.transpose(order)
    if kind == "slice":
        axis = draw(st.integers(0, rank - 1))
        start = draw(st.integers(0, shape[axis] - 1))
        stop, by = draw(st.integers(start + 1, shape[axis])), draw(st.integers(1, 3))
        key, named = (slice(None),) * axis + (slice(start, stop, by),), signed(axis)
        return lambda t: t.slice(named, start, stop, by), lambda a: a[key]
    if kind == "select":
        axis = draw(st.integers(0, rank - 1))
        at, named = draw(st.integers(-shape[axis], shape[axis] - 1)), signed(axis)
        key = (slice(None),) * axis + (at,)
        if chip:
            return lambda t: t.select(named, at), lambda a: on_chip_index(a, key)
        if rank == 1:
            return lambda t: t, lambda a: a
        return lambda t: t.select(named, at), lambda a: a[key]
    if kind == "expand_dim":
        axis = draw(st.integers(low, rank))
        return lambda t: t.expand_dim(axis), lambda a: np.expand_dims(a, axis)
    if kind == "reshape_dim":
        axis, d = draw(st.sampled_from(composite))
        sizes = draw(st.sampled_from([(d, -1), (-1, d), (shape[axis] // d, d), (d, shape[axis] // d)]))
        new = lambda a: a.reshape(*a.shape[:axis], *sizes, *a.shape[axis + 1 :])  # noqa: E731
        named = signed(axis)
        return lambda t: t.reshape_dim(named, sizes), new
    axis = draw(st.sampled_from(ones))
    if kind == "squeeze_dim":
        return lambda t: t.squeeze_dim(axis), lambda a: a.squeeze(axis)
    size = draw(st.integers(1, 4))
    named = signed(axis)
    return lambda t: t.broadcast(named, size), lambda a: np.repeat(a, size, axis)


@given(st.data())
def test_chains_of_operations(data):
    buffer = data.draw(st.sampled_from([nl.sbuf, nl.psum, nl.hbm, nl.shared_hbm]))
    shape = data.draw(SHAPES)
    chip = buffer in ON_CHIP

    def run(x):
        tensor = nl.ndarray(shape, nl.float32, buffer=buffer)
        view, model = tensor, numbered(shape)
        for _ in range(data.draw(st.integers(1, 5))):
            on_tensor, on_array = data.draw(step(model.shape, chip))
            view, model = on_tensor(view), on_array(model)
            agree(view, model)
            assert (view.dtype, view.buffer, view.name) == (tensor.dtype, buffer, tensor.name)

    inside(run)


@given(st.data())
def test_reshape_gives_numpys_elements_or_is_refused(data):
    shape = data.draw(SHAPES)
    order = [0, *data.draw(st.permutations(range(1, len(shape))))]
    total = math.prod(shape[1:])
    divisors = [d for d in range(1, total + 1) if total % d == 0]
    d = data.draw(st.sampled_from(divisors))
    target = data.draw(
        st.sampled_from([(shape[0], total), (shape[0], d, -1), (shape[0], -1, d), (shape[0], 1, total), (-1, total)])
    )

    def run(x):
        view = nl.ndarray(shape, nl.float32).permute(order)
        model = numbered(shape).transpose(order)
        try:
            got = view.reshape(target)
        except errors.RuleError as error:
            assert error.rule == "tensor.view"
            assert order != sorted(order)
            return
        agree(got, model.reshape(target))
        agree(view.reshape(*target), model.reshape(target))

    inside(run)


@given(st.data())
def test_flatten_dims(data):
    shape = data.draw(SHAPES)
    first = data.draw(st.integers(1, len(shape) - 1))
    last = data.draw(st.integers(first, len(shape) - 1))

    def run(x):
        view = nl.ndarray(shape, nl.float32)
        got = view.flatten_dims(first, last)
        agree(got, numbered(shape).reshape(*shape[:first], -1, *shape[last + 1 :]))

    inside(run)


def test_flattening_a_broadcast_of_size_one_or_a_gap():
    def run(x):
        tile = nl.ndarray((4, 6, 10), nl.float32)
        with pytest.raises(errors.RuleError, match=r"tensor\.view"):
            tile[:, :, 0:5].flatten_dims(1, 2)
        with pytest.raises(errors.RuleError, match=r"tensor\.view"):
            tile.permute((0, 2, 1)).flatten_dims(1, 2)
        with pytest.raises(errors.RuleError, match=r"tensor\.view"):
            tile.flatten_dims(0, 1)
        with pytest.raises(errors.RuleError, match=r"tensor\.view"):
            tile.flatten_dims(2, 1)
        with pytest.raises(errors.RuleError, match=r"tensor\.view"):
            tile.permute((0, 2, 1)).reshape((4, 60))
        agree(tile[:, 0:1].flatten_dims(1, 2), numbered((4, 6, 10))[:, 0:1].reshape(4, 10))

    inside(run)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t[0:0],
        lambda t: t[:, 3:2],
        lambda t: t[:, ::-1],
        lambda t: t[:, 0:7],
        lambda t: t[:, 6],
        lambda t: t[:, -7],
        lambda t: t[:, :, :, 0],
        lambda t: t[..., ...],
        lambda t: t[:, ::0] if False else t[:, 6:],
        lambda t: t[2**70],
        lambda t: t[:, -(2**70)],
        lambda t: t.permute((1, 0, 2)),
        lambda t: t.permute((0, 1)),
        lambda t: t.permute((0, 1, 1)),
        lambda t: t.permute((0, 1, 3)),
        lambda t: t.broadcast(0, 2),
        lambda t: t.broadcast(1, 2),
        lambda t: t[:, 0:1].broadcast(1, 0),
        lambda t: t[:, 0:1].broadcast(1, -1),
        lambda t: t.expand_dim(0),
        lambda t: t.expand_dim(4),
        lambda t: t.squeeze_dim(1),
        lambda t: t[0:1].squeeze_dim(0),
        lambda t: t.reshape_dim(0, (2, 2)),
        lambda t: t.reshape_dim(1, (4, 2)),
        lambda t: t.reshape_dim(1, (-1, -1)),
        lambda t: t.reshape_dim(1, (-1, 0)),
        lambda t: t.reshape_dim(3, (1,)),
        lambda t: t.reshape((4, 61)),
        lambda t: t.reshape((240,)),
        lambda t: t.reshape((4, 2, 3, 2, 5, 1)),
        lambda t: t.reshape(()),
        lambda t: t.slice(1, 2, 2),
        lambda t: t.slice(3, 0, 1),
        lambda t: t.select(1, 6),
        lambda t: t.reshape((2**32, 2**32, -1)),
        lambda t: t.slice(1, 0, 3, 0),
    ],
)
def test_what_a_tile_does_not_do(call):
    def run(x):
        with pytest.raises(errors.RuleError) as caught:
            call(nl.ndarray((4, 6, 10), nl.float32))
        assert caught.value.rule == "tensor.view"
        assert caught.value.where.startswith(__file__)

    inside(run)


@pytest.mark.parametrize("key", [None, 1.5, "a", True, [0, 1], np.array([0, 1])])
def test_what_is_no_index(key):
    def run(x):
        with pytest.raises((TypeError, errors.RuleError)):
            nl.ndarray((4, 6), nl.float32)[key]

    inside(run)


def test_numpy_integers_and_ds_are_indices():
    def run(x):
        tile, model = nl.ndarray((4, 6, 10), nl.float32), numbered((4, 6, 10))
        agree(tile[np.int64(2)], model[2:3])
        agree(tile[:, nl.ds(2, 3)], model[:, 2:5])
        agree(tile[:, nl.ds(np.int32(2), 3), -1], model[:, 2:5, -1])
        agree(tile[..., 3], model[..., 3])
        agree(tile[1, ..., 0:3], model[1:2, ..., 0:3])
        agree(tile[1, 2, 3], model[1:2, 2, 3:4])
        agree(tile[:, 2, 3], model[:, 2, 3:4])

    inside(run)


def test_hbm_tensors_may_drop_all_but_one_dimension():
    def run(x):
        tensor, model = nl.ndarray((4, 6, 10), nl.float32, buffer=nl.hbm), numbered((4, 6, 10))
        agree(tensor[1, 2], model[1, 2])
        agree(tensor[1, 2, 3], model[1, 2, 3:4])
        agree(tensor.permute((2, 0, 1)), model.transpose(2, 0, 1))
        agree(tensor[0:1].broadcast(0, 5), np.repeat(model[0:1], 5, 0))
        agree(tensor.expand_dim(0), model[None])
        agree(tensor.flatten_dims(0, 2), model.reshape(-1))
        agree(tensor.reshape((240,)), model.reshape(240))
        agree(tensor.reshape(10, -1), model.reshape(10, 24))
        agree(tensor.reshape_dim(0, (2, -1)), model.reshape(2, 2, 6, 10))

    inside(run)


def test_is_contiguous():
    def run(x):
        tile, tensor = nl.ndarray((4, 6, 10), nl.float32), nl.ndarray((4, 6, 10), nl.float32, buffer=nl.hbm)
        assert tile.is_contiguous() and tensor.is_contiguous()
        assert tile[1:3].is_contiguous() and tile[::2].is_contiguous()
        assert tensor[1:3].is_contiguous() and not tensor[::2].is_contiguous()
        assert tile[:, 2:4].is_contiguous() and not tensor[:, 2:4].is_contiguous()
        assert not tile[:, :, 0:5].is_contiguous() and not tile[:, ::2].is_contiguous()
        assert not tile.permute((0, 2, 1)).is_contiguous()
        assert not tile.is_indirect()

    inside(run)


@pytest.mark.parametrize(
    ("source", "target", "dims"),
    [
        (("p", "a", "b"), ("p", "b", "a"), {}),
        (("p", "a", "b"), ("p", ("a", "b")), {}),
        (("p", "a", ("c", "d")), ("p", "c", "a", "d"), {"c": 2}),
        (("p", ("a", "e"), "b"), ("p", "e", "b", "a"), {"e": 3}),
        (("p", "a", ("c", "d")), ("p", ("a", "c"), "d"), {"d": 5}),
    ],
)
def test_rearrange(source, target, dims):
    def run(x):
        view = nl.ndarray((4, 6, 10), nl.float32).rearrange(source, target, dims)
        model, names, shape = numbered((4, 6, 10)), [], []
        for item, size in zip(source, model.shape, strict=True):
            group = (item,) if isinstance(item, str) else item
            known = math.prod(dims.get(name, 1) for name in group)
            names += group
            shape += [dims.get(name, size // known) for name in group]
        wanted = [name for item in target for name in ((item,) if isinstance(item, str) else item)]
        model = model.reshape(shape).transpose([names.index(name) for name in wanted])
        sizes = dict(zip(names, shape, strict=True))
        model = model.reshape([math.prod(sizes[n] for n in ((i,) if isinstance(i, str) else i)) for i in target])
        agree(view, model)

    inside(run)


@pytest.mark.parametrize(
    ("source", "target", "dims"),
    [
        (("p", "a"), ("p", "a"), {}),
        (("p", "a", "b"), ("p", "a"), {}),
        (("p", "a", ("c", "d")), ("p", "a", "c", "d"), {}),
        (("p", "a", ("c", "d")), ("p", "a", "c", "d"), {"c": 3}),
        (("p", "a", "a"), ("p", "a", "a"), {}),
        (("p", "a", "b"), ("b", "p", "a"), {}),
    ],
)
def test_rearrange_refuses(source, target, dims):
    def run(x):
        with pytest.raises(errors.RuleError, match=r"tensor\.(rearrange|view)"):
            nl.ndarray((4, 6, 10), nl.float32).rearrange(source, target, dims)

    inside(run)


# Access patterns -----------------------------------------------------------------------------------------------------


@given(st.data())
def test_ap_names_what_it_says_or_is_refused(data):
    shape = (6, 4, 5)
    chip = data.draw(st.booleans())
    start = data.draw(st.sampled_from([np.s_[:], np.s_[2:], np.s_[1:, 2:], np.s_[:, 1:, 3:]]))
    numbers = st.integers(-25, 25)
    pattern = [[data.draw(st.sampled_from([20, 20, 20, 40, 1]) if chip else numbers), data.draw(st.integers(1, 5))]]
    pattern += [[data.draw(numbers), data.draw(st.integers(1, 4))] for _ in range(data.draw(st.integers(1, 3)))]
    offset = data.draw(st.one_of(st.none(), st.integers(-20, 60)))

    def run(x):
        base = nl.ndarray(shape, nl.float32, buffer=nl.sbuf if chip else nl.hbm)[start]
        counts = [count for _, count in pattern]
        index = np.indices(counts)
        where = base.offset + (offset or 0) + sum(s * i for (s, _), i in zip(pattern, index, strict=True))
        allowed = where.min() >= 0 and where.max() < 120
        if chip:
            # Rows follow each other, and each element of a row lies in that row's partition.
            first = where[(slice(None), *[0] * (len(counts) - 1))] // 20
            lies = (where // 20 == first.reshape(-1, *[1] * (len(counts) - 1))).all()
            allowed = allowed and lies and (counts[0] == 1 or pattern[0][0] == 20)
        try:
            view = base.ap(pattern, offset=offset)
        except errors.RuleError as error:
            assert not allowed, (pattern, offset)
            assert error.rule == "tensor.view"
            return
        assert allowed, (pattern, offset)
        assert view.shape == tuple(counts)
        np.testing.assert_array_equal(addresses(view), where)

    inside(run)


@pytest.mark.parametrize(
    ("pattern", "more"),
    [
        ([], {}),
        ([[10, 4], [2**62, 5]], {}),
        ([[10, 4], [1, 0]], {}),
        ([[10, 4], [1, -1]], {}),
        ([[10, 4], [1, 2**40]], {}),
        ([[10, 4], [1, 1]], {"offset": 2**63 - 1}),
        ([[10, 4], [1, 1]], {"offset": -(2**63)}),
        ([[10, 4]] + [[1, 1]] * 5, {}),
        ([[10, 4]], {}),
        ([[-(2**63), 2], [2**62, 2**32 - 1]], {}),
    ],
)
def test_ap_refuses_absurd_numbers(pattern, more):
    def run(x):
        with pytest.raises(errors.RuleError, match=r"tensor\.view"):
            nl.ndarray((4, 10), nl.float32).ap(pattern, **more)

    inside(run)


def test_ap_with_one_element_and_any_stride():
    def run(x):
        view = nl.ndarray((4, 10), nl.float32).ap([[10, 4], [2**62, 1], [-(2**63), 1]], offset=3)
        assert view.shape == (4, 1, 1)
        assert view.offset == 3
        nisa.memset(view, 1.0)

    inside(run)


def test_ap_as_another_dtype_and_on_a_view_adds_the_base():
    x = np.arange(64, dtype=np.uint32).reshape(4, 16)

    def kernel(a):
        tile = nl.load(a)
        half = tile[:, 4:].ap([[32, 4], [1, 6]], offset=2, dtype=nl.uint16)
        assert half.shape == (4, 6)
        assert half.offset == 2 * 4 + 2
        out = nl.ndarray((4, 6), nl.uint16, buffer=nl.shared_hbm)
        nisa.dma_copy(out, half)
        return out

    np.testing.assert_array_equal(nki.simulate(kernel)(x), x.view(np.uint16)[:, 10:16])


def test_dtype_views():
    x = np.random.default_rng(0).integers(0, 2**32, (4, 6), np.uint32)
    cases = [
        (nl.uint16, np.uint16),
        (nl.int8, np.int8),
        (nl.float32, np.float32),
        (nl.bfloat16, nl.bfloat16),
        (nl.float8_e5m2_x4, nl.float8_e5m2_x4),
        (nl.float4_e2m1fn_x4, nl.float4_e2m1fn_x4),
    ]

    def kernel(a):
        tile, outs = nl.load(a), []
        for dtype, _ in cases:
            for name in ("view", "reinterpret_cast"):
                view = getattr(tile[:, 2:5], name)(dtype)
                out = nl.ndarray(view.shape, dtype, buffer=nl.shared_hbm)
                nisa.dma_copy(out, view)
                outs.append(out)
        back = tile.view(nl.uint8).view(nl.uint32)
        assert back.get_pattern() == tile.get_pattern()
        return outs

    for got, (_, dtype) in zip(nki.simulate(kernel)(x)[::2], cases, strict=True):
        want = np.ascontiguousarray(x[:, 2:5]).view(dtype)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize(
    ("key", "dtype"),
    [(np.s_[:, ::2], "uint32"), (np.s_[:, 1:5], "uint32"), (np.s_[:, 0:3], "uint32"), (np.s_[:, 0:6, None], "uint8")],
)
def test_dtype_views_that_do_not_fit(key, dtype):
    def run(x):
        tile = nl.ndarray((4, 6), nl.uint16)
        view = tile.reshape((4, 3, 2)).permute((0, 2, 1)) if len(key) == 3 else tile[key]
        with pytest.raises(errors.RuleError, match=r"tensor\.view"):
            view.view(getattr(nl, dtype))

    inside(run)


def test_attributes():
    def run(x):
        tile = nl.ndarray((4, 6), nl.bfloat16, buffer=nl.psum, name="mine")
        assert (tile.name, tile.dtype, tile.buffer, tile.shape, tile.strides, tile.offset, tile.ndim, tile.size) == (
            "mine",
            nl.bfloat16,
            nl.psum,
            (4, 6),
            (6, 1),
            0,
            2,
            24,
        )
        assert tile[1:3, 2:4].offset == 8
        assert tile[1:3, 2:4].name == "mine"
        assert x.buffer == nl.shared_hbm
        assert nl.ndarray((4, 6), nl.bfloat16).name != nl.ndarray((4, 6), nl.bfloat16).name

    inside(run)


def test_broadcast_to():
    def run(x):
        tile = nl.ndarray((4, 1, 6), nl.float32)
        agree(tile.broadcast_to((4, 3, 6)), np.repeat(numbered((4, 1, 6)), 3, 1))
        with pytest.raises((ValueError, errors.RuleError)):
            tile.broadcast_to((4, 3))
        with pytest.raises(errors.RuleError):
            tile.broadcast_to((4, 3, 7))

    inside(run)


def test_writing_through_views():
    x = np.arange(24, dtype=np.float32).reshape(4, 6)

    def kernel(a):
        tile = nl.load(a)
        tile[:, 1::2] = 0.0
        tile[:, 0] = tile[:, 2]
        out = nl.ndarray((4, 6), nl.float32, buffer=nl.shared_hbm)
        out[...] = tile
        return out

    want = x.copy()
    want[:, 1::2] = 0
    want[:, 0] = want[:, 2]
    np.testing.assert_array_equal(nki.simulate(kernel)(x), want)


@given(st.data())
def test_names_have_the_values_that_the_model_says(data):
    """Chains of operations, checked on bytes: a copy of the view is a copy of NumPy's."""
    shape = data.draw(SHAPES)
    x = numbered(shape).astype(np.int32)
    want = []

    def kernel(a):
        view, model = nl.load(a), x
        for _ in range(data.draw(st.integers(1, 4))):
            on_tensor, on_array = data.draw(step(model.shape, True))
            view, model = on_tensor(view), on_array(model)
        want.append(np.ascontiguousarray(model))
        out = nl.ndarray(view.shape, view.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, nl.copy(view))
        return out

    np.testing.assert_array_equal(nki.simulate(kernel)(x), want[-1])
