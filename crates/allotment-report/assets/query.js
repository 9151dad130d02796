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

/** For each text, whether it contains a part. */
function textsWith(part, model) {
  const found = new Uint8Array(model.texts.length + 1);
  for (let id = 1; id <= model.texts.length; id++) found[id] = model.texts.get(id - 1).toLowerCase().includes(part) ? 1 : 0;
  return found;
}
