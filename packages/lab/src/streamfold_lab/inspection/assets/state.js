// What the page knows: the stream, which never changes, and what the reader has chosen to see of it.

const data = JSON.parse(document.getElementById("data").textContent);
const words = data.words;
const lanes = data.lanes;
const WARNING = lanes.findIndex((lane) => lane.kind === "warning");
const ERROR = lanes.findIndex((lane) => lane.kind === "error");
const drawn = WARNING; // lanes before this one are drawn; warnings and errors are marks above them

const events = data.events.map(([number, kind, time, gap, piece, start, end, raw, steps]) => ({
  number, kind: words[kind], time, gap, piece, start, end, raw,
  steps: steps.map(([lane, what, text, why, opens]) => ({ lane, what: words[what], text, why: words[why], opens })),
}));

let latest = 0;
for (const event of events) {
  latest = event.at = event.time === null ? latest : event.time;
}

const state = {
  selected: -1,
  hovered: -1,
  axis: data.timed ? "time" : "order",
  only: new Set(), // lanes that are shown; empty: all
  query: "",
  matches: null, // per event, whether the query is in it; null: there is no query
  marks: new Map(), // of each piece that has a part of what was found: from where to where
  rows: [], // [event, step] for each line of the list
};

const listeners = [];
const changed = () => listeners.forEach((listener) => listener());

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

const byId = (id) => document.getElementById(id);
const isCall = (lane) => lanes[lane].kind === "call";
const laneName = (lane) => lanes[lane].key;
const laneClass = (lane) => {
  const { kind, key } = lanes[lane];
  return kind === "call" ? `lane-call-${Number(key.slice(5)) % 6}` : `lane-${kind}`;
};
const count = (value) => value.toLocaleString("en");
const seconds = (value) => `${value.toFixed(3)} s`;
const milliseconds = (value) => (value < 1 ? `+${Math.round(value * 1000)} ms` : `+${value.toFixed(2)} s`);

// Characters that have no look of their own get one.
const LOOKS = { "\n": "\u21b5", "\t": "\u21e5", "\x7f": "\u2421" };
const visible = (text) =>
  text
    .replace(/[\u0000-\u001f\u007f]/g, (char) => LOOKS[char] || String.fromCharCode(0x2400 + char.charCodeAt(0)))
    // What has no width, or turns the direction of what follows.
    .replace(/[\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (char) =>
      `\u27e8U+${char.charCodeAt(0).toString(16).toUpperCase()}\u27e9`);

// A browser lays out a million characters in seconds. Nobody reads them.
const shortened = (text, limit) =>
  text.length > limit ? `${text.slice(0, limit)} … (${count(text.length)} characters)` : text;

function title(event) {
  if (event.number) return `Event ${count(event.number)}`;
  return { comment: "Comment", body: "The whole body", rest: "Incomplete event", unread: "Not read", end: "End of the body" }[event.kind];
}

// --- Search: in the bytes of each event, in what is said about it, and in the texts that it is a piece of ---

let haystacks = null;
let joined = null;

function prepareSearch() {
  haystacks = events.map((event) =>
    `${event.raw}\n${event.steps.map((step) => `${step.what}\n${step.why}`).join("\n")}`.toLowerCase());
  joined = lanes.map(() => ({ text: [], starts: [], owners: [], steps: [], length: 0 }));
  events.forEach((event, number) => {
    for (const step of event.steps) {
      const lane = joined[step.lane];
      if (!step.text) continue;
      lane.starts.push(lane.length);
      lane.owners.push(number);
      lane.steps.push(step);
      lane.text.push(step.text.toLowerCase());
      lane.length += lane.text[lane.text.length - 1].length;
    }
  });
  for (const lane of joined) lane.text = lane.text.join("");
}

function find(query) {
  if (!haystacks) prepareSearch();
  const wanted = query.toLowerCase();
  const found = haystacks.map((text) => text.includes(wanted));
  for (const { text, starts, owners, steps } of joined) {
    for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
      let piece = lastAtOrBefore(starts, at);
      for (; piece < starts.length && starts[piece] < at + wanted.length; piece++) {
        found[owners[piece]] = true;
        if (!state.marks.has(steps[piece])) state.marks.set(steps[piece], [Math.max(0, at - starts[piece]), at + wanted.length - starts[piece]]);
      }
    }
  }
  return found;
}

// The last position in a sorted list whose value is not above this one; 0 if there is none.
function lastAtOrBefore(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (sorted[middle] <= value) low = middle; else high = middle - 1;
  }
  return low;
}

// --- What is shown ---

const showsLane = (lane) => state.only.size === 0 || state.only.has(lane);
const showsEvent = (number) => state.matches === null || state.matches[number];

function filter() {
  state.marks.clear();
  state.matches = state.query ? find(state.query) : null;
  state.rows = [];
  events.forEach((event, number) => {
    if (!showsEvent(number)) return;
    event.steps.forEach((step, position) => {
      if (showsLane(step.lane)) state.rows.push([number, position]);
    });
  });
}

function select(number) {
  if (number < 0 || number >= events.length) return;
  state.selected = number;
  changed();
}

function toggleLane(lane) {
  if (!state.only.delete(lane)) state.only.add(lane);
  filter();
  changed();
}
