// What is shown, and how a change of it reaches the page.

/** Everything that can change. */
const view = { t: 0, scope: -1, selected: null, sharedScale: false, order: "pool", a: 0, b: 0, c: 0, d: 0, set: new Set(), comparing: false, tab: "table", theme: "system", palette: "standard" };

/** The moments that a person sets, in their order: A and B to compare, all four for lifetimes. `view.set` has those that were. */
const MARKS = ["a", "b", "c", "d"];

/** The lists below the block map: name, heading, how it is drawn, the count in its heading. */
const TABS = [
  ["table", "Allocations", drawTable, () => totals()?.allocations],
  ["leaks", "Never freed", drawLeaks, null],
  ["calls", "Calls", drawCalls, null],
  ["compare", "Compare A and B", drawCompare, null],
  ["lifetimes", "Lifetimes", drawLifetimes, null],
  ["free", "Free ranges", drawFree, null],
  ["latency", "Release latency", drawLatency, null],
  ["aliasing", "Aliasing", drawAliasing, null],
  ["descriptors", "Descriptor heaps", drawDescriptors, () => view.model.columns.count("descriptors.from")],
  ["queues", "Queues and rings", drawQueues, () => view.model.columns.count("queue.from") + view.model.columns.count("ring.from")],
  ["happenings", "Refusals, stalls, marks", drawHappenings, () => view.happenings.all().length],
  ["planned", "Planned offline", drawPlanned, null],
  ["advice", "Advice", drawAdvice, () => view.model.columns.count("advice.text")],
];

/** The lists with charts below the timeline, which show the same time. */
const OVER_TIME = new Set(["free", "latency", "aliasing", "planned"]);

/** The lists of a dump of one moment. The others are about time. */
const OF_ONE_MOMENT = new Set(["table", "calls", "free", "advice"]);

// ---- drawing: parts that are out of date are drawn once, in the next frame

const stale = new Set();
let panelTimer = 0, totalsTimer = 0;
function redraw(...parts) {
  if (!stale.size) requestAnimationFrame(drawStale);
  for (const part of parts) stale.add(part);
}
function drawStale() {
  const parts = new Set(stale);
  stale.clear();
  if (parts.has("moment")) {
    if (view.moment?.t !== view.t || view.moment.scope !== view.scope) view.moment = new Moment(view.model, view.t, view.scope, view.moment);
    view.map.hover = null;
    drawStats();
    parts.add("map");
    // What needs every block follows the cursor when it rests.
    clearTimeout(totalsTimer);
    if (view.model.count > 50000) totalsTimer = setTimeout(() => redraw("totals"), 100); else parts.add("totals");
    drawPanelSoon();
  }
  const hasTime = !view.model.isMoment;
  if (hasTime && parts.has("time")) {
    view.timeline.draw();
    parts.add("cursor");
    if (OVER_TIME.has(view.tab)) drawPanelSoon();
  }
  if (hasTime && parts.has("cursor")) view.timeline.drawCursor();
  if (parts.has("totals") && totals()) { drawTotals(); parts.add("details"); }
  if (parts.has("map")) { view.map.draw(); parts.add("pointed"); }
  if (parts.has("pointed")) view.map.drawPointed();
  if (parts.has("details")) drawDetails();
  if (parts.has("panel")) { if (pressed) panelWaits = true; else drawPanel(); }
}

/** A list follows the cursor and what the timeline shows when they rest. */
function drawPanelSoon() {
  clearTimeout(panelTimer);
  const isLarge = view.model.count > 50000 || (view.tab === "aliasing" && view.model.columns.count("bound.from") > 2000);
  panelTimer = setTimeout(() => redraw("panel"), isLarge ? 300 : 0);
}

// A list that is drawn again between the press and the release of a button has a new button, which was not pressed: the
// click would be lost. So it is drawn after the release.
let pressed = false, panelWaits = false;
addEventListener("pointerdown", e => { pressed = e.target.closest?.("#panel, #tabs") != null; }, { capture: true });
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => {
  pressed = false;
  if (panelWaits) { panelWaits = false; redraw("panel"); }
}, { capture: true });

/** The figures of a moment that are known without looking at its blocks. */
function drawStats() {
  const { model, t, series } = view;
  $("where").textContent = sentence(model.when(t)) + (model.timeAt.length ? `, ${duration(model.nsAt(t))}` : "");
  showStats([["From the driver", series.reserved(t)], ["used", series.used(t)], ["overhead", series.overhead(t)], ["pending", series.pending(t)],
    ["free", series.reserved(t) - series.occupied(t)]]);
}

/** The figures of all blocks; undefined while they are counted. */
function totals() {
  const { moment } = view;
  return inSlices("totals", moment.id, function* () { return (yield* moment.lookAtAll()) ? moment.totals : undefined; }, "totals", "panel");
}

