"""The page as a file: whole, self-contained, and made of real data. No browser is needed here."""

import html.parser
import json
import os
import re

import numpy as np
import pytest

import reported
import trn3
from trn3 import nki
from trn3.nki import isa as nisa
from trn3.nki import language as nl
from trn3.report import sources

RUNS = reported.runs()


class Elements(html.parser.HTMLParser):
    """Elements, their attributes and texts."""

    def __init__(self, text):
        super().__init__()
        self.found, self.open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append([tag, dict(attributes), ""])
        if tag not in ("meta", "link", "br"):
            self.open.append(len(self.found) - 1)

    def handle_endtag(self, tag):
        assert self.found[self.open.pop()][0] == tag

    def handle_data(self, text):
        if self.open:
            self.found[self.open[-1]][2] += text


def page_of(report, folder, **options):
    path = folder / "page.html"
    report.write_html(path, **options)
    assert os.listdir(folder) == ["page.html"]
    return path.read_text("utf-8")


def data_of(text):
    elements = Elements(text)
    assert not elements.open
    (data,) = [body for tag, attributes, body in elements.found if attributes.get("id") == "data"]
    return json.loads(data)


@pytest.mark.parametrize("name", RUNS)
def test_the_page_is_whole_and_needs_nothing(name, tmp_path):
    text = page_of(RUNS[name].report, tmp_path)
    elements = Elements(text)
    assert not elements.open
    assert not re.search(r"@(TITLE|STYLE|SCRIPT|DATA)@", text)
    for tag, attributes, _ in elements.found:
        for attribute in ("src", "href", "action", "srcset"):
            value = attributes.get(attribute)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
    code = "".join(
        body for tag, attributes, body in elements.found if tag in ("style", "script") and "id" not in attributes
    )
    for reach in (
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "import(",
        "@import",
        "url(http",
        "http://",
        "https://",
        "eval(",
    ):
        assert reach not in code.replace("http://www.w3.org/2000/svg", ""), reach
    policy = next(a["content"] for tag, a, _ in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert len(text) < 5_000_000


@pytest.mark.parametrize("name", RUNS)
def test_the_figures_are_those_of_the_report(name, tmp_path):
    report = RUNS[name].report
    data = data_of(page_of(report, tmp_path))
    figures = json.loads(report.to_json())
    assert all(
        data["figures"][key] == figures[key] for key in ("total_s", "mfu", "engines", "routes", "roofline", "schema")
    )
    assert len(data["cores"]) == (2 if report.peer else 1)
    for core, each in zip(data["cores"], filter(None, (report, report.peer)), strict=True):
        assert core["total_ps"] == each.timeline.total_ps
        assert sum(core["critical"]["length_ps"]) == pytest.approx(each.timeline.total_ps, abs=0)
        instructions = sum(sum(row["count"]) for row in core["rows"] if not row["name"].startswith("dma"))
        transfers = sum(sum(row["count"]) for row in core["rows"] if row["name"].startswith("dma"))
        control = name == "looped"
        assert (
            instructions + transfers >= each.figures.executed
            if control
            else instructions + transfers == each.figures.executed
        )
        assert transfers == each.transfers.count
        assert sum(sum(row["bytes"]) for row in core["rows"]) == each.transfers.bytes


def test_the_source_is_that_of_the_kernel(tmp_path):
    data = data_of(page_of(RUNS["product"].report, tmp_path))
    (source,) = data["sources"]
    assert source["name"] == "reported.py"
    ((first, lines),) = source["parts"]
    assert lines[0] == "def product(x, y):"
    assert lines == open_lines()[first - 1 : first - 1 + len(lines)]
    assert lines[-1].strip() == "return out"


def open_lines():
    with open(reported.__file__, encoding="utf-8") as file:
        return file.read().splitlines()


def test_names_cannot_break_out_of_the_page(tmp_path):
    def kernel(x):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.tensor_copy(tile, tile, name="</script><script>alert(1)</script>")
        nl.store(out, tile)
        return out

    text = page_of(trn3.run(kernel, reported.F32).report, tmp_path)
    assert "<script>alert" not in text
    rows = data_of(text)["cores"][0]["rows"]
    assert (
        "</script><script>alert(1)</script>" in next(row for row in rows if row["name"] == "vector")["label"]["words"]
    )


def test_a_long_program_stays_small(tmp_path):
    def kernel(x):
        out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
        tile = nl.load(x)
        for _ in nl.dynamic_range(20_000):
            nisa.tensor_copy(tile, tile)
            nisa.activation(tile, nl.exp, tile)
        nl.store(out, tile)
        return out

    program = nki.record(kernel, reported.F32)
    report = trn3.Report(program, trn3.Chip("trn3").table)
    text = page_of(report, tmp_path)
    assert len(text) < 2_000_000
    data = data_of(text)
    assert data["sensitivity"] is None
    rows = {row["name"]: row for row in data["cores"][0]["rows"]}
    assert sum(rows["vector"]["count"]) >= 20_000 > 5 * len(rows["vector"]["count"])
    assert sum(len(row["count"]) for row in rows.values()) < 40_000


def test_joined_blocks_keep_their_time(tmp_path):
    timeline = RUNS["pipelined"].report.timeline
    whole, few = dict(timeline.blocks(10_000)), dict(timeline.blocks(8))
    for name, blocks in whole.items():
        assert sum(few[name]["count"]) == len(blocks["count"])
        assert sum(few[name]["busy_ps"]) == sum(blocks["busy_ps"])
        assert few[name]["start_ps"][0] == blocks["start_ps"][0]
        assert max(few[name]["end_ps"]) == max(blocks["end_ps"])
    assert sum(map(len, (b["count"] for b in few.values()))) < sum(map(len, (b["count"] for b in whole.values())))


def test_sensitivity_can_be_left_out(tmp_path):
    assert data_of(page_of(RUNS["chain"].report, tmp_path, sensitivity=False))["sensitivity"] is None
    assert data_of(page_of(RUNS["chain"].report, tmp_path))["sensitivity"]


def test_a_folder_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(OSError):
        RUNS["chain"].report.write_html(tmp_path / "absent" / "page.html")


TEXT = """import a

@jit
def one(x):
    def inner(y):
        return y
    return inner(x)

z = 1
def two():
    pass
""".splitlines(keepends=True)


@pytest.mark.parametrize(
    "lines, spans",
    [
        ({7}, [(3, 7)]),
        ({6}, [(5, 6)]),
        ({6, 7}, [(3, 7)]),
        ({11}, [(10, 11)]),
        ({9}, [(6, 11)]),
        ({7, 11}, [(3, 7), (10, 11)]),
        ({99}, []),
    ],
)
def test_excerpts_are_the_functions_around_lines(lines, spans):
    (found,) = sources.excerpts([("f.py", line) for line in lines], lambda file: TEXT)
    assert [(first, first + len(part) - 1) for first, part in found["parts"]] == spans


def test_a_file_that_cannot_be_read_or_parsed_is_no_error():
    assert sources.excerpts([("absent.py", 3)], lambda file: []) == []
    (found,) = sources.excerpts([("broken.py", 2)], lambda file: ["def (\n", "x\n"])
    assert found["parts"] == [[1, ["def (", "x"]]]


def test_the_same_run_gives_the_same_page(tmp_path):
    x = np.zeros((8, 128, 512), np.float32)
    pages = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        pages.append(page_of(trn3.run(reported.pipelined, x).report, folder))
    assert pages[0] == pages[1]
