// Advice: sentences that an analysis of the recording wrote.

function drawAdvice(panel) {
  panel.replaceChildren(el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, view.model.columns.list("advice.text").map(text =>
    el("tr", {}, el("td", { style: "max-width:none;white-space:normal" }, text)))))));
}
