"""Views of tiles and of arrays alike, for tests that draw their shapes and strides."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from emulated import fp32, random_array

KEYS = [
    np.s_[:, 0:3, 0:5],
    np.s_[:, 3:, 5:],
    np.s_[:, ::2, ::2],
    np.s_[:, 0:6:2, 0:10:2],
    np.s_[:, 1::2, 1::2],
    np.s_[:, 2:5, 0:10:2],
]


def rows(array):
    """The elements of each partition in order, as FP32."""
    return fp32(array).reshape(array.shape[0], -1)


@st.composite
def views(draw):
    """A function that takes a tile or an array of shape (P, 6, 10) to a view whose free dimensions have 15 elements."""
    key = draw(st.sampled_from(KEYS))
    kind = draw(st.sampled_from(["plain", "plain", "permuted", "broadcast", "rows"]))
    if kind == "permuted":
        return lambda t: t[key].permute((0, 2, 1)) if hasattr(t, "permute") else t[key].transpose(0, 2, 1)
    if kind == "broadcast":

        def broadcast(t):
            if hasattr(t, "permute"):
                return t[:, 1:2, key[2]].broadcast(1, 3)
            return np.broadcast_to(t[:, 1:2, key[2]], (t.shape[0], 3, 5))

        return broadcast
    if kind == "rows":

        def columns(t):
            if hasattr(t, "permute"):
                return t[:, 0:3, 4:5].broadcast(2, 5)
            return np.broadcast_to(t[:, 0:3, 4:5], (t.shape[0], 3, 5))

        return columns
    return lambda t: t[key]


def bases(data, partitions, names, seed_label="seed"):
    """Arrays of shape (P, 6, 10), one a data type."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), label=seed_label))
    return [random_array(rng, (partitions, 6, 10), name) for name in names]
