"""The page in headless Chromium: it draws, answers to mouse and keyboard, and asks nobody for anything."""

import pathlib

import pytest

import chromium
import reported

pytestmark = pytest.mark.skipif(
    chromium.executable() is None, reason="no Chromium here (Debian: apt-get install chromium-headless-shell)"
)
RUNS = {**reported.runs(), **reported.edges()} if chromium.executable() else {}


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with chromium.browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    for name, run in RUNS.items():
        run.report.write_html(folder / f"{name}.html")
    return folder


def opened(tab, pages, name, width=1200, scheme="light"):
    tab.media(scheme)
    tab.size(width, 900, width < 700)
    tab.open(pages / f"{name}.html")
    return tab


def painted(tab, which="#timeline canvas"):
    """How many colours a canvas shows."""
    return tab.run(
        f"""(() => {{ const c = document.querySelector({which!r}), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return seen.size; }})()"""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 800, 1600])
def test_it_draws_without_a_problem_at_any_width(tab, pages, width, scheme):
    opened(tab, pages, "product", width, scheme)
    assert tab.problems() == []
    assert tab.requests() == [(pages / "product.html").as_uri()]
    assert tab.run("document.documentElement.dataset.theme") == scheme
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert painted(tab) > 8
    assert painted(tab, "#memory canvas") > 4


@pytest.mark.parametrize("name", ["chain", "looped", "uneven", "meeting", "deviating", "pipelined"])
def test_every_kind_of_run_has_its_sections(tab, pages, name):
    opened(tab, pages, name)
    assert tab.problems() == []
    sections = tab.run("[...document.querySelectorAll('main section')].map(s => s.id)")
    expected = [
        "figures",
        "timeline",
        "engines",
        "critical",
        "source",
        "memory",
        "roofline",
        "transfers",
        "assumptions",
    ]
    assert [s for s in sections if s != "findings"] == expected
    assert ("findings" in sections) == bool(RUNS[name].findings)
    headline = tab.run("document.querySelector('.figure .value').textContent")
    assert float(headline.rstrip("µs ")) == pytest.approx(RUNS[name].report.total_s * 1e6, abs=0.006)


def test_findings_show_line_and_fix(tab, pages):
    opened(tab, pages, "deviating")
    text = tab.run("document.querySelector('#findings').textContent")
    for finding in RUNS["deviating"].findings:
        assert finding["fix"] in text
        assert finding["rule"] in text
        assert f"reported.py:{finding['line']}" in text


def test_pointing_at_a_block_says_what_it_is(tab, pages):
    opened(tab, pages, "chain")
    box = tab.run(
        "(() => { const b = document.querySelector('#timeline canvas').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()"
    )
    tips = set()
    for step in range(60):
        tab.mouse("mouseMoved", box[0] + 90 + (box[2] - 100) * step / 60, box[1] + 58)
        tips.add(tab.run("tip.hidden ? '' : tip.textContent"))
    named = [tip for tip in tips if tip.startswith("tensor_copy")]
    assert named
    assert any("waited" in tip for tip in named)
    assert all("reported.py:" in tip for tip in named)


def test_the_keyboard_walks_zooms_and_chooses(tab, pages):
    opened(tab, pages, "chain")
    tab.run("document.querySelector('#timeline canvas').focus()")
    said = "document.querySelector('.detail').textContent"
    tab.press("ArrowRight")
    first = tab.run(said)
    tab.press("ArrowRight")
    second = tab.run(said)
    assert first != second
    assert "tensor_copy" in second
    tab.press("Enter")
    assert tab.run("document.querySelectorAll('#source tr.chosen').length") == 1
    tab.press("Escape")
    assert tab.run("document.querySelectorAll('tr.chosen').length") == 0
    before = tab.screenshot(whole=False)
    tab.press("+")
    assert tab.screenshot(whole=False) != before
    tab.press("0")
    tab.press("Escape")
    assert tab.problems() == []


def test_a_drag_along_the_axis_zooms_and_all_shows_all(tab, pages):
    opened(tab, pages, "pipelined")
    left, top, width = tab.run(
        "(() => { const b = document.querySelector('#timeline canvas').getBoundingClientRect(); return [b.left, b.top, b.width]; })()"
    )
    before = tab.screenshot(whole=False)
    tab.mouse("mousePressed", left + width / 2, top + 8, button="left", clickCount=1)
    tab.mouse("mouseMoved", left + width / 2 + 60, top + 8, button="left")
    tab.mouse("mouseReleased", left + width / 2 + 60, top + 8, button="left", clickCount=1)
    tab.mouse("mouseMoved", 1, 1)
    assert tab.screenshot(whole=False) != before
    tab.run("document.querySelector('#timeline button[title=\"Show the whole run\"]').click()")
    tab.run("document.activeElement.blur()")
    assert tab.screenshot(whole=False) == before


