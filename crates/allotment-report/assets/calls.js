// Which calls allocated what: a flame graph of bytes, and the whole stack of an allocation.
//
// A call is a function and a place. The stacks of the recording are a tree in which each call names the one that it was made from;
// calls of allocators, runtimes and dispatchers are folded, unless all are shown.

const calls = { question: "now", inverted: false, all: false, focus: 0, at: 0, query: "", whole: false };
const QUESTIONS = [["now", "at the cursor"], ["peak", "at the peak"], ["made", "made from A to B"], ["left", "… and still there at B"], ["leaked", "never freed"]];
/** Calls that are drawn, before the rest of a level is one rectangle for each caller; and the narrowest one in pixels. */
const MOST_CALLS = 3000, LEAST_CALL = 2;

/** The stacks of the recording: of each call its caller and the number of its name; number 0 is none. */
function stacksOf(model) {
  if (model.stacks) return model.stacks;
  const before = model.columns.numbers("call.before"), count = before.length, caller = new Uint32Array(count + 1), name = new Uint32Array(count + 1);
  model.columns.numbers("call.name").forEach((number, k) => { name[k + 1] = number; });
  for (let k = 0; k < count; k++) caller[k + 1] = before[k] ? k + 1 - before[k] : 0;
  return model.stacks = { caller, name, labels: model.columns.list("callname.label"), folded: model.columns.numbers("callname.folded"), of: model.columns.numbers("range.stack"), unknown: model.columns.list("call.unknown")[0] };
}

/** Calls `visit` with each range that answers a question. Reservations of moves never do. */
function rangesFor(question, visit) {
  const { model, scope } = view, inScope = i => scope < 0 || model.heapOf(model.blockOf[i]) === scope;
  if (question === "made" || question === "left") {
    const { a, b } = view, before = model.columns.numbers("range.before");
    for (let i = 0; i < model.count; i++) {
      if (model.classAt(i, b) === MOVE || !inScope(i)) continue;
      const made = question === "made" ? before[i] === 0 && model.from[i] > a && model.from[i] <= b : model.from[i] <= b && b < model.to[i] && model.from[model.origin(i)] > a;
      if (made) visit(i);
    }
    return;
  }
  const library = model.columns.list("library.category")[0], category = model.columns.numbers("range.category");
  const at = question === "now" ? view.moment : new Moment(model, question === "peak" ? view.series.peak : model.end, scope);
  for (const i of at.all()) {
    const what = at.classOf(i);
    if (what !== MOVE && (question !== "leaked" || (what === USED && model.text(category[i]) !== library))) visit(i);
  }
}

/** The tree of calls of a question, as lists by the number of a node: 0 is all. A name is a number of `labels`, or that of a call site plus their
    count, or -1. The children of a node are the largest first. */
function callTree(question, inverted, all) {
  const { model } = view, { caller, name, labels, folded, of } = stacksOf(model), sites = model.columns.numbers("range.site"), amounts = new Map();
  rangesFor(question, i => {
    // Below 0: the call site alone is known.
    const key = of[i] || -1 - sites[i], amount = amounts.get(key) ?? [0, 0];
    if (!amount[0]) amounts.set(key, amount);
    amount[0]++; amount[1] += model.requested[i];
  });
  const tree = { name: [-2], parent: [0], depth: [0], count: [0], bytes: [0], own: [0], children: [[]] }, known = new Map();
  const add = (node, [count, size]) => { tree.count[node] += count; tree.bytes[node] += size; };
  for (const [key, amount] of amounts) {
    let path = [];
    if (key < 0) path.push(key === -1 ? -1 : labels.length - 1 - key);
    else {
      for (let call = key; call; call = caller[call]) if (all || !folded[name[call]]) path.push(name[call]);
      if (!path.length) path.push(name[key]);
      if (!inverted) path.reverse();
    }
    let node = 0;
    add(0, amount);
    for (const call of path) {
      const place = node * 2 ** 26 + call + 1;
      let next = known.get(place);
      if (next == null) {
        next = tree.name.length;
        known.set(place, next);
        tree.children[node].push(next);
        tree.name.push(call); tree.parent.push(node); tree.depth.push(tree.depth[node] + 1);
        tree.count.push(0); tree.bytes.push(0); tree.own.push(0); tree.children.push([]);
      }
      add(node = next, amount);
    }
    tree.own[node] += amount[1];
  }
  for (const children of tree.children) children.sort((x, y) => tree.bytes[y] - tree.bytes[x] || tree.count[y] - tree.count[x] || tree.name[x] - tree.name[y]);
  return tree;
}

