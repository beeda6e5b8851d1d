// The picture: one lane for each part of the answer, one mark for each piece. Only what is in view is drawn.

const canvas = byId("canvas"), ruler = byId("ruler"), plot = byId("plot"), box = byId("lanes"), tip = byId("tip");
const view = { from: 0, to: 1, width: 0, height: 0, lane: 28 };
const largest = lanes.map(() => 1);
const spans = lanes.map(() => null);
let positions = [];
let colors = {};

for (const [number, event] of events.entries()) {
  for (const { lane, text } of event.steps) {
    largest[lane] = Math.max(largest[lane], text.length);
    spans[lane] = [spans[lane] ? spans[lane][0] : number, number];
  }
}

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  const shades = lanes.map((_, lane) => read(`--${laneClass(lane)}`));
  colors = { lanes: shades, line: read("--line"), dim: read("--dim"), ink: read("--ink"), band: read("--band"), error: read("--error"), warning: read("--warning") };
}

function fit() {
  positions = state.axis === "time" ? events.map((event) => event.at) : events.map((_, number) => number);
  const last = positions[positions.length - 1] || 0;
  const room = (last - positions[0] || 1) * (8 / (plot.clientWidth || 800)) + (state.axis === "time" ? 0 : 0.5);
  view.from = (positions[0] || 0) - room;
  view.to = last + room;
  view.least = (view.to - view.from) / Math.max(1, events.length / 4);
  view.all = [view.from, view.to];
  byId("unit").textContent = state.axis === "order" ? "event" : "";
  draw();
}

function zoom(factor, around = 0.5) {
  const width = Math.max(view.least, Math.min((view.to - view.from) * factor, view.all[1] - view.all[0]));
  move(view.from + (view.to - view.from - width) * around, width);
}

function move(from, width = view.to - view.from) {
  view.from = Math.max(view.all[0], Math.min(from, view.all[1] - width));
  view.to = view.from + width;
  draw();
}

const xOf = (number) => ((positions[number] - view.from) / (view.to - view.from)) * view.width;
const isZoomed = () => view.to - view.from < (view.all[1] - view.all[0]) * 0.999;

function reveal(number) {
  const at = positions[number];
  const width = view.to - view.from;
  if (at < view.from || at > view.to) move(at - width / 2);
  const tops = events[number].steps.filter(({ lane }) => lane < drawn).map(({ lane }) => lane * view.lane);
  const seen = (top) => top >= box.scrollTop && top + view.lane <= box.scrollTop + box.clientHeight;
  if (tops.length && !tops.some(seen)) box.scrollTop = tops[0] - box.clientHeight / 2;
}

function resize() {
  const ratio = window.devicePixelRatio || 1;
  view.lane = matchMedia("(max-width: 760px)").matches ? 34 : 28;
  byId("labels").style.setProperty("--lane", `${view.lane}px`);
  view.width = plot.clientWidth;
  byId("ruler").parentElement.style.paddingRight = `${12 + box.offsetWidth - box.clientWidth}px`;
  view.height = Math.min(box.clientHeight, drawn * view.lane);
  for (const [surface, height] of [[canvas, view.height], [ruler, 30]]) {
    surface.width = Math.round(view.width * ratio);
    surface.height = Math.round(height * ratio);
    surface.style.width = `${view.width}px`;
    surface.style.height = `${height}px`;
    surface.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  draw();
}

let waiting = false;
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawLanes();
    drawRuler();
  });
}

