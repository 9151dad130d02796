// Memory that resources share: which of them were placed in it, and to which of them the bytes belonged.

/** What is shown: the row of a memory, or null for the first that exists at the moment; the number of a resource, or null. */
const shared = { row: null, chosen: null, by: null, down: false };

/** The resources that were placed in shared memory, and the spans over which each was active. Those of a memory, and the spans of a
    resource, are neighbours. */
function boundResources(model) {
  if (model.bound) return model.bound;
  const { columns } = model, of = name => columns.numbers(`bound.${name}`), spans = of("spans"), count = spans.length, first = new Uint32Array(count + 1);
  const active = { from: columns.numbers("active.from"), to: model.ends("active"), of: new Uint32Array(columns.count("active.from")) };
  for (let i = 0; i < count; i++) {
    first[i + 1] = first[i] + spans[i];
    active.of.fill(i, first[i], first[i + 1]);
  }
  return model.bound = { from: of("from"), to: model.ends("bound"), offset: of("offset"), size: of("size"), name: of("name"), kind: of("kind"), first, active };
}

/** Memory that resources share, in the order of the table: its resources are `first .. last`. */
function sharedMemories(model) {
  if (model.shared) return model.shared;
  const { columns } = model, of = name => columns.numbers(`shared.${name}`), to = model.ends("shared"), count = of("resources"), bound = boundResources(model);
  let first = 0;
  return model.shared = Array.from(of("from"), (from, row) => {
    const last = first + count[row], memory = { row, from, to: to[row], size: of("size")[row], name: model.text(of("name")[row]) || "(no name)", range: of("range")[row] - 1, peakAt: of("peak_at")[row], first, last };
    // Of a plan's memory no event says to which resource the bytes belong: it does so within each frame.
    memory.isPlanned = bound.first[first] === bound.first[last];
    first = last;
    return memory;
  });
}

const existsAt = (life, t) => life.from <= t && t < life.to;
const resourceName = (model, i) => model.text(boundResources(model).name[i]) || "(no name)";

/** Whether a resource exists at a moment, and whether it is active then. */
function boundAt(bound, i, t) { return bound.from[i] <= t && t < bound.to[i]; }
function activeAt(bound, i, t) {
  const k = after(bound.active.from, t, bound.first[i], bound.first[i + 1]) - 1;
  return k >= bound.first[i] && t < bound.active.to[k];
}

/** Whether a memory exists at a moment, with a resource in it. */
function isShared(bound, memory, t) {
  for (let i = memory.first; i < memory.last; i++) if (boundAt(bound, i, t)) return existsAt(memory, t);
  return false;
}

/** The resources of a memory that exist at a moment, by offset. With an offset, those that have this byte. */
function residents(bound, memory, t, at = null) {
  const found = [];
  for (let i = memory.first; i < memory.last; i++) if (boundAt(bound, i, t) && (at == null || (bound.offset[i] <= at && at < bound.offset[i] + bound.size[i]))) found.push(i);
  return found.sort((a, b) => bound.offset[a] - bound.offset[b] || a - b);
}

/** Resources with one name have one colour. */
const resourceHue = (bound, i) => ((bound.name[i] || i) * 137) % 360;

function drawAliasing(panel) {
  const focus = panel.contains(document.activeElement) && document.activeElement.id, parts = [...sharedParts(), ...aliasedParts()];
  panel.replaceChildren(...parts.length ? parts : [el("p", { class: "empty" },
    "No two allocations share bytes in this recording, and no resources were placed in memory that they share. Gpu::allocate_memory allocates such memory, and create_buffer_in and create_image_in place resources in it; a TransientHeap does both for the targets of a frame.")]);
  // The page stays where it was scrolled to.
  if (focus) $(focus)?.focus({ preventScroll: true });
}

