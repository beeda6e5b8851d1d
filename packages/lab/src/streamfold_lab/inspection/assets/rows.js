// The list of steps. Thousands of them are no more work than thirty, because only those in view are in the page.

const list = byId("list"), rowsBox = byId("rows");
const live = new Map(); // row number -> its element
let rowHeight = 28;

function marked(text, parent, from = text.toLowerCase().indexOf(state.query.toLowerCase()), to = from + state.query.length) {
  // Lower case may be longer than what it is the lower case of: then nothing is marked.
  const marks = state.query && from >= 0 && text.toLowerCase().length === text.length;
  if (!marks) parent.append(visible(text));
  else parent.append(visible(text.slice(0, from)), element("mark", "", visible(text.slice(from, to))), visible(text.slice(to)));
  return parent;
}

function chip(lane) {
  return element("span", `chip ${laneClass(lane)}`, laneName(lane));
}

function whatOf(step, limit) {
  const what = element("span", `what ${laneClass(step.lane)}`);
  if (step.what) marked(shortened(step.what, limit), what.appendChild(element("span", "words")));
  if (step.text) marked(shortened(step.text, limit), what.appendChild(element("span", "piece")), ...(state.marks.get(step) || [-1]));
  return what;
}

function stepLine(step, limit) {
  const line = element("p", "step");
  line.append(chip(step.lane), whatOf(step, limit));
  if (step.why) line.append(element("span", "why", step.why));
  return line;
}

function makeRow(position) {
  const [number, place] = state.rows[position];
  const event = events[number], step = event.steps[place];
  const first = position === 0 || state.rows[position - 1][0] !== number;
  const row = element("div", `row ${laneClass(step.lane)}${first ? "" : " more"}`);
  row.id = `row-${position}`;
  row.setAttribute("role", "option");
  row.setAttribute("aria-setsize", state.rows.length);
  row.setAttribute("aria-posinset", position + 1);
  row.dataset.position = position;
  row.style.top = `${position * rowHeight}px`;
  row.append(element("span", "number", first ? (event.number ? count(event.number) : "–") : ""));
  if (data.timed) {
    row.append(element("span", "time", first && event.time !== null ? event.time.toFixed(3) : ""));
    row.append(element("span", "gap", first && event.gap !== null ? milliseconds(event.gap) : ""));
  }
  row.append(chip(step.lane), whatOf(step, 300), marked(step.why, element("span", "why")));
  return row;
}

function renderRows(fresh) {
  if (fresh) {
    for (const row of live.values()) row.remove();
    live.clear();
    rowHeight = matchMedia("(max-width: 760px)").matches ? 50 : 28;
    rowsBox.style.height = `${state.rows.length * rowHeight}px`;
  }
  const area = rowsBox.getBoundingClientRect(), clip = list.getBoundingClientRect();
  const from = Math.floor((Math.max(clip.top, 0) - area.top) / rowHeight) - 8;
  const to = Math.ceil((Math.min(clip.bottom, innerHeight) - area.top) / rowHeight) + 8;
  for (const [position, row] of live) {
    if (position < from || position > to) {
      row.remove();
      live.delete(position);
    }
  }
  for (let position = Math.max(0, from); position < Math.min(state.rows.length, to); position++) {
    let row = live.get(position);
    if (!row) {
      row = makeRow(position);
      live.set(position, row);
      rowsBox.append(row);
    }
    row.setAttribute("aria-selected", state.rows[position][0] === state.selected);
  }
}

function rowOf(number) {
  return state.rows.findIndex(([event]) => event === number);
}

function revealRow() {
  const position = rowOf(state.selected);
  if (position < 0) {
    list.removeAttribute("aria-activedescendant");
    return;
  }
  const top = position * rowHeight;
  if (list.scrollHeight > list.clientHeight + 1) { // else the page itself scrolls, and is left where the reader put it
    if (top < list.scrollTop) list.scrollTop = top - rowHeight;
    else if (top + 2 * rowHeight > list.scrollTop + list.clientHeight) list.scrollTop = top - list.clientHeight + 2 * rowHeight;
  }
  renderRows();
  list.setAttribute("aria-activedescendant", `row-${position}`);
}

list.addEventListener("click", (click) => {
  const row = click.target.closest(".row");
  if (row) select(state.rows[row.dataset.position][0]);
});
list.addEventListener("keydown", (key) => {
  const page = Math.max(1, Math.floor(list.clientHeight / rowHeight) - 1);
  const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[key.key];
  if (step === undefined || !state.rows.length) return;
  key.preventDefault();
  const last = state.rows.length - 1;
  let position = Math.max(rowOf(state.selected), 0);
  const before = state.selected;
  do position = Math.max(0, Math.min(last, position + step));
  while (state.rows[position][0] === before && position > 0 && position < last); // past the other lines of the event
  select(state.rows[position][0]);
});
addEventListener("scroll", () => renderRows(), { capture: true, passive: true });
