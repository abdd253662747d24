"use strict";
(() => {
  const get = (id) => document.getElementById(id);
  const controls = get("controls");
  if (!controls) return;
  const [filter, state, order, shown, sorted] = ["filter", "state", "order", "shown", "sorted"].map(get);
  const areas = [...document.querySelectorAll("section.area")];
  const documents = [...document.querySelectorAll("details.document")].map((element) => ({
    element,
    home: element.parentElement,
    title: element.querySelector(".title").textContent,
    text: element.textContent.toLowerCase(),
    states: element.dataset.states.split(" "),
    created: element.dataset.created || "",
    findings: Number(element.dataset.findings),
  }));
  const byTitle = (a, b) => a.title.localeCompare(b.title, "en");
  // Documents without a date are last in both directions.
  const byDate = (sign) => (a, b) =>
    !a.created - !b.created || sign * (a.created < b.created ? -1 : Number(a.created > b.created)) || byTitle(a, b);
  const orders = {
    title: byTitle,
    oldest: byDate(1),
    newest: byDate(-1),
    findings: (a, b) => b.findings - a.findings || byTitle(a, b),
  };
  let current = "area";

  const sort = () => {
    if (order.value === current) return;
    current = order.value;
    const compare = orders[current];
    const list = sorted.querySelector(".documents");
    if (compare) list.append(...[...documents].sort(compare).map((entry) => entry.element));
    else for (const entry of documents) entry.home.append(entry.element);
  };
  const update = () => {
    sort();
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const entry of documents) {
      const matches =
        words.every((word) => entry.text.includes(word)) && (!state.value || entry.states.includes(state.value));
      entry.element.hidden = !matches;
      count += matches;
    }
    sorted.hidden = current === "area" || count === 0;
    for (const area of areas) area.hidden = !area.querySelector("details:not([hidden])");
    shown.textContent = `${count} of ${documents.length} documents shown`;
  };
  const open = (value) => () => {
    for (const entry of documents) if (!entry.element.hidden) entry.element.open = value;
  };

  controls.addEventListener("submit", (event) => event.preventDefault());
  for (const control of [filter, state, order]) control.addEventListener("input", update);
  get("expand").addEventListener("click", open(true));
  get("collapse").addEventListener("click", open(false));
  // A link to an area shows the area even if the filter hides it.
  document.querySelectorAll('a[href^="#area-"]').forEach((link) =>
    link.addEventListener("click", () => {
      filter.value = state.value = "";
      order.value = "area";
      update();
    }),
  );
  controls.hidden = false;
  update();
})();
