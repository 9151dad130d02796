// Advice: sentences that an analysis of the recording wrote, with the moments that they are about.

function drawAdvice(panel) {
  const { columns, end } = view.model, at = columns.numbers("advice.at"), texts = columns.list("advice.text");
  panel.replaceChildren(el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, texts.map((text, k) => el("tr", {},
    el("td", { style: "max-width:none;white-space:normal" }, text), el("td", { class: "r" }, at[k] ? momentLink(Math.min(at[k] - 1, end)) : "")))))));
}
