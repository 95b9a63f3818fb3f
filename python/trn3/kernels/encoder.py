"""A BERT sentence encoder in one kernel: embedding, layers, mean pooling.

Activations stay in SBUF from the embedding to the pooling, and each layer's weights come while the layer before
computes. A layer goes over all its tokens twice, for the attention and for the feed-forward block: so the norm that
ends a block of some tokens, which TensorE has no part in, runs beside the products of others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from trn3.nki import isa as nisa
from trn3.nki import jit
from trn3.nki import language as nl

from ._operands import Operand, Weight, activations, check_weight, features_of, load_weight, product, seal, turn
from ._softmax import Constants, Mask, Shape, Tile
from ._tiles import check_shape, held, load_columns, load_rows, pieces, pipelined
from .attention import SelfAttention, check_attention
from .embedding import gathered
from .feed_forward import hidden_activations, load_hidden_bias
from .norm import LayerNorm
from .pooling import Pool


class Embeddings(NamedTuple):
    """Tables and norm of the embedding, tensors in HBM.

    Attributes
    ----------
    word_table, position_table, type_table : tensor
        (V, D), of the data type of the activations.
    gamma, beta : tensor
        (D,), float32.
    """

    word_table: Any
    position_table: Any
    type_table: Any
    gamma: Any
    beta: Any


class Layer(NamedTuple):
    """Weights of a layer, tensors in HBM; or, for each w, the words and scales of `pack_weight`.

    Attributes
    ----------
    w_qkv, w_out : tensor or tuple of tensor
        (D, 3 D) and (D, D): queries, keys, values; output projection.
    w1, w2 : tensor or tuple of tensor
        (D, H) and (H, D): feed-forward block.
    b_qkv, b_out, b1, b2 : tensor
        (3 D,), (D,), (H,), (D,), float32.
    gamma1, beta1, gamma2, beta2 : tensor
        (D,), float32: norms after attention and after the feed-forward block.
    """

    w_qkv: Weight
    b_qkv: Any
    w_out: Weight
    b_out: Any
    gamma1: Any
    beta1: Any
    w1: Weight
    b1: Any
    w2: Weight
    b2: Any
    gamma2: Any
    beta2: Any


@jit
def encoder(
    ids: nl.Tensor,
    mask: nl.Tensor,
    embeddings: Embeddings,
    layers: tuple[Layer, ...],
    heads: int,
    length: int,
    eps: float,
    element: str = "float8_e4m3fn",
) -> tuple[nl.Tensor, nl.Tensor]:
    """Encode sentences of one length, padded.

    Parameters
    ----------
    ids : tensor
        (T, 1) in HBM, int32: T / `length` sentences, one after the other.
    mask : tensor
        (T,) in HBM, float32: 1 for a token, 0 for padding.
    embeddings : Embeddings
        Tables, in float32 or bfloat16 (bfloat16 with packed weights), and norm.
    layers : tuple of Layer
        Weights of each layer.
    heads : int
        Heads of D / `heads` features: 32, 64 or 128.
    length : int
        Tokens of a sentence: 32, 64, 128, 256, 384 or 512.
    eps : float
        Added to variances.
    element : str
        What activations are quantised to beside packed weights: ``"float8_e4m3fn"`` or ``"float8_e5m2"``.

    Returns
    -------
    sentences : tensor
        (T / `length`, D) in HBM, float32: the mean over each sentence's tokens, divided by its norm.
    hidden : tensor
        (1 + layers, T, D) in HBM, of the data type of the tables: the embedding and what each layer gives.

    Raises
    ------
    RuleError
        kernel.shape, kernel.features, kernel.heads, kernel.length.

    Notes
    -----
    All tokens and two layers' weights are in SBUF at once, which limits T (about 4,000 tokens of 384 features in
    bfloat16). Profiles show the transfers that end each part by its name: ``embedding``, ``layer 0``, ..., ``pooling``.
    """
    shape = _check(ids, mask, embeddings, layers, heads, length)
    (tokens, _), size, dtype = ids.shape, shape.size, embeddings.word_table.dtype
    sentences = nl.ndarray((tokens // length, size), nl.float32, nl.shared_hbm)
    hidden = nl.ndarray((1 + len(layers), tokens, size), dtype, nl.shared_hbm)

    embedding = _Embedding(ids, embeddings, shape, eps)
    known, constants, pool = Mask(mask, dtype), Constants(dtype), Pool(mask, length, dtype)
    loaded = [_Layer(layer, shape, eps, dtype, element) for layer in layers[:1]]
    tiles = embedding.run(hidden[0])
    for number in range(len(layers)):
        loaded += [_Layer(layer, shape, eps, dtype, element) for layer in layers[number + 1 : number + 2]]
        tiles = loaded.pop(0).run(tiles, known, constants)
        _store(hidden[number + 1], tiles, f"layer {number}")
    pool.store(sentences, tiles, normalize=True, name="pooling")
    return sentences, hidden


def _check(
    ids: nl.Tensor, mask: nl.Tensor, embeddings: Embeddings, layers: tuple[Layer, ...], heads: int, length: int
) -> Shape:
    """Check the arguments' shapes and return the sizes of attention."""
    kernel, (tokens, _), size = "encoder", ids.shape, embeddings.word_table.shape[1]
    check_shape(kernel, "ids", ids, (tokens, 1))
    for name in ("position_table", "type_table"):
        table = getattr(embeddings, name)
        check_shape(kernel, name, table, (table.shape[0], size))
    shape = check_attention(kernel, tokens, size, mask, heads, length)
    for layer in layers:
        hidden = features_of(layer.w1)
        for name, rows, features in (
            ("w_qkv", size, 3 * size),
            ("w_out", size, size),
            ("w1", size, hidden),
            ("w2", hidden, size),
        ):
            check_weight(kernel, name, getattr(layer, name), rows, features)
        for name, features in (("b_qkv", 3 * size), ("b_out", size), ("b1", hidden), ("b2", size)):
            check_shape(kernel, name, getattr(layer, name), (features,))
        for name in ("gamma1", "beta1", "gamma2", "beta2"):
            check_shape(kernel, name, getattr(layer, name), (size,))
    return shape


