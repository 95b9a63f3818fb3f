// Puts the page together.

const colours = {};
const readColours = () => ["ink", "soft", "line", "paper", "accent", "idle", "stall", "tensor", "vector", "scalar", "gpsimd", "sync", "dma", "none"].forEach(name => { colours[name] = colour(name); });

const figure = (name, value, unit, more, share) => h("div.figure", h("div.name", name), h("div.value", value, unit && h("small", unit)),
  share !== undefined && h("div.meter", h("i", { style: `width:${Math.min(share, 1) * 100}%` })), more && h("div.more", more));

const headline = () => {
  const f = state.core.figures, [amount, unit] = seconds(f.total_s).split(" ");
  const memory = name => f.memories.find(each => each.name === name);
  const share = m => m.peak_bytes / m.capacity_bytes;
  const tile = (name, m) => figure(`${name} peak`, percent(share(m)), null, `${size(m.peak_bytes)} of ${size(m.capacity_bytes)} a partition`, share(m));
  return h("section", { id: "figures", style: "margin-top:0" }, verdict(f), h("div.figures",
    figure("time", amount, unit, `+ ${seconds(f.fixed_s)} to start and drain`),
    figure("MFU", percent(f.mfu), null, `${percent(f.mfu_array)} of the array's own peak`, f.mfu),
    figure("MBU", percent(f.mbu), null, `${size(f.hbm_bytes)} of HBM traffic`, f.mbu),
    f.flops ? figure("array", rate(f.roofline.attained_flops_per_s, ""), "FLOP/s", `${f.roofline.bound} bound, by the roofline`, f.roofline.attained_flops_per_s / f.roofline.roof_flops_per_s)
      : figure("array", "–", null, "no matrix product"),
    figure("transfer", f.transfers.count ? size(f.transfers.mean_bytes).split(" ")[0] : "–", f.transfers.count ? size(f.transfers.mean_bytes).split(" ")[1] : null, f.transfers.count ? `mean of ${count(f.transfers.count)}, ${size(f.transfers.advised_bytes)} advised` : "none"),
    tile("SBUF", memory("sbuf")), tile("PSUM", memory("psum"))));
};

const verdict = f => {
  const [[name, most] = ["none", 0]] = Object.entries(f.critical_path.resources).sort((a, b) => b[1] - a[1]);
  if (name === "none") return h("p.lead", most ? [h("b", percent(most / f.total_s)), " of this core's time is the other core's: nothing here made the total."] : "Nothing ran.");
  const first = f.critical_path.groups.find(group => group.resource === name && group.instruction);
  return h("p.lead", h("b", percent(most / f.total_s)), ` of the critical path is `, h("b", name === "dma" ? "transfers" : name), `: faster work there gains at most `, h("b", seconds(most)),
    `. Its largest piece is `, h("b", first.instruction), ` (${STEPS[first.step]}), ${percent(first.time_s / f.total_s)}, at `, h("span.mono", placeLink(first.place)), ".");
};

const themes = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = "auto";
const applyTheme = () => {
  document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
  readColours();
  changed("theme");
};

const header = () => {
  const head = document.getElementById("head"), f = data.figures;
  const overridden = Object.entries(f.overrides).map(([name, value]) => `, ${name} = ${value}`).join("");
  const button = h("button", { title: "Colours: as the system has them, light, or dark" });
  const label = () => { button.textContent = `Theme: ${theme}`; };
  button.addEventListener("click", () => { theme = themes[(themes.indexOf(theme) + 1) % themes.length]; label(); applyTheme(); });
  label();
  const save = h("button", { onclick: () => {
    const url = URL.createObjectURL(new Blob([JSON.stringify(data.figures, null, 1)], { type: "application/json" }));
    h("a", { href: url, download: `${f.kernel}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  } }, "Save JSON");
  const tabs = cores.length > 1 && h("span", { role: "tablist", style: "display:flex;gap:4px" }, cores.map(core => h("button", {
    role: "tab", "aria-selected": core === state.core ? "true" : "false",
    onclick: event => {
      [...event.target.parentElement.children].forEach(tab => tab.setAttribute("aria-selected", String(tab === event.target)));
      Object.assign(state, { core, from: 0, to: core.total || 1, place: null });
      rebuild(); changed("core");
    },
  }, `core ${core.number}`)));
  head.append(h("h1", f.kernel), h("span.about", `on ${f.target}, ${count(f.executed)} instructions${overridden}`), h("span.tools", tabs, button, save));
};

const main = document.getElementById("page");
/** Parts that follow the core and are cheap to make anew. */
const rebuild = () => {
  const slot = (name, ...parts) => main.querySelector(`[data-slot=${name}]`).replaceChildren(...parts.filter(Boolean));
  slot("headline", headline());
  slot("spills", spills());
  slot("work", engines(), criticalPath());
  slot("movement", roofline(), histogram());
};

document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
readColours();
header();
main.append(h("div", { "data-slot": "headline" }), findings() ?? "", h("div", { "data-slot": "spills" }), timeline(), h("div.two", { "data-slot": "work" }), source(), memories(), h("div.two", { "data-slot": "movement" }), assumptions());
rebuild();
document.getElementById("foot").append(`${data.figures.schema}. Times follow from the hardware table ${data.figures.target}; trn3 spec lists each constant with its source and status.`);

onChange(what => { if (what === "place") markChosen(document); });
document.addEventListener("click", event => {
  const row = event.target.closest("tr[data-place]");
  if (row && !getSelection().toString()) choose(+row.dataset.place);
});
document.addEventListener("keydown", event => {
  if (event.key === "Enter" && event.target.matches?.("tr[data-place]")) choose(+event.target.dataset.place);
});
dark.addEventListener("change", applyTheme);
addEventListener("resize", () => changed("size"));
let beforePrint = theme;
addEventListener("beforeprint", () => { beforePrint = theme; theme = "light"; applyTheme(); });
addEventListener("afterprint", () => { theme = beforePrint; applyTheme(); });
applyTheme();
