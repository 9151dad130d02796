// The tables that the analysis of the recording declares. Of some, the page gets the rows as well; those of others depend
// on moments that a person chooses, so the page counts them.

/** The columns of a table: `{ heading, help, number }`. */
function columnsOf(name) {
  const { columns } = view.model, help = columns.list(`${name}.help`), number = columns.numbers(`${name}.number`);
  return columns.list(`${name}.heading`).map((heading, k) => ({ heading, help: help[k], number: number[k] > 0 }));
}

/** A table of such columns. `rows` are `{ cells, click, range, selected }`; a cell is a text, an element, or `{ text, title, mark }`. A column in
    which no row has anything is left out. With `sort`, a click on a heading calls it with the number of the column. */
function declaredTable(columns, rows, sorted = null, sort = null) {
  const shown = columns.map((column, k) => ({ ...column, k })).filter(({ k }) => rows.some(({ cells }) => (cells[k].text ?? cells[k]) !== ""));
  const heading = ({ heading, k }) => sort ? el("button", { onclick: () => sort(k) }, `${heading}${sorted.by === k ? (sorted.down ? " ↓" : " ↑") : ""}`) : heading;
  const cell = (is, number) => el("td", { class: `${number ? "r" : ""} ${is.mark ?? ""}`, title: is.title }, is.text ?? is);
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, shown.map(column => el("th", { class: column.number ? "r" : "", title: column.help, "aria-sort": sorted?.by === column.k && (sorted.down ? "descending" : "ascending") }, heading(column))))),
    el("tbody", {}, rows.map(({ cells, click, range, selected }) => el("tr", { class: `${click ? "go" : ""} ${selected ? "sel" : ""}`, onclick: click, "data-range": range }, shown.map(({ k, number }) => cell(cells[k], number)))))));
}

const leaks = { by: null, down: false };

function drawLeaks(panel) {
  const { columns } = view.model, heads = columnsOf("leaks"), text = columns.list("leaks.text"), whole = columns.list("leaks.whole"), mark = columns.numbers("leaks.mark"), rank = columns.numbers("leaks.rank");
  const count = heads.length ? text.length / heads.length : 0, order = Array.from({ length: count }, (_, row) => row), sign = leaks.down ? -1 : 1, most = 300;
  if (leaks.by != null) order.sort((a, b) => sign * (rank[leaks.by * count + a] - rank[leaks.by * count + b]));
  const rows = order.slice(0, most).map(row => {
    const cells = heads.map((_, k) => row * heads.length + k).map(at => ({ text: text[at], title: whole[at] || (text[at].length > 40 && text[at]), mark: mark[at] === 1 ? "pos" : "" }));
    return { cells, click: () => { table.query = mark[row * heads.length] === 2 ? "" : cells[0].title || cells[0].text; table.whole = true; showTab("table", true); } };
  });
  const sort = k => { leaks.down = leaks.by === k ? !leaks.down : heads[k].number; leaks.by = k; redraw("panel"); };
  const [sum, ...notes] = columns.list("leaks.summary");
  panel.replaceChildren(el("p", { class: count ? "sum" : "empty" }, el("b", {}, sum)), count ? declaredTable(heads, rows, leaks, sort) : "",
    ...notes.map(note => el("p", { class: "muted" }, note)), el("p", { class: "more" }, count > most ? `${int(most)} of ${int(count)} groups shown.` : ""));
}
