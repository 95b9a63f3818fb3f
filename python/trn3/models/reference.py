"""The sentence encoder on the host with NumPy: what the kernels are held against.

It shares nothing with the kernels but the weights: no token is padding, and the precision is what the caller asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf
from typing import Any

import numpy as np
import numpy.typing as npt

from .minilm import Config, LayerWeights, Tokens, Weights

__all__ = ["Encoded", "encode"]

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Encoded:
    """Sentences encoded.

    Attributes
    ----------
    sentences : numpy.ndarray
        (sentences, D): the mean over each sentence's tokens, divided by its norm.
    hidden : list of numpy.ndarray
        For the embedding and each layer (tokens, D): all sentences' tokens, one after the other, without padding.
    """

    sentences: Array
    hidden: list[Array]


def encode(weights: Weights, config: Config, tokens: Tokens, dtype: npt.DTypeLike = np.float32) -> Encoded:
    """Encode sentences.

    Parameters
    ----------
    weights : Weights
        The model's weights; as many layers as there are.
    config : Config
        Heads and eps.
    tokens : Tokens
        The sentences.
    dtype : dtype
        Precision of everything: float32 or float64.

    Returns
    -------
    Encoded
        Embeddings and hidden states.

    Notes
    -----
    BERT with mean pooling: ``softmax(q k^T / sqrt(d)) v``, GELU with the error function, layer norm after each
    residual.
    """

    def cast(array: Array) -> Array:
        return np.asarray(array, dtype)

    is_there = tokens.mask > 0
    places = np.broadcast_to(np.arange(tokens.length), tokens.ids.shape)[is_there]
    x = cast(weights.word_table[tokens.ids[is_there]]) + cast(weights.position_table[places])
    x = x + cast(weights.type_table[0])
    hidden = [_normalized(x, cast(weights.gamma), cast(weights.beta), config.layer_norm_eps)]
    ends = np.cumsum(tokens.lengths)
    parts = [slice(int(end - count), int(end)) for end, count in zip(ends, tokens.lengths, strict=True)]
    for layer in weights.layers:
        w = LayerWeights(**{name: cast(value) for name, value in vars(layer).items()})
        hidden.append(_layer(hidden[-1], parts, w, config))
    means = np.stack([hidden[-1][part].mean(axis=0) for part in parts])
    return Encoded(means / np.linalg.norm(means, axis=1, keepdims=True), hidden)


def _normalized(x: Array, gamma: Array, beta: Array, eps: float) -> Array:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    return np.asarray(centred / np.sqrt(variance + x.dtype.type(eps)) * gamma + beta)


def _layer(x: Array, parts: list[slice], w: LayerWeights, config: Config) -> Array:
    projected = x @ w.w_qkv + w.b_qkv
    mixed = np.concatenate([_attention(projected[part], config.num_attention_heads) for part in parts])
    x = _normalized(x + (mixed @ w.w_out + w.b_out), w.gamma1, w.beta1, config.layer_norm_eps)
    change = _gelu(x @ w.w1 + w.b1) @ w.w2 + w.b2
    return _normalized(x + change, w.gamma2, w.beta2, config.layer_norm_eps)


def _attention(projected: Array, heads: int) -> Array:
    """Return the attention of one sentence from its queries, keys and values side by side."""
    count, size = projected.shape[0], projected.shape[1] // 3
    q, k, v = projected.reshape(count, 3, heads, size // heads).transpose(1, 2, 0, 3)
    scores = q @ k.swapaxes(1, 2) / projected.dtype.type((size // heads) ** 0.5)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = (weights / weights.sum(axis=-1, keepdims=True)) @ v
    return np.asarray(mixed.transpose(1, 0, 2).reshape(count, size))


def _gelu(x: Array) -> Array:
    scaled = (x * x.dtype.type(0.5**0.5)).ravel().tolist()
    errors = np.fromiter(map(erf, scaled), np.float64, len(scaled)).reshape(x.shape)
    return np.asarray(x * x.dtype.type(0.5) * (1 + errors).astype(x.dtype))
