// What is selected: an allocation, a free range or a block, and the history of its bytes.

/** A button that moves the cursor to a moment. */
function momentLink(t) { return el("button", { class: "link", onclick: () => goTo(t) }, view.model.when(t)); }

/** Bytes for reading, and exactly. */
function sizes(n) { return el("dd", {}, el("span", { style: "white-space:nowrap" }, n < 1024 ? exact(n) : bytes(n)), n < 1024 ? null : el("span", { class: "exact" }, ` ${exact(n)}`)); }

function facts(rows) {
  const shown = rows.filter(([, value]) => value != null && value !== "");
  return el("dl", {}, shown.map(([name, value]) => [el("dt", {}, name), value instanceof HTMLElement && value.tagName === "DD" ? value : el("dd", {}, value)]));
}

function drawDetails() {
  const what = view.selected, panel = $("details");
  if (!what) { panel.replaceChildren(el("h2", {}, "Details"), el("p", { class: "empty" }, "Click an allocation, a free range or a block."), momentFacts()); return; }
  if (what.range != null) panel.replaceChildren(...rangeDetails(what.range));
  else if (what.high) panel.replaceChildren(...holeDetails(what));
  else panel.replaceChildren(...blockDetails(what.block));
}

function momentFacts() {
  const n = totals();
  if (!n) return el("p", { class: "muted" }, "Looking at all blocks …");
  return el("div", {}, el("h3", {}, "At this moment"), facts([
    ["From the driver", sizes(n.reserved)], ["Used", sizes(n.used)],
    ["Rounding", sizes(n.rounding)], ["Reserved for moves", sizes(n.moves)],
    ["Pending release", sizes(n.pending)], ["Alignment padding", sizes(n.padding)], ["Free in blocks", sizes(n.free - n.padding)],
    ["Shared by several", n.aliased ? sizes(n.aliased) : null], ["Largest free range", sizes(n.largestFree)],
    ["… of all free bytes", percent(n.largestFree, n.free)], ["Blocks", int(n.blocks)], ["Allocations", int(n.allocations)],
  ]), settings());
}

/** The settings of the allocator, where the recording has them. */
function settings() {
  const { columns } = view.model, names = columns.list("setting.name"), values = columns.list("setting.value");
  return names.length ? [el("h3", {}, "Settings of the allocator"), facts(names.map((name, k) => [sentence(name), /block|bytes|size/.test(name) && values[k] >= 1024 ? bytes(+values[k]) : values[k]]))] : [];
}

function rangeDetails(i) {
  const { model, t } = view, b = model.blockOf[i], exists = view.moment.has(i);
  const field = name => model.field(name, i), flag = bit => (model.flags[i] & bit) > 0;
  const high = field("user_high"), low = field("user_low");
  const user = high || low ? hex((BigInt(high) << 32n) | BigInt(low)) : null;
  const released = model.flags[i] & RELEASED ? model.pending[i] : null, freed = model.to[i] <= model.end ? model.to[i] : null;
  const before = field("before"), site = model.text(field("site"));
  const life = (freed ?? model.end) - model.from[i], frames = model.frameAt(freed ?? model.end) - model.frameAt(model.from[i]);
  const state = exists ? CLASS_NAMES[view.moment.classOf(i)] : t < model.from[i] ? "not yet allocated" : "freed";
  const moved = freed && movedTo(i);
  return [
    el("h2", {}, model.isReservation(i) && !field("name") ? "Range reserved for a move" : model.name(i)),
    el("p", { class: "what" }, [sentence(state), model.text(field("category")), field("kind") < 3 ? model.word("kind", field("kind")) : ""].filter(Boolean).join(" · ")),
    facts([
      ["Requested", sizes(model.requested[i])], ["Occupied", model.beyond[i] ? sizes(model.occupied(i)) : null],
      ["Rounding", model.beyond[i] ? sizes(model.beyond[i]) : null],
      ["Offset", el("dd", {}, hex(model.offset[i]), el("span", { class: "exact" }, ` ${exact(model.offset[i])}`))],
      ["Alignment", exact(2 ** field("alignment"))],
      ["Block", el("button", { class: "link", onclick: () => select({ block: b }) }, `#${blockName(model.block.id[b])}, ${bytes(view.moment.size[b])}, ${model.word("block", model.block.kind[b])}`)],
      ["Memory type", typeText(b) + (flag(SECOND_CHOICE) ? " – not the best for the request" : "")],
      ["Usage", field("usage") ? model.word("usage", field("usage")) : null],
      ["Placed in", field("placement") ? model.word("placement", field("placement")) : null],
      ["Call site", site ? el("dd", { title: site }, model.site(i)) : null], ["User data", user],
      ["CPU", flag(MAPPED) ? "was mapped" : null], ["Movable", flag(MOVABLE) ? "yes" : null],
      ...(model.isMoment ? [] : [
      [before ? "Moved here" : "Allocated", momentLink(model.from[i])],
      ["Moved from", before ? el("button", { class: "link", onclick: () => show(before - 1) }, placeText(before - 1)) : null],
      ["Released", released != null ? momentLink(released) : null],
      [moved ? "Moved away" : "Freed", freed != null ? momentLink(freed) : "never in this recording"],
      ["Moved to", moved ? el("button", { class: "link", onclick: () => show(moved - 1) }, placeText(moved - 1)) : null],
      ["Waited for the GPU", released != null && freed != null ? (model.frames.length ? plural(model.frameAt(freed) - model.frameAt(released), "frame") : plural(freed - released, "event")) : null],
      ["Lifetime", `${plural(life, "event")}${model.frames.length ? `, ${plural(frames, "frame")}` : ""}`],
      ]),
    ]),
    ...stackOf(i),
    ...historyOf(b, model.offset[i], model.offset[i] + model.occupied(i), i),
  ];
}