/** A call as it is shown, and all that is known of it. */
function callText(name) {
  const { labels, unknown } = stacksOf(view.model);
  if (name === -2) return "all";
  if (name < 0) return unknown;
  return labels[name] ?? siteText(name - labels.length);
}
function siteText(id) { const { model } = view; model.site(0); return model.sites.get(id) ?? model.text(id); }
function callWhole(name) {
  const { model } = view, { labels } = stacksOf(model), of = column => model.text(model.columns.numbers(`callname.${column}`)[name]);
  return name >= 0 && name < labels.length ? [of("function"), of("place")].filter(Boolean) : [];
}

/** Of each node whether it contains the searched text. */
function foundCalls(tree) {
  const query = calls.query.trim().toLowerCase();
  if (!query) return null;
  const byName = new Map();
  return tree.name.map((name, node) => {
    if (!node) return false;
    if (!byName.has(name)) byName.set(name, [callText(name), ...callWhole(name)].some(text => text.toLowerCase().includes(query)));
    return byName.get(name);
  });
}

function drawCalls(panel) {
  const { model, scope, t, a, b } = view, { question, inverted, all } = calls;
  const key = [question, inverted, all, scope, question === "now" ? t : "", ...["made", "left"].includes(question) ? [a, b] : []].join();
  if (calls.key !== key || calls.of !== model) {
    // The same call stays in view in another moment, if it is there.
    const path = calls.tree && calls.of === model ? pathOf(calls.tree, calls.focus) : [];
    Object.assign(calls, { key, of: model, tree: callTree(question, inverted, all) });
    calls.focus = calls.at = nodeAt(calls.tree, path);
  }
  const { tree } = calls, found = foundCalls(tree), focus = panel.contains(document.activeElement) && document.activeElement.id;
  const change = what => () => { Object.assign(calls, what); redraw("panel"); };
  const span = ["made", "left"].includes(question);
  if (span) view.comparing = true;
  const search = el("input", { id: "call-search", class: "search", type: "search", placeholder: "Highlight calls", "aria-label": "Highlight calls", value: calls.query, oninput: e => { calls.query = e.target.value; paintFlame(); } });
  panel.replaceChildren(
    el("div", { class: "row" },
      choices("call-question", model.isMoment ? [["now", "at this moment"]] : QUESTIONS, value => change({ question: value })()),
      el("button", { class: "btn", id: "call-inverted", "aria-pressed": `${inverted}`, title: "The innermost calls first, their callers below", onclick: change({ inverted: !inverted }) }, inverted ? "Innermost first" : "Outermost first"),
      el("button", { class: "btn", id: "call-all", "aria-pressed": `${all}`, title: "Also calls of allocators, runtimes and dispatchers", onclick: change({ all: !all }) }, all ? "All calls" : "Machinery folded"),
      search),
    el("p", { class: "sum" }, el("span", {}, el("b", {}, bytes(tree.bytes[0])), `, ${plural(tree.count[0], "allocation")}`),
      span ? el("span", {}, "from ", el("b", {}, "A"), " ", momentLink(a), " to ", el("b", {}, "B"), " ", momentLink(b)) : "",
      el("span", { id: "call-found", class: "muted" })),
    tree.count[0] ? el("div", { class: "flame", id: "flame", tabindex: 0, role: "tree", "aria-label": "Bytes by calls" })
      : el("p", { class: "empty" }, span && a === b ? "A and B are the same moment. Move the cursor and press “Set A” or “Set B”." : "No allocation answers this question."),
    tree.count[0] && !stacksOf(model).labels.length ? el("p", { class: "muted" }, "This recording has no call stacks: each allocation has its call site alone.") : "");
  press("call-question", question);
  if (tree.count[0]) { connectFlame($("flame")); layOutFlame(); paintFlame(found); }
  if (focus) { const field = $(focus); field?.focus(); if (focus === "call-search") field.setSelectionRange(field.value.length, field.value.length); }
}