/** Memory that resources share: a table, and of the chosen one the resources over time and at the moment. */
function sharedParts() {
  const { model, t, scope } = view, all = sharedMemories(model).filter(memory => scope < 0 || model.heapOf(model.blockOf[memory.range]) === scope);
  if (!all.length) return [];
  const bound = boundResources(model), memory = all.find(one => one.row === shared.row) ?? all.find(one => isShared(bound, one, t)) ?? all.find(one => existsAt(one, t)) ?? all[0];
  if (shared.chosen < memory.first || shared.chosen >= memory.last) shared.chosen = null;
  return [
    memoryTable(all, memory),
    el("div", { class: "row heading" }, el("h3", {}, `${memory.name} over time`), memoryPlace(memory), sharedLegend(memory)),
    el("p", { class: "muted" }, memory.isPlanned ? "A plan gives each resource its bytes within every frame, which is not recorded: none is active over several frames. Where the grey is stronger, more resources have the same bytes."
      : "Of resources with the same bytes at most one is active. The others are faint: their bytes belong to another one, or to none."),
    sharedPicture(memory, bound),
    el("div", { id: "chosen", "aria-live": "polite" }, chosenParts(memory, bound)),
    ...residentParts(memory, bound)];
}

function memoryTable(all, chosen) {
  const { columns } = view.model, heads = columnsOf("shared"), text = columns.list("shared.text"), mark = columns.numbers("shared.mark"), rank = columns.numbers("shared.rank");
  const count = text.length / heads.length, sign = shared.down ? -1 : 1, most = 300, order = all.slice();
  if (shared.by != null) order.sort((a, b) => sign * (rank[shared.by * count + a.row] - rank[shared.by * count + b.row]));
  const choose = memory => {
    shared.row = memory.row;
    if (isShared(boundResources(view.model), memory, view.t)) redraw("panel"); else goTo(memory.peakAt || memory.from);
  };
  const rows = order.slice(0, most).map(memory => {
    const cells = heads.map((_, k) => ({ text: text[memory.row * heads.length + k], mark: mark[memory.row * heads.length + k] === 2 ? "muted" : "" }));
    // A button, so that the keyboard reaches it.
    cells[0].text = el("button", { class: "link", id: `memory-${memory.row}` }, cells[0].text);
    const exists = existsAt(memory, view.t) ? "yes" : memory.to <= view.t ? "freed" : "not yet";
    return { cells: [...cells, exists], click: () => choose(memory), selected: memory === chosen };
  });
  const sort = k => { if (k >= heads.length) return; shared.down = shared.by === k ? !shared.down : heads[k].number; shared.by = k; redraw("panel"); };
  const list = declaredTable([...heads, { heading: "At this moment", help: "Whether the memory exists at the moment of the cursor." }], rows, shared, sort);
  list.style.maxHeight = "188px";
  list.id = "shared";
  return el("div", {}, list, order.length > most ? el("p", { class: "more" }, `${int(most)} of ${int(order.length)} shown.`) : null);
}

/** Where the memory is, as a link to it. */
function memoryPlace(memory) {
  const i = memory.range;
  return el("span", { class: "muted" }, `${bytes(memory.size)}, `, i < 0 ? lifeText(memory.from, memory.to) : el("button", { class: "link", id: "shared-memory", onclick: () => show(i) }, placeText(i)), " · ",
    el("button", { class: "link", id: "shared-time", title: "Zooms the timeline to the life of this memory", onclick: () => showTime(memory) }, "zoom to its time"));
}

/** Zooms the timeline to a life, with something around it. */
function showTime(life) {
  const { axis, span } = view.timeline, from = axis.toPosition(life.from), size = axis.toPosition(Math.min(life.to, view.model.end)) - from;
  span.set(from - size * 0.02, size * 1.04);
  redraw("time");
}

function sharedLegend(memory) {
  const square = (colour, text) => el("span", {}, el("i", { style: `background:${colour}` }), text);
  const shade = n => pixelText(INK.depth[n]);
  return el("div", { class: "legend push" }, memory.isPlanned ? [square(shade(1), "one resource"), square(shade(8), "eight or more")]
    : [square(`linear-gradient(90deg,${[210, 95, 30].map(hueText).join()})`, "active"), square(shade(2), "not active")], square(INK.grid, "no resource"));
}