const placeText = i => `block #${blockName(view.model.block.id[view.model.blockOf[i]])}, offset ${hex(view.model.offset[i])}`;

/** The range that an allocation moved to when range `i` ended, plus 1; 0 if it was freed. */
function movedTo(i) {
  const before = view.model.columns.numbers("range.before");
  return before.indexOf(i + 1) + 1;
}

function typeText(b) {
  const { model } = view, type = model.block.type[b], known = model.types[type];
  return `${type}${known?.properties ? ` (${known.properties.toLowerCase()})` : ""}${known ? `, heap ${known.heap}` : ""}`;
}

function holeDetails({ block: b, low, high, padding }) {
  return [
    el("h2", {}, padding ? "Alignment padding" : "Free range"), el("p", { class: "what" }, `in block #${blockName(view.model.block.id[b])}${padding ? ": shorter than the alignment of the allocation behind it" : ""}`),
    facts([["Size", sizes(high - low)], ["Offset", el("dd", {}, hex(low), el("span", { class: "exact" }, ` ${exact(low)}`))],
      ["Of the block's free bytes", percent(high - low, view.moment.look(b).free)]]),
    ...historyOf(b, low, high, -1),
  ];
}

function blockDetails(b) {
  const { model, moment: now } = view, pool = model.pools[model.block.pool[b] - 1], exists = now.blocks.includes(b), is = exists ? now.look(b) : null;
  const to = model.block.to[b];
  return [
    el("h2", {}, `Block #${blockName(model.block.id[b])}`), el("p", { class: "what" }, sentence(model.word("block", model.block.kind[b]))),
    facts([
      ["Size", sizes(now.size[b])], ["Sizes over time", sizesText(b)],
      ["Pool", pool ? [pool.name, model.word("algorithm", pool.algorithm)].filter(Boolean).join(", ") : null], ["Memory type", typeText(b)],
      ["Allocations", exists ? int(now.of(b).length) : "none: it does not exist at this moment"],
      ["Used", is ? sizes(is.used) : null], ["Pending release", is?.pending ? sizes(is.pending) : null],
      ["Overhead", is?.rounding || is?.moves ? sizes(is.rounding + is.moves) : null], ["Alignment padding", is?.padding ? sizes(is.padding) : null],
      ["Free", is ? sizes(is.free - is.padding) : null], ["Largest free range", is ? sizes(is.largest) : null],
      ["Shared by several", is?.aliased ? sizes(is.aliased) : null], ["Saved by aliasing", is?.saved ? sizes(is.saved) : null],
      ["Empty", exists && !now.of(b).length ? emptyText(b).replace("empty ", "") : null],
      ...(model.isMoment ? [] : [["Allocated", momentLink(model.block.from[b])], ["Freed", to <= model.end ? momentLink(to) : "never in this recording"]]),
    ]),
    ...historyOf(b, 0, Infinity, -1),
  ];
}

/** How often a block grew or shrank, and between which sizes; nothing for one that kept its size. */
function sizesText(b) {
  const { block, resize } = view.model, all = [block.size[b]];
  for (let k = 0; k < resize.of.length; k++) if (resize.of[k] === b) all.push(resize.size[k]);
  if (all.length === 1) return null;
  let least = Infinity, most = 0;
  for (const size of all) { least = Math.min(least, size); most = Math.max(most, size); }
  return `${bytes(least)} to ${bytes(most)}, ${plural(all.length - 1, "change")}`;
}

const HISTORY = 60;

/** All allocations that ever had one of these bytes, in their order. */
function historyOf(b, low, high, self) {
  if (view.model.isMoment) return [];
  const { model } = view, found = [];
  for (let i = model.first[b]; i < model.first[b + 1] && model.offset[i] < high; i++) {
    if (model.offset[i] + model.occupied(i) > low) found.push(i);
  }
  found.sort((i, j) => model.from[i] - model.from[j]);
  const at = Math.max(0, after(found.map(i => model.from[i]), view.t) - HISTORY / 2), shown = found.slice(at, at + HISTORY);
  if (!found.length) return [el("h3", {}, "History of these bytes"), el("p", { class: "muted" }, "No allocation ever had them.")];
  return [
    el("h3", {}, `History of these bytes: ${plural(found.length, "allocation")}`),
    el("ol", { class: "history" }, shown.map(i => el("li", { class: i === self || (self < 0 && view.moment.has(i)) ? "now" : "" },
      el("button", { class: "link", onclick: () => show(i) }, model.name(i)),
      el("span", { class: "muted" }, `${int(model.from[i])} – ${model.to[i] <= model.end ? int(model.to[i]) : "end"} · ${bytes(model.requested[i])}`)))),
    shown.length < found.length ? el("p", { class: "more" }, `${int(shown.length)} of ${int(found.length)} are listed.`) : null,
  ].filter(Boolean);
}
