// The small text at the pointer, with exact numbers.

const sentence = text => text.charAt(0).toUpperCase() + text.slice(1);

function showTip(e, title, lines) {
  const tip = $("tip");
  tip.replaceChildren(el("b", {}, title), ...lines.map(parts => el("span", { class: "muted" }, parts.join(" "))));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const x = e.clientX + 14 + width > innerWidth - 8 ? e.clientX - 14 - width : e.clientX + 14;
  const y = e.clientY + 16 + height > innerHeight - 8 ? e.clientY - 12 - height : e.clientY + 16;
  tip.style.left = `${Math.max(4, x)}px`; tip.style.top = `${Math.max(4, y)}px`;
}
function hideTip() { $("tip").hidden = true; }

/** Title and lines for what is under the pointer in the block map. */
function tipOf(hit) {
  const { model, moment } = view, b = hit.block;
  if (hit.range != null) {
    const i = hit.range, what = moment.classOf(i);
    const lines = [[exact(model.requested[i]), "requested"]];
    if (model.beyond[i]) lines.push([exact(model.beyond[i]), "of rounding"]);
    lines.push(["offset", hex(model.offset[i]), `(${exact(model.offset[i])})`, `in block #${blockName(model.block.id[b])}`]);
    if (what !== USED) lines.push([CLASS_NAMES[what]]);
    return [model.name(i), lines];
  }
  if (hit.high) return [hit.padding ? "Alignment padding" : "Free", [[exact(hit.high - hit.low)], ["offset", hex(hit.low), `in block #${blockName(model.block.id[b])}`]]];
  const is = moment.look(b);
  return [`Block #${blockName(model.block.id[b])}`, [[exact(moment.size[b])], [exact(is.used), "used"], [exact(is.free - is.padding), "free"], ...is.padding ? [[exact(is.padding), "alignment padding"]] : []]];
}