/** The resources of a memory: each a box from its creation to its end, drawn strongly while it is active. */
function sharedPicture(memory, bound) {
  const { model } = view, { active, first } = bound, firstSpan = first[memory.first], spans = first[memory.last] - firstSpan;
  const life = (at, column, row, i, from, to) => { at[0] = column(from); at[1] = row(bound.offset[i] + bound.size[i]); at[2] = column(to); at[3] = row(bound.offset[i]); };
  return boxPicture({
    id: "shared-picture", version: memory.row, label: `${memory.name}: ${plural(memory.last - memory.first, "resource")} over time. Arrows up and down choose one, Enter goes to where it is active next.`, top: memory.size, height: 280,
    fill: (grid, column, row) => {
      let resource = -1, reach = 0;
      // Spans of one resource that end in a pixel which it has already need not be drawn.
      grid.fill(spans, (n, at) => {
        const k = firstSpan + n, i = active.of[k];
        life(at, column, row, i, active.from[k], active.to[k]);
        if (n === 0 || i !== resource) { resource = i; reach = -1; }
        if (at[2] <= reach) return false;
        reach = Math.max(at[2], at[0] + 1);
        return true;
      });
      grid.countDepths(memory.last - memory.first, (n, at) => life(at, column, row, memory.first + n, bound.from[memory.first + n], bound.to[memory.first + n]), true);
    },
    colour: (n, depth) => n >= 0 ? INK.hue[resourceHue(bound, active.of[firstSpan + n])] : depth > 0 ? INK.depth[Math.min(depth, 8)] : 0,
    name: n => resourceName(model, n < 0 ? memory.first - 1 - n : active.of[firstSpan + n]), ink: INK["on-hue"],
    under: (c, x) => { c.fillStyle = INK.grid; c.fillRect(x(memory.from), 0, x(Math.min(memory.to, model.end)) - x(memory.from), 1e4); },
    over: (c, x, y) => {
      if (shared.chosen == null) return;
      const i = shared.chosen, box = (from, to, width) => { c.lineWidth = width; c.strokeRect(x(from), y(bound.offset[i] + bound.size[i]), Math.max(2, x(Math.min(to, model.end)) - x(from)), Math.max(2, y(bound.offset[i]) - y(bound.offset[i] + bound.size[i]))); };
      c.strokeStyle = INK.card; box(bound.from[i], bound.to[i], 4);
      c.strokeStyle = INK.selected; box(bound.from[i], bound.to[i], 2);
    },
    tip: (n, t, at) => {
      const here = residents(bound, memory, t, at), i = n >= 0 ? active.of[firstSpan + n] : here[0], others = here.filter(other => other !== i);
      if (i == null) return null;
      const lines = [[exact(bound.size[i])], ["offset", hex(bound.offset[i]), `(${exact(bound.offset[i])})`], [lifeText(bound.from[i], bound.to[i])]];
      if (n >= 0) lines.push([`active, span ${int(firstSpan + n - first[i] + 1)} of ${int(first[i + 1] - first[i])}:`, lifeText(active.from[firstSpan + n], active.to[firstSpan + n])]);
      else if (!memory.isPlanned) lines.push([`not active, ${plural(first[i + 1] - first[i], "active span")}`]);
      if (others.length) lines.push(["the same byte:", others.slice(0, 6).map(other => resourceName(model, other)).join(", "), others.length > 6 ? `and ${int(others.length - 6)} more` : ""]);
      return [resourceName(model, i), lines];
    },
    click: (n, t, at) => {
      // Clicks at one place choose the resources there in turn.
      const here = residents(bound, memory, t, at), next = here.indexOf(shared.chosen) + 1;
      shared.chosen = n >= 0 && shared.chosen !== active.of[firstSpan + n] && !next ? active.of[firstSpan + n] : here[next % here.length] ?? null;
      goTo(t);
      redraw("panel");
    },
    key: key => chooseByKey(memory, bound, key),
  });
}

