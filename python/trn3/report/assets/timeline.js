// The timeline: engines, transfers, critical path, bandwidth and memory over one axis of time.

const GUTTER = 86, AXIS = 24, ROW = 24, STRIP = 16, AREA = 46;

const timeline = () => {
  const canvas = h("canvas", {
    tabindex: 0, role: "application",
    "aria-label": "Timeline. Left and right arrows go from block to block, up and down from row to row, plus and minus zoom, zero shows all.",
  });
  const detail = h("p.detail", { "aria-live": "polite" });
  let lanes = [], cursor = null, hover = null;

  const layout = () => {
    const { rows, critical, traffic, memories, total } = state.core;
    let top = AXIS;
    const lane = (kind, name, height, rest) => { lanes.push({ kind, name, top, height, ...rest }); top += height + 5; };
    lanes = [];
    lane("path", "critical path", STRIP, { columns: critical });
    for (const row of rows) lane("row", row.name, row.name.startsWith("dma") ? 15 : ROW, { columns: row });
    const step = total / traffic.length;
    lane("area", "HBM", AREA, {
      unit: "GB/s", series: [["dma", traffic.map((b, i) => [i * step, (b[0] + b[1]) / step * 1e3])]],
      limit: state.core.figures.roofline.hbm_bytes_per_s / 1e9, limitName: "peak of the stack",
    });
    for (const memory of memories)
      lane("area", memory.name.toUpperCase(), AREA, { unit: "B", series: [[memory.name === "sbuf" ? "accent" : "gpsimd", memory.time]], limit: memory.capacity, limitName: "capacity", top_value: Math.max(memory.peak_bytes * 1.2, memory.capacity / 1000) });
    return top + 4;
  };

  let width = 0, context = null, height = 0;
  const x = at => GUTTER + (at - state.from) / (state.to - state.from) * (width - GUTTER - 8);
  const timeAt = px => state.from + (px - GUTTER) / (width - GUTTER - 8) * (state.to - state.from);

  const draw = () => {
    height = layout();
    [context, width] = sharpen(canvas, height);
    const [ink, soft, line, font] = [colour("ink"), colour("soft"), colour("line"), "12px system-ui, sans-serif"];
    context.font = font;
    context.textBaseline = "middle";
    for (const at of ticks(state.from, state.to, Math.max(width / 140, 2))) {
      const px = Math.round(x(at)) + 0.5;
      context.strokeStyle = line;
      context.beginPath(); context.moveTo(px, AXIS - 4); context.lineTo(px, height); context.stroke();
      context.fillStyle = soft;
      context.textAlign = px > width - 40 ? "right" : "left";
      context.fillText(mark(at), px + (px > width - 40 ? -4 : 4), 12);
    }
    context.textAlign = "left";
    for (const lane of lanes) {
      context.save();
      context.beginPath(); context.rect(GUTTER, lane.top, width - GUTTER, lane.height + 1); context.clip();
      ({ path: drawPath, row: drawRow, area: drawArea })[lane.kind](lane, { ink, soft, line });
      context.restore();
      context.fillStyle = lane.kind === "row" ? ink : soft;
      if (!/\.\d$/.test(lane.name)) context.fillText(lane.name, 10, lane.top + lane.height / 2, GUTTER - 16);
    }
  };

  const drawPath = lane => {
    const { columns } = lane;
    for (let i = firstAfter(columns, state.from); i < columns.size && columns.start[i] < state.to; i++) {
      context.globalAlpha = state.place === null || columns.place[i] === state.place ? 1 : 0.25;
      context.fillStyle = colours[hue(word(columns.resource, i))];
      context.fillRect(x(columns.start[i]), lane.top, Math.max(x(columns.end[i]) - x(columns.start[i]), 0.6), lane.height);
    }
    context.globalAlpha = 1;
  };

  const drawRow = lane => {
    const { columns } = lane, fill = colours[hue(lane.name)];
    context.fillStyle = colours.idle;
    context.fillRect(GUTTER, lane.top + lane.height - 1, width - GUTTER, 1);
    let before = 0;
    for (let i = firstAfter(columns, state.from); i < columns.size && columns.start[i] < state.to; i++) {
      const [left, right] = [x(columns.start[i]), x(columns.end[i])];
      const wait = Math.max(x(columns.start[i] - columns.stall_ps[i]), before);
      const chosen = state.place === null || columns.place[i] === state.place;
      if (columns.count[i] === 1 && left - wait > 2 && !lane.name.startsWith("dma")) {
        context.globalAlpha = chosen ? 0.8 : 0.25;
        context.fillStyle = colours.stall;
        context.fillRect(wait, lane.top + lane.height - 6, left - wait - 1, 5);
      }
      // A block of many is as strong as it is full.
      const full = columns.count[i] > 1 ? 0.35 + 0.65 * Math.min(columns.busy_ps[i] / (columns.end[i] - columns.start[i] || 1), 1) : 1;
      context.globalAlpha = chosen ? full : 0.2;
      context.fillStyle = fill;
      const blockWidth = Math.max(right - left - (right - left > 3 ? 0.7 : 0), 0.8);
      context.fillRect(left, lane.top, blockWidth, lane.height - 1);
      context.globalAlpha = 1;
      if (lane.columns === cursor?.columns && i === cursor.index) {
        context.strokeStyle = colours.ink; context.lineWidth = 2;
        context.strokeRect(Math.max(left, GUTTER) + 1, lane.top + 1, Math.max(Math.min(right, width) - Math.max(left, GUTTER) - 2, 1), lane.height - 3);
        context.lineWidth = 1;
      }
      if (blockWidth > 58 && lane.height >= ROW && chosen) {
        context.fillStyle = colours.paper;
        context.fillText(word(columns.label, i) || word(columns.instruction, i), Math.max(left, GUTTER) + 5, lane.top + lane.height / 2, blockWidth - 10);
      }
      before = right;
    }
  };

  const drawArea = (lane, { soft, line }) => {
    const most = Math.max(0, ...lane.series.flatMap(([, points]) => points.map(p => p[1])));
    const top = lane.top_value ?? (Math.max(lane.limit, most) || 1);
    const y = value => lane.top + lane.height - 1 - value / top * (lane.height - 4);
    context.strokeStyle = line;
    context.setLineDash([3, 3]);
    context.beginPath(); context.moveTo(GUTTER, y(lane.limit)); context.lineTo(width, y(lane.limit)); context.stroke();
    context.setLineDash([]);
    for (const [name, points] of lane.series) {
      context.fillStyle = colours[name];
      context.globalAlpha = 0.55;
      context.beginPath();
      context.moveTo(x(state.from), y(0));
      points.forEach(([at, value], i) => {
        const until = i + 1 < points.length ? points[i + 1][0] : state.core.total;
        if (until < state.from || at > state.to) return;
        context.lineTo(x(Math.max(at, state.from)), y(value));
        context.lineTo(x(Math.min(until, state.to)), y(value));
      });
      context.lineTo(x(state.to), y(0));
      context.fill();
      context.globalAlpha = 1;
    }
    context.fillStyle = soft;
    context.textAlign = lane.unit === "B" ? "left" : "right";
    context.font = "11px system-ui, sans-serif";
    const said = lane.unit === "B" ? `peak ${size(most)} of ${size(lane.limit)}` : `${lane.limit.toFixed(0)} ${lane.unit}`;
    context.fillText(said, lane.unit === "B" ? GUTTER + 5 : width - 6, lane.top + 8);
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "left";
  };

  const hit = event => {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    const lane = lanes.find(lane => py >= lane.top && py < lane.top + lane.height + 5);
    const at = timeAt(px);
    if (!lane || px < GUTTER) return { lane: null, at };
    if (lane.kind === "area") return { lane, at, index: -1 };
    const slack = (state.to - state.from) / width * 2, { columns } = lane;
    let index = firstAfter(columns, at - slack);
    if (index >= columns.size || columns.start[index] > at + slack) index = -1;
    return { lane, at, index };
  };

  const about = ({ lane, index, at }) => {
    if (lane.kind === "area") {
      return lane.series.flatMap(([, points]) => {
        const point = [...points].reverse().find(p => p[0] <= at);
        if (!point) return [];
        const value = lane.unit === "B" ? `${size(point[1])} a partition` : `${point[1].toFixed(1)} ${lane.unit}`;
        return [h("b", lane.name), ` ${value} at ${time(at)}`, h("div.soft", `${percent(point[1] / lane.limit)} of the ${lane.limitName}`)];
      });
    }
    const { columns } = lane, length = columns.end[index] - columns.start[index];
    if (lane.kind === "path") {
      const many = columns.count[index] > 1 ? ` and ${columns.count[index] - 1} shorter` : "";
      return [
        h("b", `${word(columns.instruction, index)} ${STEPS[word(columns.step, index)]}${many}`),
        h("div.soft", `${time(length)} of the critical path from ${time(columns.start[index])}, ${word(columns.resource, index)}`),
        columns.instance[index] >= 0 && h("div.mono", placeName(columns.place[index])),
      ];
    }
    const label = word(columns.label, index), name = word(columns.instruction, index);
    const many = columns.count[index] > 1;
    return [
      h("b", many ? `${count(columns.count[index])} instructions, the longest ${name}` : label ? `${label} (${name})` : name),
      h("div.soft", `#${columns.instance[index]} at ${time(columns.start[index])}, ${many ? `${time(columns.busy_ps[index])} of ${time(length)}` : time(length)}` +
        (columns.tail_ps[index] > 0 && !many ? `, result ${time(columns.tail_ps[index])} later` : "")),
      columns.bytes[index] > 0 && h("div.soft", `${size(columns.bytes[index])}, ${(columns.bytes[index] / length * 1e3).toFixed(1)} GB/s`),
      columns.stall_ps[index] > 0 && h("div.soft", `waited ${time(columns.stall_ps[index])} for ${waited(word(columns.cause, index))}`),
      h("div.mono", placeName(columns.place[index])),
    ];
  };

  const point = found => {
    cursor = found && found.index >= 0 ? { columns: found.lane.columns, index: found.index, lane: found.lane } : null;
    detail.replaceChildren(...(cursor ? about(found) : ["Point at a block, or move with the arrow keys; a click chooses its source line."]).filter(Boolean));
  };

  let drag = null;
  canvas.addEventListener("pointerdown", event => {
    const y = event.clientY - canvas.getBoundingClientRect().top;
    drag = { x: event.clientX, from: state.from, to: state.to, moved: false, brush: y < AXIS || event.shiftKey };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", event => {
    if (drag) {
      drag.moved ||= Math.abs(event.clientX - drag.x) > 3;
      if (!drag.moved) return;
      hideTip();
      const left = canvas.getBoundingClientRect().left;
      if (drag.brush) {
        draw();
        context.fillStyle = colours.accent; context.globalAlpha = 0.15;
        context.fillRect(Math.min(drag.x, event.clientX) - left, 0, Math.abs(event.clientX - drag.x), height);
        context.globalAlpha = 1;
      } else {
        const by = (drag.x - event.clientX) / (width - GUTTER - 8) * (drag.to - drag.from);
        show(drag.from + by, drag.to + by);
      }
      return;
    }
    hover = hit(event);
    if (!hover.lane || (hover.index < 0 && hover.lane.kind !== "area")) { hideTip(); return; }
    showTip(event, ...about(hover).filter(Boolean));
  });
  canvas.addEventListener("pointerup", event => {
    const was = drag;
    drag = null;
    if (!was) return;
    if (was.moved) {
      const left = canvas.getBoundingClientRect().left;
      if (was.brush) show(timeAt(Math.min(was.x, event.clientX) - left), timeAt(Math.max(was.x, event.clientX) - left));
      return;
    }
    const found = hit(event);
    point(found);
    if (found.index >= 0) choose(found.lane.columns.place[found.index]); else draw();
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("dblclick", event => zoom(0.4, hit(event).at));
  canvas.addEventListener("wheel", event => {
    if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(Math.exp(event.deltaY * 0.004), hit(event).at); }
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); pan(event.deltaX / width); }
  }, { passive: false });

  const step = (rows, blocks) => {
    const walkable = lanes.filter(lane => lane.kind !== "area" && lane.columns.size);
    if (!walkable.length) return;
    let number = walkable.findIndex(lane => lane.columns === cursor?.columns), index;
    if (number < 0) { number = Math.min(1, walkable.length - 1); index = firstAfter(walkable[number].columns, state.from); }
    else if (rows) {
      number = Math.min(Math.max(number + rows, 0), walkable.length - 1);
      index = firstAfter(walkable[number].columns, cursor.columns.start[cursor.index]);
    } else index = cursor.index + blocks;
    const lane = walkable[number];
    index = Math.min(Math.max(index, 0), lane.columns.size - 1);
    point({ lane, index });
    const { start, end } = lane.columns;
    if (end[index] < state.from || start[index] > state.to) show(start[index] - (state.to - state.from) / 2, start[index] + (state.to - state.from) / 2);
    else draw();
  };
  const KEYS = {
    ArrowLeft: () => step(0, -1), ArrowRight: () => step(0, 1), ArrowUp: () => step(-1, 0), ArrowDown: () => step(1, 0),
    "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), "0": () => show(0, state.core.total),
    w: () => zoom(0.6), s: () => zoom(1 / 0.6), a: () => pan(-0.2), d: () => pan(0.2),
    Enter: () => cursor && choose(cursor.columns.place[cursor.index]), Escape: () => state.place !== null && choose(state.place),
  };
  canvas.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });

  onChange(what => { if (what === "core") { cursor = null; point(null); } draw(); });
  point(null);
  const button = (label, name, act) => h("button", { "aria-label": name, title: name, onclick: act }, label);
  return h("section", { id: "timeline" },
    h("div.title", h("h2", "Timeline"),
      h("span", { style: "display:flex;gap:4px" }, button("−", "Zoom out", () => zoom(1 / 0.6)), button("+", "Zoom in", () => zoom(0.6)), button("All", "Show the whole run", () => show(0, state.core.total))),
      h("span.hint.optional", "drag to move, drag along the axis to zoom in, ", h("kbd", "Ctrl"), " + wheel, or ", h("kbd", "W"), " ", h("kbd", "A"), " ", h("kbd", "S"), " ", h("kbd", "D"))),
    h("div.stage", canvas),
    h("ul.legend", ["tensor", "vector", "scalar", "gpsimd", "sync", "dma"].map(name => h("li", key(name), name)), h("li", key("stall"), "waiting")),
    detail);
};