/** All figures. Padding is free memory that only a small allocation can have, so it is told apart. */
function drawTotals() {
  const n = totals();
  showStats([["From the driver", n.reserved], ["used", n.used], ["overhead", n.overhead], ["pending", n.pending], ["padding", n.padding], ["free", n.free - n.padding]]);
  $("totals").textContent = JSON.stringify(n);
}

function showStats(pairs) {
  $("stats").replaceChildren(...pairs.map(([name, value]) => el("div", { title: exact(value) }, el("dt", {}, name), el("dd", {}, bytes(value)))));
}

function drawPanel() {
  for (const button of $("tabs").children) {
    const tab = TABS.find(([name]) => name === button.dataset.v), count = tab[3]?.();
    button.setAttribute("aria-selected", tab[0] === view.tab);
    button.tabIndex = tab[0] === view.tab ? 0 : -1;
    button.replaceChildren(tab[1], count == null ? "" : el("span", { class: "n" }, int(count)));
  }
  TABS.find(([name]) => name === view.tab)[2]($("panel"));
  $("panel").setAttribute("aria-busy", isWorking());
}

function drawLegend() {
  const items = [[USED, "used"], [PADDING, "padding"], [ROUNDING, "rounding"], [MOVE, "moving"], [PENDING, "pending release"], [FREE, "free"]];
  $("legend").replaceChildren(...items.map(([what, text]) => {
    const canvas = el("canvas", { width: 24, height: 24 }), c = canvas.getContext("2d");
    c.scale(1.5, 1.5); c.fillStyle = INK.fill[what]; c.fillRect(0, 0, 24, 24);
    return el("span", {}, canvas, text);
  }));
}

// ---- changes

