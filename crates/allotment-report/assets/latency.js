// How long released memory waits for the GPU: from the release to the moment at which it is free.

const FRAMES_APART = 64; // the last bar has all that waited longer

/** What was released before a moment: how long it waited, and what waits still. */
function releases(model, t, scope = -1) {
  // What the events of a loss end was not freed; neither was a range that its allocation moved away from.
  const lost = new Set(model.columns.numbers("loss.at")), before = model.columns.numbers("range.before"), { movedOn } = model;
  const ended = at => after(model.frames, at), found = { completed: 0, immediate: 0, frames: new Float64Array(FRAMES_APART), times: new Float64Array(54), longest: null, waiting: [], bytes: 0 };
  for (let i = 0; i < model.count; i++) {
    if (model.from[i] > t || (scope >= 0 && model.heapOf(model.blockOf[i]) !== scope)) continue;
    const freed = model.to[i] <= t;
    if (freed && (movedOn[i] || lost.has(model.to[i]))) continue;
    if (!(model.flags[i] & RELEASED) || model.pending[i] > t) { if (freed) found.immediate++; continue; }
    // A range that the allocation moved to while it waited has waited before.
    let released = model.pending[i];
    for (let at = i; before[at];) { at = before[at] - 1; if (model.flags[at] & RELEASED) released = Math.min(released, model.pending[at]); }
    if (!freed) { found.waiting.push({ i, released }); found.bytes += model.requested[i]; continue; }
    const frames = ended(model.to[i]) - ended(released), ns = Math.max(0, model.nsAt(model.to[i]) - model.nsAt(released));
    found.completed++;
    found.frames[Math.min(frames, FRAMES_APART - 1)]++;
    found.times[ns ? Math.floor(Math.log2(ns)) + 1 : 0]++;
    if (!found.longest || frames > found.longest.frames) found.longest = { i, frames };
  }
  found.waiting.sort((a, b) => a.released - b.released);
  return found;
}

/** The number of frames within which a share of what was released was free. */
function framesAt(found, share) {
  let sum = 0;
  return found.frames.findIndex(count => (sum += count) >= Math.ceil(found.completed * share));
}

function drawLatency(panel) {
  const { model, t, scope, series } = view, key = `${t} ${scope}`;
  if (view.releases?.key !== key) view.releases = { key, ...releases(model, t, scope) };
  const found = view.releases, { waiting } = found;
  if (!found.completed && !waiting.length) { panel.replaceChildren(el("p", { class: "empty" }, found.immediate ? `No memory was released before the GPU was done with it: ${plural(found.immediate, "allocation")} of this recording ${found.immediate === 1 ? "was" : "were"} freed at once.` : "No memory was released before this moment.")); return; }
  const frames = n => n >= FRAMES_APART - 1 ? `${n} frames or more` : plural(n, "frame"), facts = model.columns.list("latency.facts"), fact = (k, ...value) => el("span", {}, `${facts[k]} `, el("b", {}, value));
  const oldest = waiting[0], waited = at => plural(after(model.frames, t) - after(model.frames, at), "frame");
  const parts = [el("p", { class: "sum", id: "releases" }, fact(0, plural(waiting.length, "allocation"), ", ", bytes(found.bytes)),
    oldest ? el("span", {}, "Oldest ", el("button", { class: "link", onclick: () => show(oldest.i) }, model.name(oldest.i)), `, since ${model.when(oldest.released)}`) : "",
    fact(1, int(found.completed)), fact(2, int(found.immediate)),
    found.completed && model.frames.length ? fact(3, frames(framesAt(found, 0.5))) : "", found.completed && model.frames.length ? fact(4, frames(framesAt(found, 0.99))) : "")];
  if (found.completed && (model.frames.length || model.timeAt.length)) {
    parts.push(el("h3", {}, model.frames.length ? "Frames from release to free" : "Time from release to free"), model.frames.length
      ? bars(found.frames, n => n === FRAMES_APART - 1 ? `${n}+` : int(n), n => `after ${frames(n)}`) : bars(found.times, n => n ? duration(2 ** (n - 1)) : "0", n => n ? `after ${duration(2 ** (n - 1))} to ${duration(2 ** n)}` : "at once"));
  }
  const samples = 600, at = [], value = [];
  let most = 0;
  for (let k = 0, from = 0; k < samples && from <= model.end; k++) {
    const to = Math.max(from + 1, Math.floor((model.end + 1) * (k + 1) / samples));
    let peak = 0;
    for (let s = from; s < to; s++) if (series.pending(s) > peak) peak = series.pending(s);
    at.push(from); value.push(peak); most = Math.max(most, peak); from = to;
  }
  if (most) parts.push(el("h3", {}, "Bytes that wait for the GPU, over time"), timeLine("Bytes that wait for the GPU, over time", at, value, most, bytes, "pending"));
  if (waiting.length) parts.push(el("h3", {}, "Waiting now, oldest first"), el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, [["Name"], ["Requested", 1], ["Released", 1], ["Waits for", 1]].map(([text, right]) => el("th", { class: right ? "r" : "" }, text)))),
    el("tbody", {}, waiting.slice(0, 100).map(({ i, released }) => el("tr", { class: "go", onclick: () => show(i) }, el("td", {}, model.name(i)), el("td", { class: "r" }, bytes(model.requested[i])), el("td", { class: "r" }, int(released - 1)),
      el("td", { class: "r" }, model.frames.length ? waited(released) : plural(t - released, "event"))))))));
  panel.replaceChildren(...parts);
}

/** Bars of counts, up to the last that is not 0. */
function bars(counts, name, text) {
  const last = counts.findLastIndex(count => count > 0), shown = Math.max(8, last + 1), most = counts.reduce((a, b) => Math.max(a, b), 1);
  const height = 120, bottom = height - 20, width = Math.max(300, $("panel").clientWidth), step = Math.min(64, (width - TIME_LEFT - TIME_RIGHT) / shown), every = Math.ceil(46 / step);
  return chart(height, "Counts", c => {
    c.textAlign = "right";
    for (const share of [0, 0.5, 1]) { const y = Math.round(bottom - share * (bottom - 14)); c.fillStyle = INK.grid; c.fillRect(TIME_LEFT, y, step * shown, 1); c.fillStyle = INK.muted; if (share !== 0.5 || most > 1) c.fillText(int(Math.round(most * share)), TIME_LEFT - 8, y); }
    c.textAlign = "center";
    for (let n = 0; n < shown; n++) {
      const x = TIME_LEFT + n * step, h = counts[n] ? Math.max(1, counts[n] / most * (bottom - 14)) : 0;
      c.fillStyle = INK.pending; c.fillRect(x + 1, bottom - h, step - 2, h);
      if (n % every === 0) { c.fillStyle = INK.muted; c.fillText(name(n), x + step / 2, bottom + 11); }
    }
  }, { hover: x => { const n = Math.floor((x - TIME_LEFT) / step); return n < 0 || n >= shown ? null : [`${plural(counts[n], "allocation")}`, [[text(n)]]]; } });
}