/** Chooses the next resource above or below; Enter goes to where the chosen one is active next. Returns true for such a key. */
function chooseByKey(memory, bound, key) {
  const i = shared.chosen;
  if (key === "Enter" && i != null) {
    const k = after(bound.active.from, view.t, bound.first[i], bound.first[i + 1]);
    goTo(k < bound.first[i + 1] ? bound.active.from[k] : bound.first[i] < bound.first[i + 1] ? bound.active.from[bound.first[i]] : bound.from[i]);
  } else if (key === "ArrowUp" || key === "ArrowDown") {
    const here = residents(bound, memory, view.t), at = here.indexOf(i);
    if (here.length) shared.chosen = here[at < 0 ? 0 : clamp(at + (key === "ArrowUp" ? 1 : -1), 0, here.length - 1)];
  } else if (key === "Escape" && i != null) shared.chosen = null;
  else return false;
  redraw("panel");
  return true;
}

/** What is known of the chosen resource. */
function chosenParts(memory, bound) {
  const { model, t } = view, i = shared.chosen;
  if (i == null) return [];
  const { active, first } = bound, spans = first[i + 1] - first[i], at = clamp(after(active.from, t, first[i], first[i + 1]) - 4, first[i], Math.max(first[i], first[i + 1] - 8)), listed = Math.min(8, first[i + 1] - at);
  const until = to => to <= model.end ? momentLink(to) : "the end", state = !boundAt(bound, i, t) ? "does not exist at this moment" : memory.isPlanned ? "" : activeAt(bound, i, t) ? "active" : "not active";
  return [el("p", { class: "sum" },
    el("b", {}, resourceName(model, i)), el("span", {}, model.word("kind", bound.kind[i])), el("span", { title: exact(bound.size[i]) }, bytes(bound.size[i])), el("span", {}, `offset ${hex(bound.offset[i])}`),
    el("span", {}, momentLink(bound.from[i]), " to ", until(bound.to[i])), state ? el("span", {}, state) : null),
  memory.isPlanned ? null : el("p", { class: "muted" }, `${plural(spans, "active span")}${spans > listed ? `, of which ${listed} are listed` : ""}${spans ? ": " : ""}`,
    Array.from({ length: listed }, (_, n) => [n ? "; " : "", momentLink(active.from[at + n]), " to ", until(active.to[at + n])]))].filter(Boolean);
}

const MOST_LANES = 30;

/** The resources at the moment, in lanes. */
function residentParts(memory, bound) {
  const { model, t } = view, here = residents(bound, memory, t);
  if (!here.length) return [el("h3", {}, "At this moment"), el("p", { class: "muted" }, existsAt(memory, t) ? "No resource is placed in this memory." : "This memory does not exist.")];
  const sum = here.reduce((total, i) => total + bound.size[i], 0), active = here.filter(i => activeAt(bound, i, t));
  const { lane, count } = lanesAt(here, i => bound.offset[i], i => bound.size[i], MOST_LANES);
  const hues = Array.from({ length: 360 }, (_, hue) => hueText(hue)), has = new Set(active);
  const items = here.map((i, k) => {
    const strong = memory.isPlanned || has.has(i);
    return {
      lane: lane[k], low: bound.offset[i], size: bound.size[i], name: resourceName(model, i), chosen: shared.chosen === i, fill: strong ? hues[resourceHue(bound, i)] : INK.depthText, ink: strong ? INK["on-hue"] : INK.muted,
      tip: () => [resourceName(model, i), [[exact(bound.size[i])], ["offset", hex(bound.offset[i]), `(${exact(bound.offset[i])})`], [memory.isPlanned ? lifeText(bound.from[i], bound.to[i]) : strong ? "active" : "not active"]]],
      click: () => { shared.chosen = i; redraw("panel"); },
    };
  });
  return [
    el("h3", {}, "At this moment: resources that share bytes are in different lanes"),
    el("p", { class: "sum", id: "residents" }, el("span", {}, "Placed ", el("b", {}, plural(here.length, "resource"))), el("span", {}, "together ", el("b", {}, bytes(sum))), el("span", {}, "in ", el("b", {}, bytes(memory.size))),
      memory.isPlanned ? null : el("span", {}, "active ", el("b", {}, int(active.length))), count > MOST_LANES ? el("span", { class: "muted" }, `the first ${MOST_LANES} lanes are shown`) : null),
    laneChart(plural(here.length, "resource"), items, Math.min(count, MOST_LANES), memory.size)];
}
