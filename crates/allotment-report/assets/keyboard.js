// The keys, and the text that explains them.

/** Those that have `true` are about time. */
const KEYS = [
  ["← →", "one event back or forward", true], ["Shift ← →", "one frame back or forward", true], ["Home End", "beginning and end", true], ["P", "the moment with the most bytes in use", true],
  ["[ ]", "previous and next stall, refusal or mark", true], ["+ −", "zoom the block map at its middle"], ["W S", "scroll through the blocks"], ["F", "show all"],
  ["A B", "set a moment to compare", true], ["1 … 9 0", "the first ten lists below"], [", .", "previous and next list; ← → as well on their names"], ["/", "search"], ["↑ ↓ Enter", "in the picture of shared memory: choose a resource, go to where it is active next"], ["↑ ↓ ← → Enter", "in the picture of calls: caller, called, largest neighbours, zoom; Backspace and Esc zoom out"], ["Esc", "deselect"], ["T C", "theme, colours"],
];
const GESTURES = [
  ["Wheel", "zooms at the pointer; over the names of blocks it scrolls, with Shift it makes rows taller"], ["Drag", "pans the block map"], ["Drag in the timeline", "moves the cursor", true], ["Shift drag", "pans the timeline", true],
  ["Double click", "shows all"], ["Click", "an allocation, a free range, or the name of a block"],
];

function openHelp() {
  const known = rows => rows.filter(([, , ofTime]) => !ofTime || !view.model.isMoment);
  const list = rows => el("dl", {}, rows.map(([key, text]) => [el("dt", {}, key), el("dd", {}, text)]));
  $("help").replaceChildren(el("h2", {}, "Keys"), list(known(KEYS)), el("h2", {}, "Pointer"), list(known(GESTURES)), el("form", { method: "dialog" }, el("button", { class: "btn" }, "Close")));
  $("help").showModal();
}

/** Moves by frames: to the end of the frame before or after the cursor. */
function stepFrame(way) {
  const { frames, end } = view.model;
  if (!frames.length) { goTo(view.t + way * 100); return; }
  const at = after(frames, view.t);
  goTo(way > 0 ? frames[at] ?? end : frames[frames[at - 1] === view.t ? at - 2 : at - 1] ?? 0);
}

function stepHappening(way) {
  const all = view.happenings.all(), next = way > 0 ? all.find(one => one.at > view.t) : all.findLast(one => one.at < view.t);
  if (next) goTo(next.at);
}

/** Shows the list before or after the one that is shown. */
function stepTab(way) {
  const next = TABS[TABS.findIndex(([name]) => name === view.tab) + way];
  if (next) showTab(next[0], true);
}

function onKey(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || $("help").open) return;
  const field = e.target.closest?.("input, select");
  if (field) { if (e.key === "Escape") field.blur(); return; }
  const { map } = view, zoom = factor => { map.span.zoom((map.span.a + map.span.b) / 2, factor); redraw("map"); };
  const keys = {
    ArrowLeft: () => e.shiftKey ? stepFrame(-1) : goTo(view.t - 1), ArrowRight: () => e.shiftKey ? stepFrame(1) : goTo(view.t + 1),
    Home: () => goTo(0), End: () => goTo(view.model.end), p: () => goTo(view.series.peak),
    "[": () => stepHappening(-1), "]": () => stepHappening(1), "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7),
    w: () => { map.top -= 60; redraw("map"); }, s: () => { map.top += 60; redraw("map"); },
    f: () => { map.fit(); view.timeline.span.fit(); redraw("time"); },
    a: () => setMark("a"), b: () => setMark("b"), ",": () => stepTab(-1), ".": () => stepTab(1), "/": () => { showTab("table", true); $("search").focus(); },
    Escape: () => { hideTip(); select(null); }, t: nextTheme, c: nextPalette, "?": openHelp,
  };
  const tab = e.target.closest?.("[role=tab]");
  if (tab) keys.ArrowLeft = keys.ArrowRight = () => { stepTab(e.key === "ArrowLeft" ? -1 : 1); $("tabs").querySelector("[aria-selected=true]").focus(); };
  TABS.slice(0, 10).forEach(([name], k) => { keys[(k + 1) % 10] = () => showTab(name, true); });
  const act = keys[e.key] ?? keys[e.key.toLowerCase()];
  if (!act) return;
  e.preventDefault();
  act();
}
