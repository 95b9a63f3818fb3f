// The data as they are drawn: columns with absolute times, and who is chosen.

const data = JSON.parse(document.getElementById("data").textContent);

const absolute = columns => {
  let at = 0;
  const start = Float64Array.from(columns.step_ps, step => (at += step));
  const end = Float64Array.from(columns.length_ps, (length, i) => start[i] + length);
  return { ...columns, start, end, size: start.length };
};
/** Text of a column whose words are listed once. */
const word = (column, i) => column.words[column.of[i]];
const placeName = number => data.places[number][2];

const cores = data.cores.map((core, number) => ({
  number,
  total: core.total_ps,
  figures: number === 0 ? data.figures : data.figures.peer,
  rows: core.rows.map(absolute),
  critical: absolute(core.critical),
  traffic: core.traffic,
  memories: Object.entries(core.memories).map(([name, memory]) => ({ name, ...memory, tensors: absolute(memory.tensors) })),
}));

/** What is shown, shared by all parts of the page. */
const state = { core: cores[0], from: 0, to: cores[0].total || 1, place: null, listeners: [] };
const changed = what => state.listeners.forEach(listener => listener(what));
const onChange = listener => state.listeners.push(listener);
const choose = place => { state.place = state.place === place ? null : place; changed("place"); };

/** Shows another span of time, within the run and not too short to draw. */
const show = (from, to) => {
  const total = state.core.total || 1;
  const length = Math.min(Math.max(to - from, Math.min(total, 2000)), total);
  state.from = Math.min(Math.max(from, 0), total - length);
  state.to = state.from + length;
  changed("view");
};
const zoom = (factor, at = (state.from + state.to) / 2) => show(at - (at - state.from) * factor, at + (state.to - at) * factor);
const pan = share => { const by = (state.to - state.from) * share; show(state.from + by, state.to + by); };

/** The first index whose end lies after `at`, in columns whose starts ascend and that hardly overlap. */
const firstAfter = (columns, at) => {
  let low = 0, high = columns.size;
  while (low < high) { const middle = (low + high) >> 1; if (columns.end[middle] <= at) low = middle + 1; else high = middle; }
  return low;
};

/** A tooltip beside the pointer. */
const tip = document.getElementById("tip");
const showTip = (event, ...children) => {
  tip.replaceChildren(...children);
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  const x = event.clientX + 16 + width > innerWidth ? event.clientX - width - 12 : event.clientX + 16;
  const y = event.clientY + 16 + height > innerHeight ? event.clientY - height - 12 : event.clientY + 16;
  tip.style.left = `${Math.max(x, 4)}px`;
  tip.style.top = `${Math.max(y, 4)}px`;
};
const hideTip = () => { tip.hidden = true; };

/** A canvas as sharp as the screen, with a context in CSS pixels. */
const sharpen = (canvas, height) => {
  const width = canvas.clientWidth || canvas.parentElement.clientWidth, ratio = devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return [context, width];
};

/** Round steps of time for an axis with about `wanted` marks. */
const ticks = (from, to, wanted) => {
  const raw = (to - from) / wanted, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= raw);
  const marks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) marks.push(at);
  return marks;
};
