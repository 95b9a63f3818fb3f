"""What the kernels compute, in float64 with NumPy; nothing of trn3 takes part in it."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def relative_error(found, expected):
    return np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected)


def layer_norm(x, gamma, beta, eps):
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) * gamma + beta


def gelu(x):
    return 0.5 * x * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


def feed_forward(x, w1, b1, w2, b2):
    return gelu(x.astype(np.float64) @ w1 + b1) @ w2.astype(np.float64) + b2


def microscaled(x):
    """Round a contraction (K, F) to MXFP8: in pieces of 512 rows, 8 neighbours of each quarter of a piece are a group."""
    out = np.empty(x.shape)
    for start in range(0, len(x), 512):
        piece = x[start : start + 512].astype(np.float64)
        groups = piece.reshape(4, -1, 8, x.shape[1])
        amax = np.abs(groups).max(axis=(0, 2), keepdims=True)
        scale = 2.0 ** (np.floor(np.log2(np.where(amax > 0, amax, 1.0))) - 7)
        rounded = (groups / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float64) * scale
        out[start : start + 512] = rounded.reshape(piece.shape)
    return out


def feed_forward_mx(x, w1, b1, w2, b2):
    """The block with operands rounded as the kernel rounds them, and exact sums."""
    hidden = microscaled(x.astype(np.float64).T).T @ microscaled(w1) + b1
    active = gelu(hidden).astype(BFLOAT16).astype(np.float64)
    return microscaled(active.T).T @ microscaled(w2) + b2


def block(tokens, size, hidden, out_size, seed=0):
    """Draw x, w1, b1, w2, b2 in float32, scaled so that every stage has values about 1."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.standard_normal(shape, np.float32)  # noqa: E731
    w1 = draw(size, hidden) / np.float32(math.sqrt(size))
    w2 = draw(hidden, out_size) / np.float32(math.sqrt(hidden))
    return draw(tokens, size), w1, draw(hidden), w2, draw(out_size)


def attention(x, mask, w_qkv, b_qkv, w_out, b_out, heads, length):
    """Multi-head self-attention of sentences of `length` tokens; padding gets no weight."""
    x = x.astype(np.float64)
    (tokens, size), head = x.shape, x.shape[1] // heads
    projected = (x @ w_qkv.astype(np.float64) + b_qkv).reshape(-1, length, 3, heads, head)
    q, k, v = projected.transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(head)
    scores = scores + np.where(mask.reshape(-1, 1, 1, length) > 0, 0.0, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = weights / weights.sum(axis=-1, keepdims=True) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(tokens, size) @ w_out.astype(np.float64) + b_out


def mean_pool(x, mask, length, normalize=True):
    weights = mask.reshape(-1, length, 1).astype(np.float64)
    total = (x.astype(np.float64).reshape(*weights.shape[:2], -1) * weights).sum(axis=1)
    mean = total / np.maximum(weights.sum(axis=1), 1.0)
    return mean / np.linalg.norm(mean, axis=1, keepdims=True) if normalize else mean


def padding(sentences, length, seed=0):
    """Draw a mask: the first sentence is whole, the last one has one token, the others any number."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, length + 1, sentences)
    lengths[0], lengths[-1] = length, 1
    return (np.arange(length) < lengths[:, None]).astype(np.float32).reshape(-1)
