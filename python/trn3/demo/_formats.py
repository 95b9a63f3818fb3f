"""The formats of the demo: their limits, and the kernel's arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trn3 import dtypes, kernels
from trn3.models import minilm

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True)
class Format:
    """How a format computes, and how far from float64 it may be.

    Attributes
    ----------
    error_max : float
        Limit of the relative L2 error of all sentence embeddings.
    cosine_min : float
        Limit of the cosine between each embedding and its reference.
    dtype : dtype
        Data type of tables, weights and activations.
    is_microscaled : bool
        Whether the weights' products are microscaled.
    """

    error_max: float
    cosine_min: float
    dtype: np.dtype[Any]
    is_microscaled: bool = False

    def weights(self, weights: minilm.Weights) -> tuple[kernels.Embeddings, tuple[kernels.Layer, ...]]:
        """Return the weights as `trn3.kernels.encoder` takes them; norms and biases are float32 in every format."""
        cast = self._pack if self.is_microscaled else self._cast
        embeddings = kernels.Embeddings(
            word_table=self._cast(weights.word_table),
            position_table=self._cast(weights.position_table),
            type_table=self._cast(weights.type_table),
            gamma=weights.gamma,
            beta=weights.beta,
        )
        return embeddings, tuple(_layer(layer, cast) for layer in weights.layers)

    def _cast(self, weight: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return weight.astype(self.dtype)

    def _pack(self, weight: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        return kernels.pack_weight(weight)


def _layer(layer: minilm.LayerWeights, cast: Callable[[npt.NDArray[Any]], Any]) -> kernels.Layer:
    fields = {name: cast(value) if name.startswith("w") else value for name, value in vars(layer).items()}
    return kernels.Layer(**fields)


FORMATS = {
    "fp32": Format(1e-5, 0.99999, dtypes.dtype("float32")),
    "bf16": Format(2e-2, 0.999, dtypes.dtype("bfloat16")),
    "mxfp8": Format(1e-1, 0.99, dtypes.dtype("bfloat16"), is_microscaled=True),
}
"""The formats by name."""
