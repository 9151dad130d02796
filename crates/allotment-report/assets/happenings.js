// What happened at single moments: frames, stalls, refusals, marks, losses; and budgets.

class Happenings {
  constructor(model) {
    this.model = model;
    const numbers = name => model.columns.numbers(name);
    this.refusal = Object.fromEntries(["at", "reason", "requested", "available", "largest", "name"].map(name => [name, numbers(`refusal.${name}`)]));
    this.stall = { at: numbers("stall.at"), kind: numbers("stall.kind"), ns: numbers("stall.ns") };
    this.mark = { at: numbers("mark.at"), text: numbers("mark.text") };
    this.loss = { at: numbers("loss.at") };
  }

  /** The lanes below the timeline: only those in which something happened. */
  lanes() {
    const all = [
      { name: "frames", at: this.model.frames, colour: "faint", quiet: true },
      { name: "stalls", at: this.stall.at, colour: "stall", text: i => `${duration(this.stall.ns[i])} for ${this.model.word("stall", this.stall.kind[i])}` },
      { name: "refusals", at: this.refusal.at, colour: "alarm", mark: true, text: i => this.refusalText(i) },
      { name: "marks", at: this.mark.at, colour: "accent", mark: true, text: i => this.model.text(this.mark.text[i]) },
      { name: "lost events", at: this.loss.at, colour: "alarm", mark: true, text: () => "Events were lost here; the whole state follows." },
    ];
    return all.filter(lane => lane.at.length);
  }

  refusalText(i) {
    const r = this.refusal, name = this.model.text(r.name[i]);
    return `${name ? `${name}: ` : ""}${exact(r.requested[i])} refused: ${this.model.word("refusal", r.reason[i])}; available ${exact(r.available[i])}${r.largest[i] ? `, largest free range ${exact(r.largest[i])}` : ""}`;
  }

  /** The budget over time: of the chosen heap, or the sum of those that are known. */
  budget() {
    if (this.budgets?.scope === view.scope) return this.budgets;
    const numbers = name => this.model.columns.numbers(name), at = numbers("budget.at"), of = numbers("budget.of"), limit = numbers("budget.limit");
    const last = new Map(), out = { scope: view.scope, at: [], value: [] };
    for (let i = 0; i < at.length; i++) {
      if (view.scope >= 0 && of[i] !== view.scope) continue;
      last.set(of[i], limit[i]);
      const sum = [...last.values()].reduce((a, b) => a + b, 0);
      if (out.value.at(-1) !== sum) { out.at.push(at[i]); out.value.push(sum); }
    }
    return this.budgets = out;
  }

  /** Everything but frames, in its order. */
  all() {
    return this.list ??= this.lanes().filter(lane => !lane.quiet)
      .flatMap(lane => Array.from(lane.at, (at, i) => ({ at, kind: lane.name, colour: lane.colour, lane, i })))
      .sort((a, b) => a.at - b.at);
  }
}

/** The kinds that the list leaves out. */
const hidden = new Set();

/** A button for each kind, with how many there are of it. */
function kindFilter() {
  const toggle = name => { if (!hidden.delete(name)) hidden.add(name); redraw("panel"); };
  const button = ({ name, at }) => el("button", { id: `kind-${name.replace(" ", "-")}`, "aria-pressed": `${!hidden.has(name)}`, onclick: () => toggle(name) }, sentence(name), el("span", { class: "n" }, int(at.length)));
  return el("span", { class: "seg", id: "kinds", role: "group", "aria-label": "Kinds that are listed" }, view.happenings.lanes().filter(lane => !lane.quiet).map(button));
}

function drawHappenings(panel) {
  const every = view.happenings.all(), all = hidden.size ? every.filter(one => !hidden.has(one.kind)) : every, at = Math.max(0, after(all.map(one => one.at), view.t) - 100), shown = all.slice(at, at + 400);
  const none = [["refusal", "refusals"], ["stall", "stalls"], ["mark", "marks"]].filter(([kind]) => !view.happenings[kind].at.length).map(([, text]) => text);
  const focus = panel.contains(document.activeElement) && document.activeElement.id, framed = view.model.frames.length > 0;
  panel.replaceChildren(
    every.length ? el("div", { class: "row" }, kindFilter()) : "",
    none.length ? el("p", { class: every.length ? "muted" : "empty" }, `There are no ${none.join(", no ")} in this recording.`) : "",
    all.length ? el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, [["Event", 1], framed ? ["Frame", 1] : null, ["What"], [""]].filter(Boolean).map(([text, right]) => el("th", { class: right ? "r" : "" }, text)))),
      el("tbody", {}, shown.map(one => el("tr", { class: one.at === view.t ? "go sel" : "go", onclick: () => goTo(one.at) },
        el("td", { class: "r" }, int(one.at)), framed ? el("td", { class: "r" }, int(view.model.frameAt(one.at))) : null, el("td", { style: `color:var(--${one.colour})` }, one.kind.replace(/s$/, "")), el("td", { style: "max-width:none;white-space:normal" }, one.lane.text(one.i)))))))
      : every.length ? el("p", { class: "empty" }, "No kind is chosen that this recording has.") : "",
    el("p", { class: "more" }, all.length > shown.length ? `${int(shown.length)} of ${int(all.length)} shown, around the cursor.` : ""));
  if (focus) $(focus)?.focus();
}
