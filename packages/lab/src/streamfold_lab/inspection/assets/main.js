// What stands still is written once; what changes listens.

for (const part of (data.name || "a stream").split(/(?<=[/_])/)) byId("name").append(part, element("wbr"));
byId("facts").textContent = data.facts.join(" · ");
const outcome = byId("outcome");
outcome.className = data.outcome.how;
outcome.textContent = data.outcome.label;

const problems = byId("problems");
const told = data.answer.warnings.map((warning) => ["warning", warning.code, warning.detail, warning.event]);
if (data.outcome.how === "failed") told.unshift(["error", data.outcome.label, data.outcome.message, Math.max(0, events.findIndex((event) => event.steps.some((step) => step.lane === ERROR)))]);
for (const [kind, name, detail, event] of told.slice(0, 4)) {
  const line = problems.appendChild(element("li", kind));
  line.append(element("b", "", name), element("span", "", ` ${visible(detail)} `));
  if (events.length) line.append(link(event));
}
if (told.length > 4) problems.appendChild(element("li", "dim", `and ${count(told.length - 4)} more, listed with the answer`));
problems.hidden = !told.length;

const labels = byId("labels");
const sizes = lanes.map((_, lane) => events.reduce((sum, event) => sum + event.steps.filter((step) => step.lane === lane).length, 0));
for (let lane = 0; lane < drawn; lane++) {
  const button = labels.appendChild(element("button", `label ${laneClass(lane)}`));
  button.type = "button";
  button.append(element("i"), element("span", "label-name", lanes[lane].label));
  if (isCall(lane)) button.append(element("span", "label-sub", lanes[lane].key.slice(5)));
  button.append(element("span", "label-count", count(sizes[lane])));
  button.title = `${laneName(lane)}${isCall(lane) ? ` (${lanes[lane].label})` : ""}: show only this`;
  button.addEventListener("click", () => toggleLane(lane));
}

const search = byId("search");
search.addEventListener("input", () => {
  state.query = search.value;
  filter();
  changed();
});
search.addEventListener("keydown", (key) => {
  if (key.key !== "Enter" || !state.rows.length) return;
  const next = state.rows.find(([number]) => number > state.selected) || state.rows[0];
  select(next[0]);
});
byId("clear").addEventListener("click", () => {
  search.value = state.query = "";
  state.only.clear();
  filter();
  changed();
});
addEventListener("keydown", (key) => {
  if (key.key === "/" && document.activeElement !== search) {
    key.preventDefault();
    search.focus();
  } else if (key.key === "Escape") {
    hover(-1);
    showTab("answer");
  }
});

const axis = byId("axis");
axis.hidden = !data.timed;
axis.addEventListener("click", (click) => {
  const chosen = click.target.dataset.axis;
  if (!chosen) return;
  state.axis = chosen;
  fit();
  changed();
});
const middle = () => { // of the zoom: the chosen event, if it is in view
  const place = state.selected < 0 ? -1 : xOf(state.selected) / view.width;
  return place >= 0 && place <= 1 ? place : 0.5;
};
byId("zoom-in").addEventListener("click", () => zoom(0.5, middle()));
byId("zoom-out").addEventListener("click", () => zoom(2, middle()));
byId("zoom-fit").addEventListener("click", fit);
byId("tab-answer").addEventListener("click", () => showTab("answer"));
byId("tab-event").addEventListener("click", () => select(Math.max(0, state.selected)));

const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
const paint = () => { readColors(); draw(); };
byId("theme").addEventListener("click", () => {
  const now = root.dataset.theme || (dark.matches ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
  paint();
});
dark.addEventListener("change", paint);

const total = events.filter((event) => event.number).length;
let shown = { rows: null, selected: -1 };
listeners.push(() => {
  [...labels.children].forEach((button, lane) => button.setAttribute("aria-pressed", state.only.has(lane)));
  axis.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", button.dataset.axis === state.axis));
  const seen = new Set(state.rows.map(([number]) => number).filter((number) => events[number].number));
  byId("count").textContent = seen.size === total ? `${count(total)} events` : `${count(seen.size)} of ${count(total)} events`;
  byId("clear").hidden = !state.query && !state.only.size;
  renderRows(shown.rows !== state.rows);
  if (shown.selected !== state.selected) {
    showEvent();
    reveal(state.selected);
    revealRow();
    plot.setAttribute("aria-valuenow", state.selected + 1);
    plot.setAttribute("aria-valuetext", `${title(events[state.selected])}: ${events[state.selected].steps.map((step) => laneName(step.lane)).join(", ")}`);
  }
  if (state.selected >= 0 && shown.selected !== state.selected) showTab("event");
  shown = { rows: state.rows, selected: state.selected };
  draw();
});

plot.setAttribute("aria-valuemin", 1);
plot.setAttribute("aria-valuemax", Math.max(1, events.length));
plot.setAttribute("aria-valuenow", 1);
labels.style.height = plot.style.height = `calc(var(--lane, 28px) * ${drawn})`;
addEventListener("resize", () => { resize(); renderRows(true); });
new ResizeObserver(resize).observe(plot); // a scroll bar may come or go beside it
readColors();
filter();
showAnswer();
resize();
fit();
changed();
