// The allocations, as a table that can be searched and sorted.

/** Of each column that the analysis declares: the text of a range, and the number to sort by. What an allocation was moved
    from counts for when it was made. A range exists from the moment after the event that allocated it, so the event has the
    number before. */
const CELLS = [
  [(m, i) => m.name(i), (m, i) => textRank(m, m.field("name", i))],
  [(m, i) => m.text(m.field("category", i)), (m, i) => textRank(m, m.field("category", i))],
  [(m, i) => m.word("kind", m.field("kind", i)), (m, i) => m.field("kind", i)],
  [(m, i) => bytes(m.requested[i]), (m, i) => m.requested[i]],
  [(m, i) => m.beyond[i] ? bytes(m.beyond[i]) : "–", (m, i) => m.beyond[i]],
  [(m, i) => `#${blockName(m.block.id[m.blockOf[i]])}`, (m, i) => m.block.id[m.blockOf[i]]],
  [(m, i) => hex(m.offset[i]), (m, i) => m.offset[i]],
  [(m, i) => int(m.from[m.origin(i)] - 1), (m, i) => m.from[m.origin(i)]],
  [(m, i) => m.to[i] <= m.end ? int(m.to[i] - 1) : "–", (m, i) => m.to[i] <= m.end ? m.to[i] : -1],
  [(m, i) => plural(lifeOf(m, i), m.frames.length ? "frame" : "event"), lifeOf],
  [(m, i) => m.site(i), (m, i) => siteRank(m, i)],
];
const REQUESTED = 3, SITE = 10;

/** How long the allocation of a range existed: in frames where the recording has some, else in events. */
function lifeOf(model, i) {
  const from = model.from[model.origin(i)], end = Math.min(model.to[i], model.end);
  return model.frames.length ? model.frameAt(end) - model.frameAt(from) : end - from;
}

/** The position of each text among all in the order of the alphabet. Equal ones have the same. */
function alphabet(text) {
  const order = Array.from(text, (_, i) => i), ranks = new Uint32Array(order.length), { compare } = new Intl.Collator("en", { numeric: true });
  order.sort((i, j) => compare(text[i], text[j]));
  for (let k = 1; k < order.length; k++) ranks[order[k]] = ranks[order[k - 1]] + (text[order[k]] === text[order[k - 1]] ? 0 : 1);
  return ranks;
}

/** The position of a text among all. */
function textRank(model, id) {
  model.ranks ??= alphabet(Array.from({ length: model.texts.length + 1 }, (_, i) => model.text(i)));
  return model.ranks[id] ?? 0;
}

/** The position of a range's call site among all, as people read them; before all for one without. */
function siteRank(model, i) {
  if (!model.siteRanks) {
    const ranks = alphabet(model.columns.list("site.short"));
    model.siteRanks = new Map(Array.from(model.columns.numbers("site.id"), (id, k) => [id, ranks[k]]));
  }
  return model.siteRanks.get(model.field("site", i)) ?? -1;
}

/** The first `most` of `items` by `key`. Of many, only those that can be shown are sorted. */
function firstBy(items, key, down, most) {
  const sign = down ? -1 : 1, keys = new Float64Array(items.length);
  for (let k = 0; k < items.length; k++) keys[k] = sign * key(items[k]);
  let limit = Infinity;
  if (items.length > most * 4) limit = keys.slice().sort()[most - 1];
  const chosen = [];
  for (let k = 0; k < items.length; k++) if (keys[k] <= limit) chosen.push(k);
  chosen.sort((a, b) => keys[a] - keys[b] || a - b);
  return chosen.slice(0, most).map(k => items[k]);
}

const table = { query: "", whole: false, by: REQUESTED, down: true, most: 200 };

function drawTable(panel) {
  const { model, moment } = view, test = parseQuery(table.query, model), found = [];
  const live = table.whole ? null : moment.all(), all = live ? live.length : model.count;
  for (let k = 0; k < all; k++) {
    const i = live ? live[k] : k;
    if (model.isReservation(i) || (table.whole && view.scope >= 0 && model.heapOf(model.blockOf[i]) !== view.scope)) continue;
    if (!test || test(i)) found.push(i);
  }
  const key = CELLS[table.by][1], heads = columnsOf("allocations");
  const shown = firstBy(found, i => key(model, i), table.down, table.most);
  let sum = 0;
  for (const i of found) sum += model.requested[i];
  if (!$("search")) panel.replaceChildren(tableHead(), el("div", { id: "rows" }), el("p", { class: "more", id: "more" }));
  press("whole", table.whole ? "recording" : "moment");
  const sort = k => { table.down = table.by === k ? !table.down : heads[k].number; table.by = k; redraw("panel"); };
  $("rows").replaceChildren(found.length ? rangeTable(heads, shown, { sorted: table, sort })
    : el("p", { class: "empty" }, table.query ? "Nothing matches the search." : table.whole ? "No allocation was made in this recording." : "Nothing is allocated at this moment."));
  const more = found.length > shown.length ? el("button", { class: "link", onclick: () => { table.most *= 5; redraw("panel"); } }, "Show more") : null;
  $("more").replaceChildren(`${int(shown.length)} of ${plural(found.length, "allocation")} shown, ${bytes(sum)} requested by all. `, more ?? "");
}

/** A table with a row for each range, which a click selects. `change` may write a cell otherwise. */
function rangeTable(heads, ranges, { sorted = null, sort = null, change = (k, i, text) => text }) {
  const { model } = view;
  return declaredTable(heads, ranges.map(i => {
    const cells = CELLS.map(([text], k) => {
      const shown = change(k, i, text(model, i)), whole = k === SITE ? model.text(model.field("site", i)) : shown;
      return { text: shown, title: (whole.length > 40 || whole !== shown) && whole };
    });
    return { cells, click: () => show(i), range: i, selected: view.selected?.range === i };
  }), sorted, sort);
}

function tableHead() {
  const field = el("input", { class: "search", id: "search", type: "search", spellcheck: "false", placeholder: "Name, category or call site · #block · 0x1000-0x1fff · >64k  ( / )", "aria-label": "Search allocations",
    oninput: e => { table.query = e.target.value; table.most = 200; redraw("panel"); } });
  field.value = table.query;
  return el("div", { class: "row" }, field, choices("whole", [["moment", "at this moment"], ["recording", "whole recording"]], value => { table.whole = value === "recording"; redraw("panel"); }));
}