function drawLanes() {
  const pen = canvas.getContext("2d");
  const { width, height, lane: high } = view;
  const scrolled = box.scrollTop;
  pen.clearRect(0, 0, width, height);
  for (let lane = 0; lane < drawn; lane++) {
    const top = lane * high - scrolled;
    if (top + high < 0 || top > height) continue;
    pen.fillStyle = colors.line;
    pen.fillRect(0, top + high - 1, width, 1);
    if (spans[lane] && lanes[lane].kind !== "stream") {
      const [start, end] = spans[lane].map(xOf);
      pen.globalAlpha = showsLane(lane) ? 0.3 : 0.1;
      pen.fillStyle = colors.lanes[lane];
      pen.fillRect(start, top + high / 2 - 0.5, Math.max(1, end - start), 1);
      pen.globalAlpha = 1;
    }
  }
  for (const [number, color] of [[state.hovered, colors.line], [state.selected, colors.ink]]) {
    if (number < 0) continue;
    pen.fillStyle = color;
    pen.fillRect(Math.round(xOf(number)), 0, 1, height);
  }
  const [first, last] = inView();
  const room = width / (last - first + 1);
  const wide = Math.max(1.25, state.axis === "order" ? Math.min(room * 0.66, 9) : Math.min(room * 0.4, 3));
  for (let number = first; number <= last; number++) {
    const x = xOf(number);
    for (const step of events[number].steps) {
      const top = step.lane * high - scrolled;
      if (step.lane >= drawn || top + high < 0 || top > height) continue;
      const faint = !showsLane(step.lane) || !showsEvent(number);
      pen.globalAlpha = faint ? 0.12 : step.opens || number === state.selected ? 1 : 0.72;
      pen.fillStyle = colors.lanes[step.lane];
      if (lanes[step.lane].kind === "stream") {
        pen.beginPath();
        pen.arc(x, top + high / 2, number === state.selected ? 4 : 2.5, 0, 7);
        pen.fill();
        continue;
      }
      const size = step.opens ? 1 : Math.log2(1 + step.text.length) / Math.log2(1 + largest[step.lane]);
      const tall = 4 + (high - 12) * size;
      pen.fillRect(x - wide / 2, top + (high - tall) / 2, wide, tall);
    }
  }
  pen.globalAlpha = 1;
}

function inView() {
  const spare = ((view.to - view.from) / Math.max(1, view.width)) * 8;
  const first = lastAtOrBefore(positions, view.from - spare);
  return [first && positions[first] === positions[first - 1] ? positions.indexOf(positions[first]) : first, lastAtOrBefore(positions, view.to + spare)];
}

function drawRuler() {
  const pen = ruler.getContext("2d");
  pen.clearRect(0, 0, view.width, 30);
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  pen.textBaseline = "alphabetic";
  pen.fillStyle = colors.line;
  pen.fillRect(0, 29, view.width, 1);
  const [step, digits] = tickStep((view.to - view.from) / Math.max(2, view.width / (view.width < 500 ? 50 : 90)));
  const shift = state.axis === "order" ? 1 : 0; // events are counted from 1, their positions from 0
  for (let at = Math.ceil((view.from + shift) / step) * step; at - shift <= view.to; at += step) {
    const place = Math.round(at / step) * step - shift;
    if (shift && !(events[place] && events[place].number)) continue;
    const x = ((place - view.from) / (view.to - view.from)) * view.width;
    pen.fillStyle = colors.line;
    pen.fillRect(Math.round(x), 24, 1, 6);
    const label = shift ? count(events[place].number) : `${place.toFixed(digits)} s`;
    const room = pen.measureText(label).width;
    pen.fillStyle = colors.dim;
    pen.fillText(label, Math.max(0, Math.min(x - room / 2, view.width - room)), 12);
  }
  const [first, last] = inView();
  for (let number = first; number <= last; number++) {
    for (const { lane } of events[number].steps) {
      if (lane < drawn) continue;
      const x = xOf(number);
      pen.fillStyle = lane === ERROR ? colors.error : colors.warning;
      pen.beginPath();
      pen.moveTo(x - 5, 19);
      pen.lineTo(x + 5, 19);
      pen.lineTo(x, 28);
      pen.fill();
    }
  }
}

function tickStep(least) {
  if (state.axis === "order") least = Math.max(1, least);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least * 0.999);
  return [step, Math.max(0, -Math.floor(Math.log10(step) + 1e-9))];
}

// --- Pointing ---

function eventAt(clientX, clientY) {
  const area = plot.getBoundingClientRect();
  const x = clientX - area.left;
  const lane = Math.floor((clientY - area.top) / view.lane); // the plot moves with its lanes
  const at = view.from + (x / view.width) * (view.to - view.from);
  const near = lastAtOrBefore(positions, at);
  let best = -1, nearest = Infinity;
  for (let number = Math.max(0, near - 40); number <= Math.min(events.length - 1, near + 40); number++) {
    const inLane = events[number].steps.some((step) => step.lane === lane);
    const distance = Math.abs(xOf(number) - x) + (inLane ? 0 : 12);
    if (distance < nearest) [best, nearest] = [number, distance];
  }
  return best;
}

