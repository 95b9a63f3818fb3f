import math

import numpy as np
import pytest
from float64 import BFLOAT16, attention, feed_forward, layer_norm, mean_pool, padding, relative_error

import trn3
from trn3 import kernels
from trn3.errors import RuleError

EPS = 1e-12
#: sentences, length, features, heads, hidden features, layers
SHAPES = [
    (1, 32, 128, 4, 128, 1),
    (5, 32, 256, 4, 384, 2),
    (3, 64, 128, 2, 256, 1),
    (9, 128, 128, 4, 128, 1),
    (2, 256, 384, 12, 1536, 1),
]


def model(sentences, length, size, heads, hidden, layers, seed=0):
    rng = np.random.default_rng(seed)
    draw = lambda *shape: rng.standard_normal(shape, np.float32)  # noqa: E731
    dense = lambda rows, columns: draw(rows, columns) / np.float32(math.sqrt(rows))  # noqa: E731
    ids = rng.integers(0, 50, (sentences * length, 1), dtype=np.int32)
    embeddings = kernels.Embeddings(draw(50, size), draw(512, size), draw(2, size), draw(size), draw(size))
    made = [
        kernels.Layer(
            dense(size, 3 * size), draw(3 * size), dense(size, size), draw(size), draw(size), draw(size),
            dense(size, hidden), draw(hidden), dense(hidden, size), draw(size), draw(size), draw(size),
        )
        for _ in range(layers)
    ]  # fmt: skip
    return ids, padding(sentences, length, seed), embeddings, tuple(made), heads, length


def in_format(name, embeddings, layers):
    if name == "fp32":
        return embeddings, layers
    tables = [table.astype(BFLOAT16) for table in embeddings[:3]]
    cast = kernels.pack_weight if name == "mxfp8" else lambda weight: weight.astype(BFLOAT16)
    packed = tuple(
        layer._replace(**{field: cast(getattr(layer, field)) for field in ("w_qkv", "w_out", "w1", "w2")})
        for layer in layers
    )
    return kernels.Embeddings(*tables, *embeddings[3:]), packed


def expected(ids, mask, embeddings, layers, heads, length):
    places = np.arange(len(ids)) % length
    total = embeddings.word_table[ids[:, 0]].astype(np.float64) + embeddings.position_table[places]
    hidden = [layer_norm(total + embeddings.type_table[0], embeddings.gamma, embeddings.beta, EPS)]
    for w in layers:
        x = hidden[-1]
        given = attention(x, mask, w.w_qkv, w.b_qkv, w.w_out, w.b_out, heads, length)
        x = layer_norm(x + given, w.gamma1, w.beta1, EPS)
        hidden.append(layer_norm(x + feed_forward(x, w.w1, w.b1, w.w2, w.b2), w.gamma2, w.beta2, EPS))
    return mean_pool(hidden[-1], mask, length), hidden


def run(name, ids, mask, embeddings, layers, heads, length, **options):
    arguments = in_format(name, embeddings, layers)
    return trn3.run(kernels.encoder, ids, mask, *arguments, heads, length, EPS, **options)


@pytest.mark.parametrize(("name", "limit"), [("fp32", 2e-6), ("bf16", 2e-2), ("mxfp8", 1e-1)])
@pytest.mark.parametrize("shape", SHAPES)
def test_embeddings_and_hidden_states_agree_with_float64(shape, name, limit):
    arguments = model(*shape)
    found = run(name, *arguments)
    assert not found.findings
    sentences, hidden = found.result
    want, states = expected(*arguments)
    assert relative_error(sentences, want) < limit
    mask = arguments[1]
    assert len(hidden) == len(states)
    for layer, state in zip(hidden, states, strict=True):
        assert relative_error(layer[mask > 0], state[mask > 0]) < limit


def test_without_layers_it_is_embedding_and_pooling():
    arguments = model(3, 32, 128, 4, 128, 0)
    found = run("fp32", *arguments)
    sentences, hidden = found.result
    assert hidden.shape == (1, 96, 128)
    assert relative_error(sentences, expected(*arguments)[0]) < 1e-6
    assert [label.name for label in found.report.labels] == ["embedding", "pooling"]


def test_two_runs_give_the_same_bits_and_the_same_time():
    arguments = model(5, 32, 128, 4, 256, 2)
    one, two = (run("mxfp8", *arguments) for _ in range(2))
    for a, b in zip(one.result, two.result, strict=True):
        assert a.tobytes() == b.tobytes()
    assert one.report.total_s == two.report.total_s
    eager = run("mxfp8", *arguments, options=trn3.RunOptions(eager=True))
    assert eager.result[0].tobytes() == one.result[0].tobytes()


def test_labels_follow_the_layers():
    report = run("bf16", *model(5, 32, 128, 4, 256, 2)).report
    assert [label.name for label in report.labels] == ["embedding", "layer 0", "layer 1", "pooling"]
    ends = [label.end_s for label in report.labels]
    assert ends == sorted(ends)
    assert ends[-1] == report.total_s
    # Two tiles of tokens, one transfer each.
    assert [label.instructions for label in report.labels] == [2, 2, 2, 1]


def test_weights_are_read_once_and_tokens_stay_on_chip():
    ids, mask, embeddings, layers, heads, length = model(8, 32, 128, 4, 256, 2)
    report = run("fp32", ids, mask, embeddings, layers, heads, length).report
    states = 3 * len(ids) * 128 * 4
    weights = sum(array.nbytes for layer in layers for array in (layer.w_qkv, layer.w_out, layer.w1, layer.w2))
    assert weights + states < report.hbm_bytes < weights + states + 128 * 128 * 4 * 40


@pytest.mark.parametrize(
    ("field", "operand"), [("w_qkv", "w_qkv"), ("b_out", "b_out"), ("gamma2", "gamma2"), ("w2", "w2"), ("b1", "b1")]
)
def test_layers_of_another_model_are_refused(field, operand):
    ids, mask, embeddings, layers, heads, length = model(2, 32, 128, 4, 256, 2)
    wrong = layers[1]._replace(**{field: getattr(layers[1], field)[:64]})
    with pytest.raises(RuleError) as raised:
        run("fp32", ids, mask, embeddings, (layers[0], wrong), heads, length)
    assert (raised.value.rule, raised.value.operand) == ("kernel.shape", operand)


@pytest.mark.parametrize(("name", "limit"), [("fp32", 2e-6), ("bf16", 2e-2)])
def test_it_runs_on_trainium2_too(name, limit):
    arguments = model(5, 32, 256, 4, 384, 1)
    found = run(name, *arguments, options=trn3.RunOptions(target="trn2"))
    assert not found.findings
    assert relative_error(found.result[0], expected(*arguments)[0]) < limit


@pytest.mark.parametrize("name", ["fp32", "bf16", "mxfp8"])
def test_the_device_would_refuse_nothing(name):
    arguments = model(5, 32, 256, 4, 384, 1)
    strict = run(name, *arguments, options=trn3.RunOptions(checks="hardware", uninitialized="stop"))
    assert not strict.findings
    assert strict.result[0].tobytes() == run(name, *arguments).result[0].tobytes()
