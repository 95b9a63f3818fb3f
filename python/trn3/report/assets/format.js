// Numbers as people read them, and elements.

const time = ps => {
  const s = Math.abs(ps);
  for (const [unit, scale] of [["s", 1e12], ["ms", 1e9], ["µs", 1e6]]) if (s >= scale) return `${fixed(ps / scale)} ${unit}`;
  return `${(ps / 1e3).toFixed(s < 1e4 ? 1 : 0)} ns`;
};
/** A time on an axis: no more digits than it needs. */
const mark = ps => (ps === 0 ? "0" : time(ps).replace(/\.?0+ /, " "));
const fixed = x => (Math.abs(x) >= 100 ? x.toFixed(1) : x.toFixed(2));
const seconds = s => time(s * 1e12);
const size = bytes => {
  for (const [unit, scale] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
    if (bytes >= scale) return `${+(bytes / scale).toPrecision(4)} ${unit}`;
  return `${+bytes.toPrecision(4)} B`;
};
const percent = x => `${(x * 100).toFixed(x !== 0 && Math.abs(x) < 0.1 ? 1 : 0)}\u00a0%`;
const count = n => n.toLocaleString("en");
const rate = (x, unit) => {
  for (const [name, scale] of [["P", 1e15], ["T", 1e12], ["G", 1e9], ["M", 1e6]])
    if (x >= scale) return `${+(x / scale).toPrecision(3)} ${name}${unit}`;
  return `${+x.toPrecision(3)} ${unit}`;
};

/** An element: `h("td.num", {title: "…"}, "text", child)`. Text is never parsed as HTML. */
const h = (what, ...children) => {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag);
  if (classes.length) element.className = classes.join(" ");
  return fill(element, children);
};
const svg = (tag, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), children);
const fill = (element, children) => {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node || typeof child !== "object") { element.append(child); continue; }
    for (const [name, value] of Object.entries(child)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value === true ? "" : value);
    }
  }
  return element;
};
const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Whose colour a row or a resource has. */
const hue = name => (name.startsWith("dma") ? "dma" : ["tensor", "vector", "scalar", "gpsimd", "sync"].includes(name) ? name : "none");
const key = name => h("i.key", { style: `background:var(--${name})` });

/** A bar of parts: [share, CSS colour, title]. */
const bar = (parts, cls = "bar") => {
  const said = parts.map(part => part[2]).filter(Boolean).join("; ");
  return h(`div.${cls}`, said ? { role: "img", "aria-label": said } : { "aria-hidden": "true" },
    parts.filter(p => p[0] > 0).map(([share, fill, title]) => h("i", { style: `width:${share * 100}%;background:${fill}`, title })));
};

const STEPS = {
  start: "before the first instruction", execute: "issue to result", occupy: "engine occupied", handover: "handover", table_load: "function table load", stationary: "stationary load", throttle: "throttle",
  dma_start: "descriptors and start", dma_queue: "behind other transfers", dma_data: "data move", dma_done: "completion",
  other_core: "waiting for the other core",
};
const CAUSES = {
  dma: "a transfer", core: "the other core", interval: "issue interval", descriptors: "descriptor generation", control: "its sequencer",
  stationary: "stationary load", table_load: "function table load", bus: "shared SBUF port", bank: "PSUM bank", throttle: "throttle",
  fetch: "instruction fetch", hbm: "HBM",
};
const waited = cause => CAUSES[cause] ?? `a result of ${cause}`;