/** The names from all to a node, and the last node of a tree that has the beginning of them. */
function pathOf(tree, node) { const path = []; for (; node; node = tree.parent[node]) path.unshift(tree.name[node]); return path; }
function nodeAt(tree, path) {
  let node = 0;
  for (const name of path) { const next = tree.children[node].find(child => tree.name[child] === name); if (next == null) break; node = next; }
  return node;
}

const CALL_HEIGHT = 19;

/** Places a rectangle for each call: below the one that it was made from, as wide as its share of what is in view. Calls that are too narrow are one
    rectangle behind their largest neighbours. */
function layOutFlame() {
  const { tree, focus } = calls, flame = $("flame"), width = calls.width = flame.clientWidth || 1, boxes = [], above = [], fit = labelFitter(flame);
  for (let node = focus; ; node = tree.parent[node]) { above.unshift(node); if (!node) break; }
  above.forEach(node => boxes.push([node, 0, width]));
  // By levels, so that a limit leaves out the deepest.
  for (let open = [[focus, 0]]; open.length && boxes.length < MOST_CALLS;) {
    const next = [];
    for (const [node, left] of open) {
      const children = tree.children[node], widthOf = size => width * size / (tree.bytes[focus] || 1);
      let x = left, k = 0;
      for (; k < children.length && boxes.length < MOST_CALLS; k++) {
        const child = children[k], size = widthOf(tree.bytes[child]);
        // A rectangle for one that is left out would be no wider.
        if (size < LEAST_CALL) break;
        boxes.push([child, x, size]);
        next.push([child, x]);
        x += size;
      }
      const rest = children.slice(k), size = widthOf(rest.reduce((sum, child) => sum + tree.bytes[child], 0));
      if (size >= LEAST_CALL) boxes.push([node, x, size, rest.length]);
    }
    open = next;
  }
  const place = (level, x, size) => `left:${x}px;top:${level * CALL_HEIGHT}px;width:${Math.max(1, size - (size > 3 ? 1 : 0))}px;`;
  flame.replaceChildren(...boxes.map(([node, x, size, more]) => more ? el("div", {
    class: "call rest", role: "treeitem", "data-node": node, "data-more": more, "aria-level": tree.depth[node] + 2, style: place(tree.depth[node] + 1, x, size),
    title: `${plural(more, "call")} of ${callText(tree.name[node])} that ${more === 1 ? "is" : "are"} too narrow to be drawn. A click shows their caller in the whole width.`,
  }, size > 70 ? `(${int(more)} more)` : size > 36 ? `+${int(more)}` : "") : el("div", {
    class: `call${above.includes(node) && node !== focus ? " above" : ""}`, role: "treeitem", "data-node": node, "aria-level": tree.depth[node] + 1,
    "aria-label": callText(tree.name[node]), style: `${place(tree.depth[node], x, size)}background:${callColour(tree.name[node])};color:${node ? INK["on-hue"] : ""}`,
  }, size > 24 ? fit(callText(tree.name[node]), size) : "")));
  flame.style.height = `${CALL_HEIGHT * (1 + boxes.reduce((deepest, [node, , , more]) => Math.max(deepest, tree.depth[node] + (more ? 1 : 0)), 0))}px`;
}

/** Returns a function that shortens a label to a width in pixels: first it loses its place, which the tip has, then the beginning of the function. Names
    of one library have the same beginning, so the end says which one it is. */
function labelFitter(flame) {
  const c = document.createElement("canvas").getContext("2d");
  c.font = `12px ${getComputedStyle(flame).fontFamily}`;
  return (label, size) => {
    const room = size - 9, fits = text => c.measureText(text).width <= room;
    if (fits(label)) return label;
    const name = label.replace(/ \S+:\d+$/, "");
    if (fits(name)) return name;
    const letters = [...name];
    let low = 0, high = letters.length - 1;
    while (low < high) { const keep = (low + high + 1) >>> 1; if (fits(`…${letters.slice(-keep).join("")}`)) low = keep; else high = keep - 1; }
    return low > 1 ? `…${letters.slice(-low).join("")}` : "";
  };
}

// A flame graph is as wide as its list, so it is laid out again when that changes.
const flameSize = new ResizeObserver(() => {
  const flame = $("flame");
  if (flame && flame.clientWidth && flame.clientWidth !== calls.width) { layOutFlame(); paintFlame(); }
});