def test_source_lines_sort_by_a_heading(tab, pages):
    opened(tab, pages, "product")
    rows = (
        "[...document.querySelectorAll('#source tbody tr[data-place]')].map(r => +r.querySelector('.line').textContent)"
    )
    written = tab.run(rows)
    assert written == sorted(written)
    tab.run("document.querySelector('#source th button').click()")
    lines = [line for line in RUNS["product"].report.lines if line.critical_s > 0]
    assert tab.run(rows) == [line.line for line in sorted(lines, key=lambda line: -line.critical_s)]
    assert tab.run("document.querySelector('#source th').getAttribute('aria-sort')") == "descending"
    tab.run("[...document.querySelectorAll('#source button')].find(b => b.textContent === 'As written').click()")
    assert tab.run(rows) == written


def test_tables_sort_and_unfold(tab, pages):
    opened(tab, pages, "pipelined")
    cells = "[...document.querySelectorAll('#critical tbody tr')].map(r => r.cells[3].textContent)"
    folded = tab.run(cells)
    tab.run("document.querySelector('#critical .more-rows').click()")
    assert len(tab.run(cells)) == len(RUNS["pipelined"].report.critical_path.groups) > len(folded)
    tab.run("[...document.querySelectorAll('#critical th button')].find(b => b.textContent === 'times').click()")
    counts = [int(text.replace(",", "")) for text in tab.run(cells)]
    assert counts == sorted(counts, reverse=True)


def test_both_cores_can_be_looked_at(tab, pages):
    opened(tab, pages, "waiting")
    about = "document.querySelector('#figures .lead').textContent"
    first = tab.run(about)
    tab.run("document.querySelectorAll('[role=tab]')[1].click()")
    assert tab.run(about) != first
    assert tab.run("document.querySelectorAll('[role=tab]')[1].getAttribute('aria-selected')") == "true"
    assert tab.problems() == []
    opened(tab, pages, "chain")
    assert tab.run("document.querySelectorAll('[role=tab]').length") == 0


def test_the_theme_can_be_chosen(tab, pages):
    opened(tab, pages, "product", scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = tab.run(background)
    for expected in ("light", "dark", "light"):
        tab.run("[...document.querySelectorAll('header button')].find(b => b.textContent.startsWith('Theme')).click()")
        assert tab.run("document.documentElement.dataset.theme") == expected
        assert (tab.run(background) == light) == (expected == "light")


def contrast(tab, foreground):
    return tab.run(
        f"""(() => {{ const light = c => {{ const v = c.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255).map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; }};
        const probe = document.createElement("i"); document.body.append(probe);
        probe.style.color = "var(--{foreground})"; probe.style.backgroundColor = "var(--paper)";
        const [a, b] = [light(getComputedStyle(probe).color), light(getComputedStyle(probe).backgroundColor)].sort((x, y) => y - x); probe.remove(); return (a + 0.05) / (b + 0.05); }})()"""
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_stand_out(tab, pages, scheme):
    opened(tab, pages, "product", scheme=scheme)
    assert contrast(tab, "ink") > 12
    assert contrast(tab, "soft") > 4.5
    for mark in ("tensor", "vector", "scalar", "gpsimd", "sync", "dma", "accent"):
        assert contrast(tab, mark) > 3, mark


def test_a_page_of_nothing_has_no_number_that_is_none(tab, pages):
    opened(tab, pages, "nothing")
    text = tab.run("document.body.innerText")
    assert "NaN" not in text
    assert "Infinity" not in text
    assert "Nothing ran." in text


def test_the_verdict_is_about_what_decided(tab, pages):
    opened(tab, pages, "waiting")
    assert "is the other core's" in tab.run("document.querySelector('p.lead').innerText")
    path = RUNS["pipelined"].report.critical_path
    name = max(path.resources, key=path.resources.get)
    largest = next(group for group in path.groups if group.resource == name and group.instruction)
    opened(tab, pages, "pipelined")
    assert f"Its largest piece is {largest.instruction}" in tab.run("document.querySelector('p.lead').innerText")


def test_it_prints(tab, pages):
    opened(tab, pages, "product")
    made = tab.pdf()
    assert made.startswith(b"%PDF")
    assert len(made) > 20_000
    assert tab.problems() == []


def test_each_control_has_a_name_and_can_be_reached(tab, pages):
    opened(tab, pages, "pipelined")
    unnamed = tab.run(
        "[...document.querySelectorAll('button, [role=application], [role=img], canvas')].filter(e => !e.hidden && !(e.getAttribute('aria-label') || e.textContent.trim() || e.title) && e.children.length).map(e => e.outerHTML)"
    )
    assert unnamed == []
    reachable = tab.run(
        "[...document.querySelectorAll('button, a, canvas[role=application], tr[tabindex]')].every(e => e.tabIndex >= 0)"
    )
    assert reachable
    assert pathlib.Path(reported.__file__).name in tab.run("document.querySelector('#source').textContent")
