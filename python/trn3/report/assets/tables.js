// Tables: engines, critical path, source lines, findings.

/** A table whose columns sort when their heading is pressed; `shown` rows at first. */
const table = ({ columns, rows, shown, place, sorted = null }) => {
  let order = sorted, all = false;
  const body = h("tbody"), more = h("button.more-rows"), heads = columns.map((column, number) => {
    const head = h(column.number ? "th.num" : "th", { scope: "col" });
    head.append(column.value ? h("button", { onclick: () => sort(number) }, column.name) : column.name);
    return head;
  });
  const sort = number => {
    order = { number, down: order?.number === number ? !order.down : columns[number].number };
    build();
  };
  const build = () => {
    let list = [...rows];
    if (order) {
      const value = columns[order.number].value;
      list.sort((a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (order.down ? -1 : 1));
    }
    heads.forEach((head, number) => {
      if (order?.number === number) head.setAttribute("aria-sort", order.down ? "descending" : "ascending"); else head.removeAttribute("aria-sort");
    });
    if (!all) list = list.slice(0, shown);
    body.replaceChildren(...list.map(row => h("tr", place && { "data-place": place(row) }, columns.map(column => column.cell(row)))));
    more.hidden = rows.length <= shown;
    more.textContent = all ? "Show fewer" : `Show all ${count(rows.length)}`;
    markChosen(body);
  };
  more.addEventListener("click", () => { all = !all; build(); });
  build();
  return h("div.wide", h("table", h("thead", h("tr", heads)), body), more);
};
const markChosen = root => root.querySelectorAll("tr[data-place]").forEach(row => row.classList.toggle("chosen", state.place !== null && +row.dataset.place === state.place));

/** A source place that is chosen when pressed. */
const placeLink = number => h("button.link", { title: "Show this line", onclick: event => { event.stopPropagation(); choose(number); document.querySelector(`#source tr[data-place="${number}"]`)?.scrollIntoView({ block: "center" }); } }, placeName(number));

const engines = () => {
  const { engines, total_s: total } = state.core.figures;
  const parts = e => {
    const waits = Object.entries(e.stalls).sort((a, b) => b[1] - a[1]);
    return [[e.active_s / total, `var(--${hue(e.name)})`, `active ${percent(e.active_s / total)}`],
      ...waits.map(([cause, s], i) => [s / total, `color-mix(in srgb, var(--stall) ${100 - 28 * Math.min(i, 2)}%, var(--idle))`, `waited for ${waited(cause)} ${percent(s / total)}`])];
  };
  return h("section", { id: "engines" }, h("div.title", h("h2", "Engines"), h("span.hint", "active, waiting, idle")),
    table({
      columns: [
        { name: "engine", cell: e => h("td.whole", key(hue(e.name)), e.name) },
        { name: "instructions", number: true, cell: e => h("td.num", count(e.instructions)), value: e => e.instructions },
        { name: "active", number: true, cell: e => h("td.num", total ? percent(e.active_s / total) : "–"), value: e => e.active_s },
        { name: "", cell: e => h("td", { style: "width:38%;min-width:110px" }, bar(parts(e))) },
        { name: "longest waits", cell: e => h("td.soft", Object.entries(e.stalls).sort((a, b) => b[1] - a[1]).slice(0, 2).map(([cause, s]) => `${waited(cause)} ${percent(s / total)}`).join(", ") || "–") },
      ],
      rows: engines, shown: 9,
    }));
};

const criticalPath = () => {
  const { critical_path: path, total_s: total } = state.core.figures;
  const gains = Object.entries(path.resources).sort((a, b) => b[1] - a[1]).filter(([name]) => name !== "none");
  return h("section", { id: "critical" }, h("div.title", h("h2", "Critical path"), h("span.hint", `${count(path.segments)} constraints in a row that decided the total`)),
    bar([...gains.map(([name, s]) => [s / total, `var(--${hue(name)})`, `${name} ${percent(s / total)}`])]),
    h("ul.legend", { style: "margin-bottom:10px" }, gains.map(([name, s]) => h("li", key(hue(name)), `faster ${name} work gains at most `, h("b", seconds(s))))),
    table({
      columns: [
        { name: "what", cell: g => h("td", key(hue(g.resource)), h("span.mono", g.instruction), g.instruction ? " " : "", h("span.soft", STEPS[g.step])) , value: g => g.instruction },
        { name: "share", number: true, cell: g => h("td.num", percent(g.time_s / total)), value: g => g.time_s },
        { name: "time", number: true, cell: g => h("td.num", seconds(g.time_s)), value: g => g.time_s },
        { name: "times", number: true, cell: g => h("td.num.soft", count(g.count)), value: g => g.count },
        { name: "line", cell: g => h("td.mono.soft", g.instruction ? placeLink(g.place) : "") },
      ],
      rows: path.groups, shown: 8, place: g => g.place,
    }));
};

const spills = () => {
  const { spills, total_s: total } = state.core.figures;
  if (!spills.length) return null;
  const bytes = spills.reduce((sum, s) => sum + s.bytes, 0), critical = spills.reduce((sum, s) => sum + s.critical_s, 0);
  return h("section", { id: "spills" }, h("div.title", h("h2", "Spilled"), h("span.hint", `SBUF had no room: ${size(bytes)} went to HBM and back, ${percent(critical / total)} of the critical path`)),
    table({
      columns: [
        { name: "tensor", cell: s => h("td", h("span.mono", s.name), " ", h("span.soft", `${s.shape.join(" x ")} ${s.dtype}`)), value: s => s.name },
        { name: "stores", number: true, cell: s => h("td.num", count(s.stores)), value: s => s.stores },
        { name: "reloads", number: true, cell: s => h("td.num", count(s.reloads)), value: s => s.reloads },
        { name: "bytes", number: true, cell: s => h("td.num", size(s.bytes)), value: s => s.bytes },
        { name: "critical", number: true, cell: s => h("td.num", percent(s.critical_s / total)), value: s => s.critical_s },
        { name: "declared", cell: s => h("td.mono.soft", placeLink(s.place)) },
        { name: "room needed by", cell: s => h("td.mono.soft", placeLink(s.needed_place)) },
      ],
      rows: spills, shown: 8, place: s => s.place,
    }));
};

const findings = () => {
  const { findings } = data.figures;
  if (!findings.length) return null;
  return h("section", { id: "findings" }, h("div.title", h("h2", "Findings"), h("span.hint", "where the program leaves what the documents say")),
    findings.map(f => h("div.note", h("div", h("span.mono.where", placeLink(f.place)), " ", f.instruction, f.operand ? `: ${f.operand}` : "", " ", f.value, f.limit ? `; ${f.limit}` : ""),
      h("div.fix", f.fix, " ", h("code.faint", f.rule)))));
};

const KEYWORDS = /^(and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield|None|True|False)$/;
const tokens = text => [...text.matchAll(/(#.*)|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|([A-Za-z_]\w*)|([^A-Za-z_#"']+|["'])/g)].map(([all, comment, string, name]) =>
  comment ? h("span.c", all) : string ? h("span.s", all) : name && KEYWORDS.test(name) ? h("span.k", all) : all);

const LINE_COLUMNS = [
  { name: "critical", value: l => l.critical_s, cell: (l, total) => [l.critical_s > 0 && percent(l.critical_s / total), bar([[l.critical_s / total, "var(--accent)", `${seconds(l.critical_s)} of the critical path`]], "bar.inline.optional")] },
  { name: "engine time", optional: true, value: l => Object.values(l.engines).reduce((a, b) => a + b, 0), cell: (l, total) => {
    const parts = Object.entries(l.engines), sum = parts.reduce((a, [, s]) => a + s, 0);
    return [sum > 0 && seconds(sum), bar(parts.map(([name, s]) => [s / total, `var(--${hue(name)})`, `${name} ${seconds(s)}`]), "bar.inline.optional")];
  } },
  { name: "waiting", optional: true, value: l => Object.values(l.stalls).reduce((a, b) => a + b, 0), cell: l => {
    const waits = Object.entries(l.stalls), sum = waits.reduce((a, [, s]) => a + s, 0);
    return sum > 0 ? h("span", { title: waits.map(([cause, s]) => `${waited(cause)} ${seconds(s)}`).join(", ") }, seconds(sum)) : "";
  } },
  { name: "moved", value: l => l.dma_bytes, cell: l => (l.dma_bytes ? size(l.dma_bytes) : "") },
  { name: "instructions", value: l => l.instructions, cell: l => count(l.instructions), optional: true },
];

const source = () => {
  const section = h("section", { id: "source" });
  let order = null;
  const build = () => {
    const { lines, total_s: total } = state.core.figures, byPlace = new Map(lines.map(line => [`${line.file}\n${line.line}`, line]));
    const most = Math.max(...lines.map(l => l.critical_s), 1e-30);
    const row = (file, number, text, named) => {
      const line = byPlace.get(`${file}\n${number}`);
      return h("tr", line && { "data-place": line.place, tabindex: 0, style: `--heat:color-mix(in srgb, var(--accent) ${Math.round(line.critical_s / most * 100)}%, var(--line))` },
        LINE_COLUMNS.map(column => h(column.optional ? "td.num.optional" : "td.num", line ? column.cell(line, total) : null)),
        h("td.line.num", named ?? number), h("td.text", tokens(text)));
    };
    const gap = (said, title = null) => h("tr.gap", LINE_COLUMNS.map(column => h(column.optional ? "td.optional" : "td")), h("td"), h("td.text", { title }, said));
    const rows = [];
    if (order === null) {
      for (const { file, name, parts } of data.sources) {
        if (!parts.some(([first, texts]) => texts.some((_, i) => byPlace.has(`${file}\n${first + i}`)))) continue;
        rows.push(gap(name, file));
        parts.forEach(([first, texts], i) => {
          if (i) rows.push(gap("⋮"));
          texts.forEach((text, at) => rows.push(row(file, first + at, text)));
        });
      }
      const known = new Set(data.sources.map(each => each.file));
      const unread = lines.filter(line => !known.has(line.file));
      if (unread.length) rows.push(gap("lines whose source could not be read"), ...unread.map(l => row(l.file, l.line, "", placeName(l.place))));
    } else {
      const { value } = LINE_COLUMNS[order], text = new Map();
      for (const { file, parts } of data.sources) for (const [first, texts] of parts) texts.forEach((t, i) => text.set(`${file}\n${first + i}`, t.trim()));
      for (const l of [...lines].filter(l => value(l) > 0).sort((a, b) => value(b) - value(a))) rows.push(row(l.file, l.line, text.get(`${l.file}\n${l.line}`) ?? "", data.sources.length > 1 ? placeName(l.place) : l.line));
    }
    const head = (name, number, optional) => h(optional ? "th.num.optional" : "th.num", { scope: "col", "aria-sort": number === order ? "descending" : false }, h("button", { onclick: () => { order = number; build(); } }, name));
    section.replaceChildren(
      h("div.title", h("h2", "Source"),
        h("span.hint", order === null ? "press a heading to see the lines in its order, a line to find it in the timeline" : "lines with figures only"),
        order !== null && h("button", { onclick: () => { order = null; build(); } }, "As written")),
      h("div.wide", h("table.code", h("thead", h("tr", LINE_COLUMNS.map((column, i) => head(column.name, i, column.optional)), h("th.num", "line"), h("th"))), h("tbody", rows))));
    markChosen(section);
  };
  build();
  onChange(what => { if (what === "core") build(); });
  return section;
};
