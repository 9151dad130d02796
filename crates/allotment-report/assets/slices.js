// Work that takes longer than a frame, in slices, so that the page answers meanwhile.

/** For how many milliseconds a slice works, and after how many of its steps a loop pauses. */
const SLICE = 20, PAUSE = 8192;

/** What is being found or was found, by name: `{ key, steps, parts, done, value }`. */
const tasks = new Map();

/** Returns what a generator returns, once it has; until then undefined, and `parts` of the page are drawn again when it has. One with another key
    takes the place of the one of the same name. The generator yields wherever it may pause. */
function inSlices(name, key, steps, ...parts) {
  let task = tasks.get(name);
  if (task?.key !== key) {
    tasks.set(name, task = { key, steps: steps(), parts, done: false });
    // What takes less than a slice is there at once.
    work(name, task);
  }
  return task.value;
}

function work(name, task) {
  const until = performance.now() + SLICE, late = task.late;
  do {
    const { done, value } = task.steps.next();
    if (done) { Object.assign(task, { done, value, steps: null }); if (late) redraw(...task.parts); return; }
  } while (performance.now() < until);
  task.late = true;
  setTimeout(() => { if (tasks.get(name) === task) work(name, task); });
}

/** True while something of the list is being found. */
const isWorking = () => [...tasks.values()].some(({ done, parts }) => !done && parts.includes("panel"));

/** Returns what a generator returns, at once. */
function whole(steps) { for (;;) { const { done, value } = steps.next(); if (done) return value; } }

/** The first `most` of `items` by `key`, and of equal ones those that are before. Few of many items are ever sorted. */
function* firstBy(items, key, down, most) {
  const sign = down ? -1 : 1, count = items.length;
  let kept = [], limit = Infinity;
  const cut = () => { kept.sort((a, b) => a[0] - b[0] || a[1] - b[1]); kept.length = Math.min(kept.length, most); };
  for (let k = 0; k < count; k++) {
    if (k % PAUSE === 0) yield;
    const value = sign * key(items[k]);
    if (value >= limit) continue;
    kept.push([value, k]);
    if (kept.length >= 2 * most + 100) { cut(); limit = kept.at(-1)[0]; }
  }
  cut();
  return kept.map(([, k]) => items[k]);
}

/** The position of each text among all in the order of the alphabet. Equal ones have the same. Sorts short runs, and merges them. */
function* alphabet(text) {
  const { compare } = new Intl.Collator("en", { numeric: true }), by = (i, j) => compare(text[i], text[j]), ranks = new Uint32Array(text.length);
  let runs = [[]];
  for (let at = 0; at < text.length; at += 1024) {
    const run = Array.from({ length: Math.min(1024, text.length - at) }, (_, k) => at + k);
    runs.push(run.sort(by));
    yield;
  }
  while (runs.length > 1) {
    const merged = [];
    for (let r = 0; r < runs.length; r += 2) {
      const a = runs[r], b = runs[r + 1] ?? [], both = [];
      for (let i = 0, j = 0; i < a.length || j < b.length;) {
        if (both.length % 1024 === 1023) yield;
        both.push(j === b.length || (i < a.length && by(a[i], b[j]) <= 0) ? a[i++] : b[j++]);
      }
      merged.push(both);
    }
    runs = merged;
  }
  const [order] = runs;
  for (let k = 1; k < order.length; k++) ranks[order[k]] = ranks[order[k - 1]] + (text[order[k]] === text[order[k - 1]] ? 0 : 1);
  return ranks;
}
