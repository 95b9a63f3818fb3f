// SBUF and PSUM: which tensor lies where and when, and who owns the peak.

const MAP = 190;

const memoryMap = memory => {
  const canvas = h("canvas", { role: "img", "aria-label": `${memory.name.toUpperCase()} over time: one rectangle a tensor, addresses upwards.` });
  const { tensors } = memory;
  const top = tensors.size ? Math.max(...Array.from(tensors.address, (address, i) => address + tensors.bytes[i])) : memory.capacity;
  let context, width;
  const x = at => GUTTER + (at - state.from) / (state.to - state.from) * (width - GUTTER - 8);
  const y = address => MAP - 6 - address / top * (MAP - 14);
  const tint = place => `hsl(${(place * 137.5) % 360} 48% ${document.documentElement.dataset.theme === "dark" ? 58 : 52}%)`;

  const draw = () => {
    [context, width] = sharpen(canvas, MAP);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = colours.soft;
    context.textBaseline = "middle";
    context.fillText(size(top), 10, 12);
    context.fillText("0", 10, MAP - 10);
    context.save();
    context.beginPath(); context.rect(GUTTER, 0, width - GUTTER, MAP); context.clip();
    for (let i = 0; i < tensors.size; i++) {
      if (tensors.end[i] < state.from || tensors.start[i] > state.to) continue;
      const [left, right, low, high] = [x(tensors.start[i]), x(tensors.end[i]), y(tensors.address[i]), y(tensors.address[i] + tensors.bytes[i])];
      context.globalAlpha = state.place === null || state.place === tensors.place[i] ? 0.85 : 0.15;
      context.fillStyle = tint(tensors.place[i]);
      context.fillRect(left, high, Math.max(right - left - 0.5, 0.8), Math.max(low - high - 0.5, 0.8));
      if (right - left > 70 && low - high > 13) {
        context.globalAlpha = 1;
        context.fillStyle = colours.paper;
        context.fillText(tensors.name[i], Math.max(left, GUTTER) + 4, (low + high) / 2, right - left - 8);
      }
    }
    context.globalAlpha = 1;
    if (memory.peak_bytes) {
      context.strokeStyle = colours.ink;
      context.setLineDash([2, 3]);
      const px = x(memory.peak_ps);
      context.beginPath(); context.moveTo(px, 0); context.lineTo(px, MAP); context.stroke();
      context.setLineDash([]);
    }
    context.restore();
  };
  const hit = event => {
    const box = canvas.getBoundingClientRect();
    const at = state.from + (event.clientX - box.left - GUTTER) / (width - GUTTER - 8) * (state.to - state.from);
    const address = (MAP - 6 - (event.clientY - box.top)) / (MAP - 14) * top;
    for (let i = tensors.size - 1; i >= 0; i--)
      if (tensors.start[i] <= at && at < tensors.end[i] && tensors.address[i] <= address && address < tensors.address[i] + tensors.bytes[i]) return i;
    return -1;
  };
  canvas.addEventListener("pointermove", event => {
    const i = hit(event);
    if (i < 0) { hideTip(); return; }
    showTip(event, h("b", tensors.name[i]),
      h("div.soft", `${size(tensors.bytes[i])} a partition from address ${count(tensors.address[i])}`),
      h("div.soft", `${time(tensors.start[i])} to ${time(tensors.end[i])}`), h("div.mono", placeName(tensors.place[i])));
  });
  canvas.addEventListener("pointerleave", hideTip);
  canvas.addEventListener("click", event => { const i = hit(event); if (i >= 0) choose(tensors.place[i]); });
  return [canvas, draw];
};

const memories = () => {
  const section = h("section", { id: "memory" });
  const build = () => {
    const draws = [];
    section.replaceChildren(h("div.title", h("h2", "Memory"), h("span.hint", "bytes of each partition over time; the dotted line is the peak")));
    for (const memory of state.core.memories) {
      const figures = state.core.figures.memories.find(each => each.name === memory.name);
      const [canvas, draw] = memoryMap(memory);
      if (memory.tensors.size) draws.push(draw);
      const shown = memory.tensors.size < memory.tensor_count ? `, the ${count(memory.tensors.size)} largest of ${count(memory.tensor_count)} tensors are drawn` : "";
      fill(section, [
        h("h3", `${memory.name.toUpperCase()} `, h("span.soft", { style: "font-weight:400" },
          `${size(figures.peak_bytes)} of ${size(figures.capacity_bytes)} a partition at the peak (${percent(figures.peak_bytes / figures.capacity_bytes)}), at ${seconds(figures.peak_at_s)}${shown}`)),
        memory.tensors.size > 0 && h("div.stage", canvas),
        owners(figures)]);
    }
    section.redraw = () => draws.forEach(draw => draw());
  };
  build();
  onChange(what => { if (what === "core") build(); section.redraw(); });
  return section;
};

const owners = figures => {
  if (!figures.owners.length) return h("p.soft", "Nothing was placed here.");
  return table({
    columns: [
      { name: "owner of the peak", cell: o => h("td.mono", o.name), value: o => o.name },
      { name: "a partition", number: true, cell: o => h("td.num", size(o.bytes)), value: o => o.bytes },
      { name: "share", number: true, cell: o => h("td.num", percent(o.bytes / figures.peak_bytes)), value: o => o.bytes },
      { name: "shape", cell: o => h("td.mono.soft", `${o.shape.join(" × ")} ${o.dtype}`) },
      { name: "address", number: true, cell: o => h("td.num.soft", count(o.address)), value: o => o.address },
      { name: "declared at", cell: o => h("td.mono.soft", placeLink(o.place)) },
    ],
    rows: figures.owners, shown: 5, place: o => o.place,
  });
};
