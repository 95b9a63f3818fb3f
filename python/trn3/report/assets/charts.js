// Sizes of transfers, the roofline, and what the total hangs on.

const histogram = () => {
  const { transfers } = state.core.figures;
  if (!transfers.count) return h("section", { id: "transfers" }, h("div.title", h("h2", "Transfers")), h("p.soft", "No transfer was made."));
  const chart = (title, sizes, mean, advised) => {
    const low = Math.min(...sizes.map(s => Math.log2(s.size_bytes))), high = Math.max(...sizes.map(s => Math.log2(s.size_bytes)), advised ? Math.log2(advised) : 0);
    const classes = [];
    for (let power = Math.min(low, high - 5); power <= high; power++) classes.push(sizes.find(s => s.size_bytes === 2 ** power) ?? { size_bytes: 2 ** power, count: 0, bytes: 0 });
    const most = Math.max(...sizes.map(s => s.bytes)), W = 560, H = 168, each = W / classes.length;
    const place = bytes => (Math.log2(bytes) - Math.log2(classes[0].size_bytes)) * each;
    const sum = sizes.reduce((n, s) => n + s.bytes, 0);
    return h("figure", { style: "margin:0 0 10px" },
      h("figcaption.soft", { style: "font-size:13px" }, title),
      svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${title}: ${sizes.map(s => `${s.count} from ${size(s.size_bytes)}`).join(", ")}` },
        classes.map((s, i) => [
          svg("rect", { x: i * each + 2, width: Math.max(each - 4, 1), y: 124 - s.bytes / most * 78, height: s.bytes / most * 78, rx: 3, fill: "var(--dma)" },
            svg("title", `${count(s.count)} from ${size(s.size_bytes)}: ${size(s.bytes)}, ${percent(s.bytes / sum)} of all bytes`)),
          s.count > 0 && svg("text", { x: i * each + each / 2, y: 119 - s.bytes / most * 78, "text-anchor": "middle" }, count(s.count)),
          (classes.length < 14 || i % 2 === 0) && svg("text", { x: i * each + each / 2, y: 141, "text-anchor": "middle" }, size(s.size_bytes)),
        ]),
        svg("line", { class: "axis", x1: 0, x2: W, y1: 124.5, y2: 124.5 }),
        [[advised, "advised"], [mean, "mean"]].filter(([at]) => at).map(([at, name], i) => [
          svg("line", { x1: place(at), x2: place(at), y1: 10, y2: 124, stroke: i === 1 || !advised ? "var(--ink)" : "var(--good)", "stroke-dasharray": "4 3" }),
          svg("text", { x: place(at) + (place(at) > W / 2 ? -5 : 5), "text-anchor": place(at) > W / 2 ? "end" : "start", y: name === "mean" ? 16 : 31, fill: "var(--ink)" }, `${name} ${size(at)}`),
        ])));
  };
  return h("section", { id: "transfers" }, h("div.title", h("h2", "Transfers"), h("span.hint", `${count(transfers.count)} moved ${size(transfers.bytes)} in ${count(transfers.descriptors)} descriptors`)),
    chart("Bytes by size of transfer (how many, above the bars)", transfers.sizes, transfers.mean_bytes, transfers.advised_bytes),
    chart("Bytes by size of descriptor, the mean of its transfer", transfers.descriptor_sizes, transfers.descriptor_mean_bytes, 0),
    table({
      columns: [
        { name: "route", cell: r => h("td", r.name.replaceAll("_", " ").replace(/hbm|sbuf/g, m => m.toUpperCase())) },
        { name: "transfers", number: true, cell: r => h("td.num", count(r.transfers)) },
        { name: "bytes", number: true, cell: r => h("td.num", size(r.written_bytes)) },
      ],
      rows: state.core.figures.routes.filter(r => r.transfers), shown: 9,
    }));
};

const roofline = () => {
  const point = state.core.figures.roofline, title = h("div.title", h("h2", "Roofline"));
  if (!point.flops_per_byte) return h("section", { id: "roofline" }, title, h("p.soft", "The array did no work, so there is no point to show."));
  const W = 560, H = 330, left = 52, bottom = H - 34;
  const decades = value => Math.floor(Math.log10(value));
  const x0 = Math.min(decades(point.flops_per_byte), decades(point.ridge_flops_per_byte)) - 1, x1 = Math.max(decades(point.flops_per_byte), decades(point.ridge_flops_per_byte)) + 2;
  const y1 = decades(point.peak_flops_per_s) + 1, y0 = Math.min(decades(point.attained_flops_per_s), y1 - 3);
  const x = value => left + (Math.log10(value) - x0) / (x1 - x0) * (W - left - 20);
  const y = value => bottom - (Math.log10(value) - y0) / (y1 - y0) * (bottom - 14);
  const roof = value => Math.min(value * point.hbm_bytes_per_s, point.peak_flops_per_s);
  const grid = [];
  for (let d = x0; d <= x1; d++) grid.push(svg("line", { class: "axis", x1: x(10 ** d), x2: x(10 ** d), y1: 14, y2: bottom }), svg("text", { x: x(10 ** d), y: bottom + 15, "text-anchor": "middle" }, rate(10 ** d, "")));
  for (let d = y0; d <= y1; d++) grid.push(svg("line", { class: "axis", x1: left, x2: W - 20, y1: y(10 ** d), y2: y(10 ** d) }), svg("text", { x: left - 6, y: y(10 ** d) + 4, "text-anchor": "end" }, rate(10 ** d, "")));
  const share = point.attained_flops_per_s / point.roof_flops_per_s, startX = Math.max(10 ** x0, 10 ** y0 / point.hbm_bytes_per_s);
  const [px, py] = [x(point.flops_per_byte), y(point.attained_flops_per_s)];
  return h("section", { id: "roofline" }, title,
    h("p.soft", { style: "margin:0 0 6px" }, `${point.bound === "memory" ? "Bound by memory" : "Bound by the array"}: ${rate(point.attained_flops_per_s, "FLOP/s")}, ${percent(share)} of the ${rate(point.roof_flops_per_s, "FLOP/s")} that the roof allows at ${+point.flops_per_byte.toPrecision(3)} FLOP a byte of HBM.`),
    svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Attained rate against arithmetic intensity, logarithmic axes" }, grid,
      svg("path", { class: "roof", d: `M${x(startX)},${y(roof(startX))} L${x(point.ridge_flops_per_byte)},${y(point.peak_flops_per_s)} L${W - 20},${y(point.peak_flops_per_s)}` }),
      svg("line", { x1: px, x2: px, y1: y(point.roof_flops_per_s), y2: py, stroke: "var(--tensor)", "stroke-dasharray": "3 3" }),
      svg("circle", { cx: px, cy: py, r: 6, fill: "var(--tensor)" }),
      svg("text", { x: px > W - 120 ? px - 10 : px + 10, y: py + 4, "text-anchor": px > W - 120 ? "end" : "start", fill: "var(--ink)" }, "this run"),
      svg("text", { x: x(point.ridge_flops_per_byte), y: y(point.peak_flops_per_s) - 7, "text-anchor": "middle" }, `ridge ${+point.ridge_flops_per_byte.toPrecision(3)}`),
      svg("text", { x: W - 20, y: y(point.peak_flops_per_s) + 17, "text-anchor": "end" }, `array ${rate(point.peak_flops_per_s, "FLOP/s")}`),
      svg("text", { x: x(startX) + 14, y: y(roof(startX)) + 10 }, `HBM ${rate(point.hbm_bytes_per_s, "B/s")}`),
      svg("text", { x: (left + W) / 2, y: H - 3, "text-anchor": "middle" }, "FLOP a byte of HBM traffic")),
    table({
      columns: [
        { name: "operands", cell: f => h("td.mono", f.dtype) },
        { name: "FLOP", number: true, cell: f => h("td.num", rate(f.flops, "")) },
        { name: "peak of the array", number: true, cell: f => h("td.num", rate(f.peak_flops_per_s, "FLOP/s")) },
      ],
      rows: point.formats, shown: 6,
    }));
};

const assumptions = () => {
  const section = h("section", { id: "assumptions" },
    h("div.title", h("h2", "What this hangs on"), h("span.hint", "assumed constants of the hardware table, and how the total changes at either end of their plausible range: green is faster, red slower")));
  if (data.sensitivity === null) {
    section.append(h("p.soft", "The Program is long, so it was not timed again for each assumed constant; ", h("code", "report.write_html(path, sensitivity=True)"), " does."));
    return section;
  }
  if (!data.sensitivity.length) { section.append(h("p.soft", "No assumed constant changes the total.")); return section; }
  const total = data.figures.total_s, most = Math.max(...data.sensitivity.flatMap(s => [s.total_low_s, s.total_high_s].map(t => Math.abs(t - total))));
  const change = t => `${t < total ? "−" : "+"}${percent(Math.abs(t - total) / total)}`;
  const swing = s => {
    const ends = [s.total_low_s, s.total_high_s].map(t => (t - total) / most / 2 + 0.5);
    const [low, high] = [Math.min(0.5, ...ends), Math.max(0.5, ...ends)];
    return bar([[low, "transparent"], [0.5 - low, "var(--good)"], [high - 0.5, "var(--dma)"]]);
  };
  section.append(table({
    columns: [
      { name: "constant", cell: s => h("td.mono", { title: s.source }, s.key), value: s => s.key },
      { name: "value", number: true, cell: s => h("td.num", `${s.value} ${s.unit === "count" ? "" : s.unit}`) },
      { name: "plausible", number: true, cell: s => h("td.num.soft", `${s.low} to ${s.high}`) },
      { name: "at the low end", number: true, cell: s => h("td.num", s.total_low_s === total ? "±0" : change(s.total_low_s)), value: s => s.total_low_s },
      { name: "at the high end", number: true, cell: s => h("td.num", s.total_high_s === total ? "±0" : change(s.total_high_s)), value: s => s.total_high_s },
      { name: "total", cell: s => h("td", { style: "min-width:130px" }, swing(s)), value: s => Math.max(Math.abs(s.total_low_s - total), Math.abs(s.total_high_s - total)) },
    ],
    rows: data.sensitivity, shown: 8,
  }));
  return section;
};
