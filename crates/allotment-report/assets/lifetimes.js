// Fourteen questions about when allocations were made and freed, with one to four moments A ≤ B ≤ C ≤ D.

/** Name, question, then the moments between which an allocation was made, and those between which it was freed: after the
    first, up to the second. ^ is before the first event, $ is never. A second pair counts as negative. The analysis of
    recordings has the same rules; a test compares the two. */
const LIFETIME_RULES = [
  ["active", "Which allocations exist at A?", "^A", "A$"],
  ["before", "Which allocations were freed before A?", "^A", "^A"],
  ["after", "Which allocations were made after A?", "A$", "^$"],
  ["decline", "Which allocations existed at A, and were freed by B?", "^A", "AB"],
  ["growth", "Which allocations were made between A and B, and exist at B?", "AB", "B$"],
  ["growth-and-decline", "Which allocations were made between A and B, and exist at B; and which existed at A, and were freed by B?", "AB", "B$", "^A", "AB"],
  ["frees", "Which allocations were freed between A and B?", "^$", "AB"],
  ["allocations", "Which allocations were made between A and B?", "AB", "^$"],
  ["short-living", "Which allocations were made and freed between A and B?", "AB", "AB"],
  ["long-living", "Which allocations were made before A, and exist at B?", "^A", "B$"],
  ["leaks", "Which allocations were made between A and B, and exist at C?", "AB", "C$"],
  ["limited-lifetime", "Which allocations were made between A and B, and freed between B and C?", "AB", "BC"],
  ["decline-of-long-living", "Which allocations were made before A, and freed between B and C?", "^A", "BC"],
  ["specific-lifetime", "Which allocations were made between A and B, and freed between C and D?", "AB", "CD"],
];

const lifetimes = { rule: "growth", most: 200 };
const lifetimeRule = name => LIFETIME_RULES.find(rule => rule[0] === name);
/** The moments that a rule looks at. */
const marksOf = ([, , ...ranges]) => MARKS.filter(mark => ranges.some(range => range.includes(mark.toUpperCase())));

/** The four moments. Those that nobody set are spread evenly between the others, the first event and the end. */
function lifetimeMarks() {
  const at = MARKS.map(mark => view.set.has(mark) ? view[mark] : null);
  at[0] ??= 0;
  at[3] ??= view.model.end;
  for (const k of [1, 2]) {
    const next = at.findIndex((t, n) => n > k && t != null);
    at[k] ??= Math.round(at[k - 1] + (at[next] - at[k - 1]) / (next - k + 1));
  }
  return Object.fromEntries(MARKS.map((mark, k) => [mark, at[k]]));
}

/** The allocations that a rule means, each by its last range: `{ list, bytes }` for each of its pairs. */
function findLifetimes(model, [, , ...ranges], marks, scope = -1) {
  const { from, to, movedOn } = model, before = model.columns.numbers("range.before"), moment = { "^": -1, $: Infinity };
  for (const mark of MARKS) moment[mark.toUpperCase()] = marks[mark];
  const parts = [];
  for (let k = 0; k < ranges.length; k += 2) {
    const [madeAfter, madeBy, freedAfter, freedBy] = [...ranges[k], ...ranges[k + 1]].map(mark => moment[mark]), part = { list: [], bytes: 0 };
    for (let i = 0; i < model.count; i++) {
      if (to[i] <= freedAfter || to[i] > freedBy || movedOn[i] || model.isReservation(i)) continue;
      const made = before[i] ? from[model.origin(i)] : from[i];
      if (made <= madeAfter || made > madeBy || (scope >= 0 && model.heapOf(model.blockOf[i]) !== scope)) continue;
      part.list.push(i);
      part.bytes += model.requested[i];
    }
    parts.push(part);
  }
  return parts;
}

function drawLifetimes(panel) {
  const { model, scope } = view, rule = lifetimeRule(lifetimes.rule), marks = marksOf(rule), at = lifetimeMarks(), key = [lifetimes.rule, scope, ...Object.values(at)].join();
  if (lifetimes.key !== key) { lifetimes.key = key; lifetimes.parts = findLifetimes(model, rule, at, scope); lifetimes.most = 200; }
  const [found, declined] = lifetimes.parts, gone = new Set(declined?.list), all = declined ? [...found.list, ...declined.list] : found.list;
  const shown = firstBy(all, i => model.requested[i], true, lifetimes.most), count = part => [el("b", {}, plural(part.list.length, "allocation")), ", ", el("b", {}, bytes(part.bytes))];
  const change = (k, i, text) => k === REQUESTED && gone.has(i) ? signed(-model.requested[i], bytes) : k === REQUESTED && declined ? `+${text}` : text;
  const focus = panel.contains(document.activeElement) && document.activeElement.id;
  panel.replaceChildren(
    el("div", { class: "row" },
      el("select", { id: "rule", "aria-label": "Rule", onchange: e => { lifetimes.rule = e.target.value; redraw("panel", "cursor"); } },
        LIFETIME_RULES.map(([name]) => el("option", { value: name, selected: name === lifetimes.rule }, sentence(name.replaceAll("-", " "))))),
      el("span", {}, rule[1])),
    el("div", { class: "row marks" }, marks.map(mark => el("span", { class: "row tight" }, el("b", {}, mark.toUpperCase()), momentLink(at[mark]),
      el("button", { class: "btn", id: `mark-${mark}`, onclick: () => setMark(mark) }, `Set ${mark.toUpperCase()} here`)))),
    el("p", { class: "sum", id: "lifetimes" }, el("span", {}, declined ? "Grown " : "Found ", count(found)), declined ? el("span", {}, "Declined ", count(declined)) : ""),
    all.length ? rangeTable(columnsOf("allocations"), shown, { change })
      : el("p", { class: "empty" }, "No allocation answers this question. Move the cursor, and set the moments to other ones."),
    el("p", { class: "more" }, all.length ? `${int(shown.length)} of ${plural(all.length, "allocation")} shown, the largest first. ` : "",
      all.length > shown.length ? el("button", { class: "link", onclick: () => { lifetimes.most *= 5; redraw("panel"); } }, "Show more") : ""));
  if (focus) $(focus)?.focus();
}
