// Fourteen questions about when allocations were made and freed, with one to four moments A ≤ B ≤ C ≤ D.

/** The rules: `{ name, question, pairs }`. A pair is the bounds of the moments at which an allocation was made, and of those at
    which it was freed: after the first, up to the second. 0 is the start, 1 to 4 are A to D, 5 is never. A second pair counts
    as negative. */
function lifetimeRules() {
  const { columns } = view.model, question = columns.list("rule.question"), pairs = columns.numbers("rule.pairs"), bounds = columns.numbers("rule.bounds");
  let at = 0;
  return view.model.rules ??= columns.list("rule.name").map((name, k) => ({ name, question: question[k], pairs: Array.from({ length: pairs[k] }, () => [...bounds.slice(at, at += 4)]) }));
}

const lifetimes = { rule: "growth", most: 200 };
const lifetimeRule = name => lifetimeRules().find(rule => rule.name === name);
/** The moments that a rule looks at. */
const marksOf = rule => MARKS.filter((_, k) => rule.pairs.some(pair => pair.includes(k + 1)));

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
function findLifetimes(model, rule, marks, scope = -1) { return whole(lifetimeSteps(model, rule, marks, scope)); }

function* lifetimeSteps(model, { pairs }, marks, scope) {
  const { from, to, movedOn } = model, before = model.columns.numbers("range.before"), moments = [0, ...MARKS.map(mark => marks[mark]), Infinity];
  const parts = [];
  for (const pair of pairs) {
    const [madeAfter, madeBy, freedAfter, freedBy] = pair.map(bound => moments[bound]), part = { list: [], bytes: 0 };
    for (let i = 0; i < model.count; i++) {
      if (i % PAUSE === 0) yield;
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

/** All allocations that were found, and the largest of them. */
function* largestOf(model, [found, declined], most) {
  const all = declined ? [...found.list, ...declined.list] : found.list;
  return { all, shown: yield* firstBy(all, i => model.requested[i], true, most) };
}

function drawLifetimes(panel) {
  const { model, scope } = view, rule = lifetimeRule(lifetimes.rule), marks = marksOf(rule), at = lifetimeMarks(), key = [lifetimes.rule, scope, ...Object.values(at)].join();
  if (lifetimes.key !== key) { lifetimes.key = key; lifetimes.most = 200; }
  const { most } = lifetimes, found = inSlices("lifetimes", key, () => lifetimeSteps(model, rule, at, scope), "panel");
  const largest = found && inSlices("largest", `${key},${most}`, () => largestOf(model, found, most), "panel");
  if (!largest) {
    if (!$("rule")) panel.replaceChildren(el("p", { class: "empty" }, "Looking at all allocations …"));
    return;
  }
  lifetimes.parts = found;
  const [kept, declined] = found, { all, shown } = largest, gone = new Set(declined?.list), count = part => [el("b", {}, plural(part.list.length, "allocation")), ", ", el("b", {}, bytes(part.bytes))];
  const change = (k, i, text) => k === REQUESTED && gone.has(i) ? signed(-model.requested[i], bytes) : k === REQUESTED && declined ? `+${text}` : text;
  const focus = panel.contains(document.activeElement) && document.activeElement.id;
  panel.replaceChildren(
    el("div", { class: "row" },
      el("select", { id: "rule", "aria-label": "Rule", onchange: e => { lifetimes.rule = e.target.value; redraw("panel", "cursor"); } },
        lifetimeRules().map(({ name }) => el("option", { value: name, selected: name === lifetimes.rule }, sentence(name.replaceAll("-", " "))))),
      el("span", {}, rule.question)),
    el("div", { class: "row marks" }, marks.map(mark => el("span", { class: "row tight" }, el("b", {}, mark.toUpperCase()), momentLink(at[mark]),
      el("button", { class: "btn", id: `mark-${mark}`, onclick: () => setMark(mark) }, `Set ${mark.toUpperCase()} here`)))),
    el("p", { class: "sum", id: "lifetimes" }, el("span", {}, declined ? "Grown " : "Found ", count(kept)), declined ? el("span", {}, "Declined ", count(declined)) : ""),
    all.length ? rangeTable(columnsOf("allocations"), shown, { change })
      : el("p", { class: "empty" }, "No allocation answers this question. Move the cursor, and set the moments to other ones."),
    el("p", { class: "more" }, all.length ? `${int(shown.length)} of ${plural(all.length, "allocation")} shown, the largest first. ` : "",
      all.length > shown.length ? el("button", { class: "link", onclick: () => { lifetimes.most *= 5; redraw("panel"); } }, "Show more") : ""));
  if (focus) $(focus)?.focus();
}
