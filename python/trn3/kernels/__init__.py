"""Kernels written in the kernel language, for use and as examples.

Each is general in tokens (any count) and takes features in multiples of 128. Activations are (T, D) in HBM, one token a
row; a dense layer's weights are (in, out), so that the contraction comes to lie on partitions without a transpose.
"""

from .block import embedded_feed_forward, embedded_feed_forward_mx
from .embedding import embedding
from .feed_forward import feed_forward
from .feed_forward_mx import feed_forward_mx, pack_weight
from .norm import add_norm

__all__ = [
    "add_norm",
    "embedded_feed_forward",
    "embedded_feed_forward_mx",
    "embedding",
    "feed_forward",
    "feed_forward_mx",
    "pack_weight",
]