/** A hue for each function, the same in all moments. */
function callColour(name) {
  if (name < 0) return INK.grid;
  let hash = 7;
  for (const letter of callText(name).split(" ")[0]) hash = (hash * 31 + letter.charCodeAt(0)) >>> 0;
  return hueText(hash % 360);
}

/** Marks the call that the keys are at, and those that are searched for; says how much they allocated. */
function paintFlame(found = foundCalls(calls.tree)) {
  const { tree, at } = calls, flame = $("flame");
  if (!flame) return;
  for (const box of flame.children) {
    const node = +box.dataset.node;
    if (box.dataset.more) { box.classList.toggle("dim", found != null); continue; }
    box.classList.toggle("at", node === at);
    box.classList.toggle("dim", found != null && !found[node]);
    box.setAttribute("aria-selected", node === at);
    if (node === at) box.id = "call-at"; else box.removeAttribute("id");
  }
  flame.setAttribute("aria-activedescendant", "call-at");
  // A call below another that was found is counted with it.
  let size = 0, count = 0;
  if (found) for (let open = [0]; open.length;) {
    const node = open.pop();
    if (found[node]) { size += tree.bytes[node]; count += tree.count[node]; } else open.push(...tree.children[node]);
  }
  $("call-found").textContent = found ? `found: ${bytes(size)} (${percent(size, tree.bytes[0])}), ${plural(count, "allocation")}` : "";
}

function focusCall(node) { calls.focus = calls.at = node; hideTip(); layOutFlame(); paintFlame(); }

function connectFlame(flame) {
  const of = e => { const box = e.target.closest(".call"); return box ? +box.dataset.node : null; };
  flameSize.disconnect();
  flameSize.observe(flame);
  flame.addEventListener("click", e => { const node = of(e); if (node != null) focusCall(node); });
  flame.addEventListener("pointermove", e => {
    const node = of(e);
    if (node == null || e.target.dataset.more) hideTip(); else showTip(e, callText(calls.tree.name[node]), callLines(node));
  });
  flame.addEventListener("pointerleave", hideTip);
  flame.addEventListener("keydown", e => {
    const { tree, at, focus } = calls, siblings = tree.children[tree.parent[at]] ?? [], place = siblings.indexOf(at);
    const go = node => { if (node != null) { calls.at = node; paintFlame(); flame.querySelector(".at")?.scrollIntoView({ block: "nearest" }); } };
    const keys = {
      ArrowDown: () => go(tree.children[at][0]), ArrowUp: () => { const up = tree.parent[at]; if (tree.depth[up] < tree.depth[focus]) focusCall(up); else go(up); },
      ArrowRight: () => go(siblings[place + 1]), ArrowLeft: () => go(siblings[place - 1]), Enter: () => focusCall(at), Backspace: () => focusCall(tree.parent[focus]),
    };
    if (focus) keys.Escape = () => focusCall(0);
    if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault(); e.stopPropagation();
    keys[e.key]();
  });
}

/** Exact figures of a call. */
function callLines(node) {
  const { tree } = calls;
  return [...callWhole(tree.name[node]).map(text => [text]),
    [exact(tree.bytes[node]), `(${percent(tree.bytes[node], tree.bytes[0])})`], [plural(tree.count[node], "allocation")],
    ...tree.own[node] && tree.own[node] < tree.bytes[node] ? [[exact(tree.own[node]), "by itself"]] : []];
}

/** The whole stack of a range, the innermost call first, with machinery folded until a person asks for it. */
function stackOf(i) {
  const { caller, name, labels, folded, of } = stacksOf(view.model), items = [];
  if (!of[i]) return [];
  let hidden = 0;
  const close = () => { if (hidden) items.push(el("li", { class: "muted" }, `… ${plural(hidden, "call")} of allocators, runtimes and dispatchers`)); hidden = 0; };
  for (let call = of[i]; call; call = caller[call]) {
    const is = name[call];
    if (folded[is] && !calls.whole) { hidden++; continue; }
    close();
    items.push(el("li", { class: folded[is] ? "muted" : "", title: callWhole(is).join("\n") }, labels[is]));
  }
  close();
  return [el("h3", {}, "Call stack, the innermost call first"), el("ol", { class: "stack", id: "stack" }, items),
    el("button", { class: "link", id: "stack-all", onclick: () => { calls.whole = !calls.whole; redraw("details"); } }, calls.whole ? "Fold machinery" : "Show all calls")];
}