class _Embedding:
    """The rows of the embedding of all tokens, on their way to SBUF.

    Positions follow from the place in the sentence, and there is one type: both rows are added once for each tile of a
    sentence, or for the sentences of a tile.
    """

    def __init__(self, ids: nl.Tensor, embeddings: Embeddings, shape: Shape, eps: float) -> None:
        partitions, tokens, dtype = nl.tile_size.pmax, ids.shape[0], embeddings.word_table.dtype
        rows = load_columns(ids.reshape((tokens,)), partitions)
        # All of them first: GpSimdE, which makes their descriptors, would come to the next ones only after a norm.
        self.words = [
            gathered(embeddings.word_table, rows[0:count, start // partitions : start // partitions + 1])
            for start, count in pieces(tokens, partitions)
        ]
        self.norm = LayerNorm(embeddings.gamma, embeddings.beta, eps, dtype)
        self.places = _places(embeddings, shape)

    def run(self, out: nl.Tensor) -> list[nl.Tensor]:
        """Return the embedding as tiles (128, D), and write it to HBM."""

        def summed(at: int) -> Any:
            words, place = self.words[at], self.places[at % len(self.places)]
            total = nl.ndarray(words.shape, nl.float32)
            nisa.tensor_tensor(total, words, place[0 : words.shape[0], :], nl.add)
            return self.norm.statistics(total)

        tiles = pipelined(range(len(self.words)), summed, self.norm.scale, self.norm.apply)
        _store(out, tiles, "embedding")
        return tiles


def _store(out: nl.Tensor, tiles: list[nl.Tensor], name: str) -> None:
    """Write tiles (128, D) to (T, D) in HBM."""
    for at, tile in enumerate(tiles):
        start = at * nl.tile_size.pmax
        nisa.dma_copy(out[start : start + tile.shape[0], :], tile, name=name)


def _places(embeddings: Embeddings, shape: Shape) -> list[nl.Tensor]:
    """Return position row + type row of each token of the tiles of a sentence, (128, D) float32."""
    partitions, size = nl.tile_size.pmax, shape.size
    kind = load_rows(embeddings.type_table[0, :])
    places = []
    for first in range(0, shape.length, partitions):
        position = nl.ndarray((partitions, size), kind.dtype)
        source = embeddings.position_table[first : first + shape.block, :]
        pattern = [[0, partitions // shape.block], [size, shape.block], [1, size]]
        nisa.dma_copy(position, source.ap(pattern))
        total = nl.ndarray(position.shape, nl.float32)
        nisa.tensor_tensor(total, position, kind, nl.add)
        places.append(total)
    return places


class _Layer:
    """A layer whose weights are on their way to SBUF, or there."""

    def __init__(self, layer: Layer, shape: Shape, eps: float, dtype: Any, element: str) -> None:
        self.shape, self.dtype, self.element = shape, dtype, element
        self.attention = SelfAttention(layer.w_qkv, layer.b_qkv, shape, dtype, element)
        self.w_out, self.b_out = load_weight(layer.w_out), load_rows(layer.b_out)
        self.norm1 = LayerNorm(layer.gamma1, layer.beta1, eps, dtype)
        self.w1, self.w2 = load_weight(layer.w1), load_weight(layer.w2)
        self.b1, self.b2 = load_hidden_bias(layer.b1, self.w2), load_rows(layer.b2)
        self.norm2 = LayerNorm(layer.gamma2, layer.beta2, eps, dtype)

    def run(self, tiles: list[nl.Tensor], mask: Mask, constants: Constants) -> list[nl.Tensor]:
        """Return the layer of all tokens, which are tiles (128, D) in SBUF."""
        return self._feed_forward(self._attend(tiles, mask, constants))

    def _attend(self, tiles: list[nl.Tensor], mask: Mask, constants: Constants) -> list[nl.Tensor]:
        biased = self._biased(tiles, self.b_out)
        count = sum(tile.shape[0] for tile in tiles)
        mixed = activations(self.w_out, self.shape.size, count, self.dtype, self.element)

        def turned(state: tuple[Tile, nl.Tensor | None]) -> int | None:
            (first, _), heads = state
            if heads is None:
                return None
            turn(mixed, first, heads, engine=nisa.scalar_engine)
            return first // nl.tile_size.pmax

        def sealed(at: int | None) -> int | None:
            if at is not None:
                seal(mixed, at * nl.tile_size.pmax, tiles[at].shape[0])
            return at

        def added(at: int | None) -> Any:
            return (
                None if at is None else self._added(mixed, at * nl.tile_size.pmax, self.w_out, biased[at], self.norm1)
            )

        def scaled(state: Any) -> Any:
            return None if state is None else self.norm1.scale(state)

        def normalized(state: Any) -> nl.Tensor | None:
            return None if state is None else self.norm1.apply(state)

        softmax = self.attention.project(tiles, 0, mask, constants)
        stages = (
            softmax.maxima,
            held,
            softmax.probabilities,
            softmax.weighted,
            turned,
            sealed,
            added,
            scaled,
            normalized,
        )
        return [tile for tile in pipelined(softmax.units(), *stages) if tile is not None]

    def _feed_forward(self, tiles: list[nl.Tensor]) -> list[nl.Tensor]:
        step = nl.tile_size.gemm_moving_fmax // nl.tile_size.pmax
        # The short group first: the norm of the others is still on its way.
        ends = range(len(tiles) % step or step, len(tiles) + 1, step)
        groups = [tiles[max(0, end - step) : end] for end in ends]

        def widened(group: list[nl.Tensor]) -> tuple[Operand, list[nl.Tensor]]:
            biased = self._biased(group, self.b2)
            count = sum(tile.shape[0] for tile in group)
            operand = activations(self.w1, self.shape.size, count, self.dtype, self.element)
            for at, tile in enumerate(group):
                turn(operand, at * nl.tile_size.pmax, tile, engine=nisa.scalar_engine)
            seal(operand, 0, count)
            active = hidden_activations(operand, count, self.w1, self.b1, self.w2, self.dtype, self.element)
            return active, biased

        def narrowed(state: tuple[Operand, list[nl.Tensor]]) -> list[nl.Tensor]:
            active, biased = state

            def added(at: int) -> Any:
                return self._added(active, at * nl.tile_size.pmax, self.w2, biased[at], self.norm2)

            return pipelined(range(len(biased)), added, self.norm2.scale, self.norm2.apply)

        return [tile for group in pipelined(groups, widened, narrowed) for tile in group]

    def _biased(self, tiles: list[nl.Tensor], bias: nl.Tensor) -> list[nl.Tensor]:
        """Return ``residual + bias`` in float32; GpSimdE has it long before the product that is added to it."""
        sums = []
        for tile in tiles:
            total = nl.ndarray(tile.shape, nl.float32)
            nisa.tensor_tensor(total, tile, bias[0 : tile.shape[0], :], nl.add, engine=nisa.gpsimd_engine)
            sums.append(total)
        return sums

    def _added(self, operand: Operand, first: int, weight: Operand, total: nl.Tensor, norm: LayerNorm) -> Any:
        """Add ``operand @ weight`` of a tile of tokens to `total` and take the statistics of the sum."""
        rows, size = total.shape
        for column, width in pieces(size, nl.tile_size.gemm_moving_fmax):
            of = slice(column, column + width)
            change = product(operand, operand.span(first, rows), weight, of)
            nisa.tensor_tensor(total[:, of], change, total[:, of], nl.add)
        return norm.statistics(total)
