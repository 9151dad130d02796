// The search of the table. Parts are separated by spaces and all must hold:
//   text           in the name, category or call site
//   #12  #4:0      in block 12, in block 0 of pool 4
//   0x1000         at that offset        0x1000-0x1fff   in that range of offsets
//   >64k  <=2MiB   requested bytes

const SIZE = /^([<>]=?)(\d+(?:\.\d+)?)\s*([kmg]?)(?:i?b)?$/i, OFFSETS = /^(0x[0-9a-f]+|\d+)-(0x[0-9a-f]+|\d+)$/i;

/** Returns a test of a range, or null if the query is empty. */
function parseQuery(text, model) {
  const tests = [];
  for (const part of text.trim().split(/\s+/).filter(Boolean)) {
    const size = part.match(SIZE), offsets = part.match(OFFSETS);
    if (size) {
      const limit = +size[2] * 1024 ** " kmg".indexOf(size[3].toLowerCase() || " ");
      const holds = { "<": n => n < limit, "<=": n => n <= limit, ">": n => n > limit, ">=": n => n >= limit }[size[1]];
      tests.push(i => holds(model.requested[i]));
    } else if (/^#\d+(:\d+)?$/.test(part)) {
      tests.push(i => `#${blockName(model.block.id[model.blockOf[i]])}` === part);
    } else if (offsets || /^0x[0-9a-f]+$/i.test(part)) {
      const low = Number(offsets ? offsets[1] : part), high = Number(offsets ? offsets[2] : part);
      tests.push(i => model.offset[i] <= high && model.offset[i] + model.occupied(i) > low);
    } else {
      const found = textsWith(part.toLowerCase(), model);
      const names = model.columns.numbers("range.name"), categories = model.columns.numbers("range.category"), sites = model.columns.numbers("range.site");
      tests.push(i => found[names[i]] || found[categories[i]] || found[sites[i]]);
    }
  }
  return tests.length ? i => tests.every(test => test(i)) : null;
}

/** For each text, whether it contains a part. That of the last part stays known. */
function textsWith(part, model) {
  const { texts } = model, known = model.textsFound;
  if (known?.part === part) return known.found;
  const found = new Uint8Array(texts.length + 1), all = texts.all()?.toLowerCase();
  if (all != null) {
    const { ends } = texts;
    // One search in all of them as one text. What a text begins and the next one ends is in none of them.
    for (let at = all.indexOf(part), id = 0; at >= 0;) {
      id = after(ends, at, id);
      if (at + part.length <= ends[id]) { found[id + 1] = 1; at = all.indexOf(part, ends[id]); } else at = all.indexOf(part, at + 1);
    }
  } else for (let id = 1; id <= texts.length; id++) found[id] = texts.get(id - 1).toLowerCase().includes(part) ? 1 : 0;
  model.textsFound = { part, found };
  return found;
}
