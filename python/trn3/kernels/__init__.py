"""Kernels written in the kernel language, for use and as examples.

Activations are (T, D) in HBM, one token a row; a dense layer's weights are (in, out), so that the contraction comes to
lie on partitions without a transpose, or the packed words and scales of `pack_weight`: then its products are
microscaled. Features come in multiples of 128, tokens in any number unless a kernel says otherwise.
"""

from .attention import attention
from .dense import dense, pack_weight
from .embedding import embedding
from .encoder import Embeddings, Layer, encoder
from .feed_forward import feed_forward
from .norm import add_norm
from .pooling import mean_pool

__all__ = [
    "Embeddings",
    "Layer",
    "add_norm",
    "attention",
    "dense",
    "embedding",
    "encoder",
    "feed_forward",
    "mean_pool",
    "pack_weight",
]