function goTo(t) { if (view.model.isMoment) return; view.t = clamp(Math.round(t), 0, view.model.end); redraw("moment", "cursor"); }
function select(what) { view.selected = what; redraw("map", "details"); if (["table", "lifetimes"].includes(view.tab)) redraw("panel"); }
/** Selects a range, and moves the cursor to where it exists. */
function show(i) {
  const { model } = view;
  if (!view.moment.has(i)) view.t = view.t < model.from[i] ? model.from[i] : Math.max(model.from[i], model.to[i] - 1);
  if (view.moment.t !== view.t) view.moment = new Moment(model, view.t, view.scope, view.moment);
  view.map.layOut();
  view.map.reveal(i);
  select({ block: model.blockOf[i], range: i });
  redraw("moment", "cursor");
}
/** Sets one of the moments to the cursor's. Those that were set and that it passes come with it, so that they stay in order. */
function setMark(which) {
  if (view.model.isMoment) return;
  view.set.add(which);
  for (const mark of view.set) if (mark === which || (mark < which ? view[mark] > view.t : view[mark] < view.t)) view[mark] = view.t;
  view.comparing = true;
  redraw("cursor", "panel");
}
/** The moments that the timeline shows, by name. */
function shownMarks() {
  const lives = view.tab === "lifetimes", at = lives ? lifetimeMarks() : view;
  return (lives ? marksOf(lifetimeRule(lifetimes.rule)) : view.comparing ? ["a", "b"] : []).map(mark => [mark, at[mark]]);
}
function showTab(name, scroll = false) {
  if (view.tab !== name) $("panel").replaceChildren();
  view.tab = name;
  if (name === "compare") view.comparing = true;
  drawPanel();
  redraw("cursor");
  if (scroll) $("lists").scrollIntoView({ block: "nearest" });
}
function setScope(scope) {
  view.scope = scope;
  view.series = new Series(view.model, scope);
  redraw("moment", "time");
}
function applyColours() {
  const dark = view.theme === "dark" || (view.theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.dataset.palette = view.palette;
  $("theme").textContent = `Theme: ${view.theme}`;
  $("palette").textContent = `Colours: ${view.palette === "safe" ? "colour-blind" : "standard"}`;
  readColours();
  drawLegend();
  redraw("time", "map", "details", "panel");
}
function nextTheme() { view.theme = { system: "light", light: "dark", dark: "system" }[view.theme]; applyColours(); }
function nextPalette() { view.palette = view.palette === "safe" ? "standard" : "safe"; applyColours(); }

/** A row of buttons of which one is pressed. */
function choices(id, list, act) {
  return el("span", { class: "seg", id, role: "group" }, list.map(([value, text]) => el("button", { "data-v": value, onclick: () => act(value) }, text)));
}
function press(id, value) { for (const button of $(id).children) button.setAttribute("aria-pressed", button.dataset.v === value); }

function setAxis(unit) { view.timeline.setAxis(new Axis(view.model, unit)); press("axis", unit); redraw("time"); }
function setScale(shared) { view.sharedScale = shared; press("scale", shared ? "shared" : "fit"); redraw("map"); }
function setOrder(order) { view.order = order; view.map.top = 0; press("order", order); redraw("map"); }

// ---- start

function header() {
  const { model } = view, [producer, api, device, driver] = model.columns.list("facts");
  document.title = `${model.title} – memory report`;
  $("title").textContent = model.title;
  const parts = [api, device, driver, producer, model.isMoment ? "" : plural(model.end, "event"), model.frames.length ? plural(model.frames.length, "frame") : "", plural(model.count, "allocation")];
  $("meta").replaceChildren(...parts.filter(Boolean).map(text => el("span", {}, text)));
  if (model.unread.length) {
    $("notice").replaceChildren(...model.unread.map(text => el("div", {}, `Not read: ${text}`)));
    $("notice").hidden = false;
  }
  const scopes = [[-1, "all"], ...model.heaps.map((heap, i) => [i, `heap ${i}, ${heap.local ? "GPU" : "system"}${heap.size ? `, ${bytes(heap.size)}` : ""}`])];
  $("scope").replaceChildren(...scopes.map(([value, text]) => el("option", { value }, text)));
}

/** Leaves nothing of the page that is about time: a dump of one moment says nothing about it. */
function hideTime() {
  TABS.splice(0, TABS.length, ...TABS.filter(([name]) => OF_ONE_MOMENT.has(name)));
  for (const id of ["timeline", "axis", "to-peak", "set-a", "set-b", "where"]) $(id).hidden = true;
  $("h-time").textContent = "A dump of one moment: it does not say what was before or after";
}

function connect() {
  const { model } = view, units = [["events", "events"]];
  if (model.frames.length > 1) units.push(["frames", "frames"]);
  if (model.timeAt.length > 1) units.push(["seconds", "seconds"]);
  $("axis").replaceChildren(...choices("", units, setAxis).children);
  $("order").replaceChildren(...choices("", [["pool", "pool"], ["waste", "most free"], ["size", "largest"], ["age", "oldest"]], setOrder).children);
  $("scale").replaceChildren(...choices("", [["fit", "full width"], ["shared", "one scale"]], value => setScale(value === "shared")).children);
  // A recording that nothing is said about has no list for that.
  if (!model.columns.count("advice.text")) TABS.pop();
  if (model.isMoment) hideTime();
  $("tabs").replaceChildren(...TABS.map(([name]) => el("button", { role: "tab", "data-v": name, onclick: () => showTab(name) })));
  $("scope").onchange = e => setScope(+e.target.value);
  $("to-peak").onclick = () => goTo(view.series.peak);
  $("set-a").onclick = () => setMark("a");
  $("set-b").onclick = () => setMark("b");
  $("fit").onclick = () => view.map.fit();
  $("theme").onclick = nextTheme;
  $("palette").onclick = nextPalette;
  $("help-open").onclick = openHelp;
  addEventListener("keydown", onKey);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyColours);
  new ResizeObserver(() => redraw("time", "map")).observe($("main"));
}

/** What the address says after #, as key=value&…: t, theme, palette, tab. So a link or a picture can show one view. */
function readAddress() {
  const said = new URLSearchParams(location.hash.slice(1)), one = (key, ...allowed) => allowed.includes(said.get(key)) ? said.get(key) : null;
  view.theme = one("theme", "light", "dark") ?? "system";
  view.palette = one("palette", "safe") ?? "standard";
  view.tab = one("tab", ...TABS.map(([name]) => name)) ?? "table";
  view.t = view.model.isMoment ? view.model.end : said.has("t") && said.get("t") !== "" && isFinite(said.get("t")) ? clamp(Math.floor(+said.get("t")), 0, view.model.end) : view.series.peak;
}

async function start() {
  const columns = new Columns(await inflate($("data").textContent));
  $("data").textContent = "";
  view.model = new Model(columns);
  view.happenings = new Happenings(view.model);
  view.series = new Series(view.model);
  view.b = view.c = view.d = view.model.end;
  view.timeline = new Timeline($("timeline"));
  view.map = new BlockMap($("map"));
  connect();
  readAddress();
  header();
  setAxis("events");
  setScale(false);
  setOrder("pool");
  view.moment = new Moment(view.model, view.t, view.scope);
  applyColours();
  stale.clear();
  for (const part of ["moment", "time"]) stale.add(part);
  drawStale();
  view.opened = performance.now();
}
start().catch(error => {
  $("notice").textContent = `This report could not be shown: ${error.message}. It needs a browser of 2023 or later.`;
  $("notice").hidden = false;
  throw error;
});