const pointers = new Map();
let dragged = 0;

plot.addEventListener("pointerdown", (pointer) => {
  pointers.set(pointer.pointerId, pointer.clientX);
  dragged = 0;
});
plot.addEventListener("pointermove", (pointer) => {
  const before = pointers.get(pointer.pointerId);
  if (before === undefined) {
    if (pointer.pointerType === "mouse") hover(eventAt(pointer.clientX, pointer.clientY), pointer.clientX);
    return;
  }
  const others = [...pointers].filter(([id]) => id !== pointer.pointerId).map(([, x]) => x);
  pointers.set(pointer.pointerId, pointer.clientX);
  dragged += Math.abs(pointer.clientX - before);
  if (others.length) {
    const [old, now] = [Math.abs(before - others[0]), Math.abs(pointer.clientX - others[0])];
    const middle = ((pointer.clientX + others[0]) / 2 - plot.getBoundingClientRect().left) / view.width;
    if (old > 8 && now > 8) zoom(old / now, middle);
  } else if (isZoomed() && dragged > 4) {
    hover(-1);
    move(view.from - ((pointer.clientX - before) / view.width) * (view.to - view.from));
  }
});
for (const kind of ["pointerup", "pointercancel", "pointerleave"]) {
  plot.addEventListener(kind, (pointer) => {
    if (kind === "pointerup" && dragged <= 4 && pointers.size === 1) select(eventAt(pointer.clientX, pointer.clientY));
    pointers.delete(pointer.pointerId);
    if (kind === "pointerleave") hover(-1);
  });
}
plot.addEventListener("wheel", (wheel) => {
  if (wheel.ctrlKey || wheel.metaKey) {
    wheel.preventDefault();
    zoom(Math.exp(wheel.deltaY * 0.004), (wheel.clientX - plot.getBoundingClientRect().left) / view.width);
  } else if (isZoomed() && Math.abs(wheel.deltaX) > Math.abs(wheel.deltaY)) {
    wheel.preventDefault();
    move(view.from + (wheel.deltaX / view.width) * (view.to - view.from));
  }
}, { passive: false });
plot.addEventListener("keydown", (key) => {
  const last = events.length - 1;
  const to = {
    ArrowLeft: state.selected - 1, ArrowRight: state.selected + 1, Home: 0, End: last,
    PageUp: Math.max(0, state.selected - 10), PageDown: Math.min(last, state.selected + 10),
  }[key.key];
  if (key.key === "+" || key.key === "-") zoom(key.key === "+" ? 0.5 : 2, middle());
  else if (to === undefined) return;
  else {
    select(Math.max(0, Math.min(to, last)));
    tipFor(state.selected);
  }
  key.preventDefault();
});
plot.addEventListener("focus", () => {
  if (plot.matches(":focus-visible") && state.selected >= 0) tipFor(state.selected);
});
plot.addEventListener("blur", () => hover(-1));
box.addEventListener("scroll", draw);

function hover(number, x) {
  if (number !== state.hovered) {
    state.hovered = number;
    draw();
    fillTip(number);
  }
  if (number >= 0) placeTip(x);
}

function tipFor(number) {
  const area = plot.getBoundingClientRect();
  fillTip(number);
  placeTip(area.left + xOf(number));
}

function fillTip(number) {
  tip.hidden = number < 0;
  tip.replaceChildren();
  if (number < 0) return;
  const event = events[number];
  const head = element("p", "tip-head", title(event));
  if (event.time !== null) head.append(element("span", "dim", ` ${seconds(event.time)}`));
  tip.append(head);
  for (const step of event.steps.slice(0, 3)) tip.append(stepLine(step, 300));
  tip.append(element("pre", "", visibleLines(event.raw, 700)));
}

// Below the picture, so that it hides nothing of it; above, where there is no room.
function placeTip(x) {
  const { offsetWidth: wide, offsetHeight: high } = tip;
  const { top, bottom } = box.getBoundingClientRect();
  const below = bottom + 8 + high <= innerHeight ? bottom + 8 : Math.max(8, top - 38 - high);
  tip.style.left = `${Math.max(8, Math.min(x - 24, innerWidth - 8 - wide))}px`;
  tip.style.top = `${below}px`;
}
