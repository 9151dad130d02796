// Descriptor heaps at the moment of the cursor, and rings and deletion queues over time.

/** The lives of a table that exist at a moment: `{ index, kind, name, capacity }`. */
function objectsAt(model, tableName, words, t) {
  const read = column => model.columns.numbers(`${tableName}.${column}`);
  const from = read("from"), life = model.objectEnds?.[tableName] ?? ((model.objectEnds ??= {})[tableName] = model.ends(tableName));
  const out = [];
  for (let i = 0; i < from.length; i++) {
    if (from[i] <= t && t < life[i]) out.push({ index: i, kind: model.word(words, read("kind")[i]), name: model.text(read("name")[i]), capacity: read("capacity")[i] });
  }
  return out;
}

/** The values of one object over time: `{ at, value }`. */
function samplesOf(model, tableName, index) {
  const of = model.columns.numbers(`${tableName}.of`), at = model.columns.numbers(`${tableName}.at`), value = model.columns.numbers(`${tableName}.value`);
  const out = { at: [], value: [] };
  for (let i = 0; i < of.length; i++) if (of[i] === index) { out.at.push(at[i]); out.value.push(value[i]); }
  return out;
}

/** A step line over the whole recording, with the cursor. */
function sparkline({ at, value }, top, height = 22) {
  const canvas = el("canvas", { class: "strip", style: `height:${height}px`, width: 520, height: 44 }), c = canvas.getContext("2d"), { model, t } = view;
  const x = event => event / Math.max(1, model.end) * 520, y = n => 42 - n / Math.max(1, top) * 40;
  c.fillStyle = INK["accent-soft"]; c.strokeStyle = INK.accent; c.lineWidth = 2;
  c.beginPath(); c.moveTo(x(at[0] ?? 0), 44);
  for (let i = 0; i < at.length; i++) { c.lineTo(x(at[i]), y(value[i - 1] ?? 0)); c.lineTo(x(at[i]), y(value[i])); }
  c.lineTo(520, y(value.at(-1) ?? 0)); c.stroke(); c.lineTo(520, 44); c.fill();
  c.fillStyle = INK.cursor; c.fillRect(x(t), 0, 1, 44);
  return canvas;
}

function drawDescriptors(panel) {
  const { model, t } = view, heaps = objectsAt(model, "descriptors", "descriptors", t);
  if (!heaps.length) {
    panel.replaceChildren(el("p", { class: "empty" }, model.columns.count("descriptors.from") ? "No descriptor heap exists at this moment." : "This recording has no descriptor heaps."));
    return;
  }
  const of = model.columns.numbers("slots.of"), first = model.columns.numbers("slots.first"), size = model.columns.numbers("slots.count");
  const from = model.columns.numbers("slots.from"), to = model.objectEnds.slots ??= model.ends("slots");
  const peak = model.columns.numbers("heaps.peak"), peakWhen = model.columns.numbers("heaps.peak_when");
  const rows = heaps.map(heap => {
    const live = [];
    for (let i = 0; i < of.length; i++) if (of[i] === heap.index && from[i] <= t && t < to[i]) live.push(i);
    live.sort((i, j) => first[i] - first[j]);
    let used = 0, reach = 0, longest = 0;
    // As the analysis counts: a slot of two ranges once, and none beyond the capacity.
    for (const i of live) {
      const until = Math.min(first[i] + size[i], heap.capacity);
      if (until <= first[i]) continue;
      longest = Math.max(longest, first[i] - reach);
      used += Math.max(0, until - Math.max(first[i], reach));
      reach = Math.max(reach, until);
    }
    longest = Math.max(longest, heap.capacity - reach);
    const free = heap.capacity - used, strip = el("div", { style: "min-width:260px" }, slotStrip(live, first, size, heap.capacity));
    return { cells: [heap.name || "(no name)", heap.kind, int(heap.capacity), int(used), percent(used, heap.capacity), int(live.length), int(longest), (free ? 1 - longest / free : 0).toFixed(2), int(peak[heap.index]), int(peakWhen[heap.index]), strip] };
  });
  panel.replaceChildren(declaredTable([...columnsOf("heaps"), { heading: "In use", help: "" }], rows));
}

/** The slots of a heap, in the colours of the block map. */
function slotStrip(live, first, size, capacity) {
  const width = 1000, canvas = el("canvas", { class: "strip", width, height: 22 }), c = canvas.getContext("2d"), scale = width / capacity;
  c.fillStyle = INK.free; c.fillRect(0, 0, width, 22);
  c.fillStyle = INK.used;
  for (const i of live) { const x = Math.floor(first[i] * scale); c.fillRect(x, 0, Math.max(1, Math.ceil((first[i] + size[i]) * scale) - x), 22); }
  return canvas;
}

function drawQueues(panel) {
  const { model, t } = view, sections = [];
  const section = (title, list, samples, text, empty) => {
    sections.push(el("h3", {}, title));
    if (!list.length) { sections.push(el("p", { class: "muted" }, empty)); return; }
    sections.push(el("table", {}, el("thead", {}, el("tr", {}, [["Name"], ["Now", 1], ["At most", 1], ["Over time"]].map(([heading, right]) => el("th", { class: right ? "r" : "" }, heading)))), el("tbody", {}, list.map(object => {
      const line = samplesOf(model, samples, object.index), now = line.value[after(line.at, t) - 1] ?? 0, most = line.value.reduce((a, b) => Math.max(a, b), 0);
      return el("tr", {}, el("td", {}, object.name || object.kind), el("td", { class: "r" }, text(now, object)), el("td", { class: "r" }, text(most, object)),
        el("td", { style: "width:50%" }, sparkline(line, object.capacity || most)));
    }))));
  };
  section("Deletion queues: objects that wait for the GPU", objectsAt(model, "queue", "queue", t), "queue_waiting", n => int(n), model.columns.count("queue.from") ? "No deletion queue was used before this moment." : "This recording has no deletion queues.");
  section("Rings: bytes in use", objectsAt(model, "ring", "ring", t), "ring_used", (n, ring) => `${bytes(n)} of ${bytes(ring.capacity)}`, model.columns.count("ring.from") ? "No ring exists at this moment." : "This recording has no rings.");
  panel.replaceChildren(...sections);
}
