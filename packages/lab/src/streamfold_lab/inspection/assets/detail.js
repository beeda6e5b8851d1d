// The side: what came of the stream, and one event in full.

const answerBox = byId("answer"), eventBox = byId("event");
const LONGEST = 100000; // characters
let formatted = false;

function block(heading, ...children) {
  const made = element("section");
  made.append(element("h3", "", heading), ...children);
  return made;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// The payload of an event as the rules of the format have it.
function payload(raw) {
  const lines = raw.replace(/^\ufeff/, "").split(/\r\n|\n|\r/).filter((line) => line.startsWith("data:"));
  return lines.length ? lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n") : raw.trim();
}

function visibleLines(text, limit) {
  return shortened(text, limit).replace(/\s+$/, "").split("\n").map(visible).join("\n");
}

function link(number) {
  const made = element("button", "link", events[number].number ? `event ${count(events[number].number)}` : "at the end");
  made.type = "button";
  made.addEventListener("click", () => select(number));
  return made;
}

function showAnswer() {
  const { reasoning, text, refusal, calls, kept, usage, warnings } = data.answer;
  const parts = [];
  for (const [name, said] of [["Reasoning", reasoning], ["Text", text], ["Refusal", refusal]]) {
    if (said) parts.push(block(name, element("p", `said said-${name.toLowerCase()}`, shortened(said, LONGEST))));
  }
  const table = (made, className) => made.map((call) => {
    const card = element("div", `call ${call.number === null ? "lane-stream" : `lane-call-${call.number % 6}`} ${className}`);
    const head = element("p");
    head.append(element("b", "", call.name), " ", element("span", "id", call.id || ""));
    card.append(head, element("pre", call.error ? "wrong" : "", visibleLines(pretty(call.arguments), LONGEST)));
    return card;
  });
  if (calls.length) parts.push(block(`Tool calls`, ...table(calls, "")));
  if (kept.length) parts.push(block("Tool calls that streamfold didn't deliver", ...table(kept, "kept")));
  if (usage) parts.push(block("Usage", element("p", "", usage)));
  if (warnings.length) {
    parts.push(block("Warnings", ...warnings.map((warning) => {
      const line = element("p", "warned");
      line.append(element("b", "", warning.code), ` ${visible(warning.detail)} `, link(warning.event));
      return line;
    })));
  }
  if (data.about.length) {
    const facts = element("dl");
    for (const [name, told] of data.about) facts.append(element("dt", "", name), element("dd", "", told));
    parts.push(block("Recording", facts));
  }
  if (!parts.length) parts.push(element("p", "dim", "There is no answer."));
  answerBox.replaceChildren(...parts);
}

function showEvent() {
  const event = events[state.selected];
  if (!event) return;
  const head = element("div", "event-head");
  const [back, next, close] = [["‹", "Previous event"], ["›", "Next event"], ["×", "Close"]].map(([sign, label]) => {
    const button = element("button", "", sign);
    button.type = "button";
    button.setAttribute("aria-label", label);
    return button;
  });
  back.addEventListener("click", () => select(state.selected - 1));
  next.addEventListener("click", () => select(state.selected + 1));
  close.addEventListener("click", () => showTab("answer"));
  close.className = "close";
  head.append(element("h2", "", title(event)), back, next, close);
  const facts = [];
  if (event.time !== null) facts.push(seconds(event.time), milliseconds(event.gap));
  if (event.piece !== null) facts.push(`piece ${count(event.piece)}`);
  if (event.raw) facts.push(`bytes ${count(event.start)} to ${count(event.end)}`);
  const became = block("Effect", ...event.steps.map((step) => stepLine(step, LONGEST)));
  const parts = [head, element("p", "facts", facts.join(" · ")), became];
  if (event.raw) {
    const choice = element("span", "choice");
    const pre = element("pre", "raw");
    const show = () => {
      pre.textContent = formatted ? visibleLines(pretty(payload(event.raw)), LONGEST) : visibleLines(event.raw, LONGEST);
      choice.querySelectorAll("button").forEach((button, position) => button.setAttribute("aria-pressed", formatted === Boolean(position)));
    };
    ["as sent", "formatted"].forEach((name, position) => {
      const button = choice.appendChild(element("button", "", name));
      button.type = "button";
      button.addEventListener("click", () => { formatted = Boolean(position); show(); });
    });
    show();
    const raw = block("Raw", pre);
    raw.firstChild.append(choice);
    parts.push(raw);
  }
  eventBox.replaceChildren(...parts);
}

function showTab(name) {
  for (const tab of ["answer", "event"]) {
    byId(`tab-${tab}`).setAttribute("aria-selected", tab === name);
    byId(tab).hidden = tab !== name;
  }
  document.body.classList.toggle("sheet", name === "event");
}
