// The page: draws what a chat shows. Texts are set as text, never as HTML.
import * as aisdk from "./aisdk.js";
import * as agui from "./agui.js";

const protocols = { aisdk, agui };
const find = (id) => document.getElementById(id);
let chat = new aisdk.Chat();
let stopping;

function element(name, className, text) {
  const made = document.createElement(name);
  made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawn(part) {
  if (part.kind === "reasoning") {
    const made = element("details", "reasoning");
    made.append(element("summary", "", "Reasoning"), element("p", "", part.text));
    return made;
  }
  if (part.kind === "text") return element("p", "text", part.text);
  const made = element("section", `call ${part.state}`);
  made.dataset.call = part.id;
  made.append(element("b", "name", part.name), element("code", "arguments", part.text));
  if (part.result !== undefined) made.append(element("code", "result", part.result));
  else made.append(element("i", "state", { writing: "…", asks: "needs your approval", called: "running" }[part.state]));
  if (part.state === "asks") {
    for (const [label, yes] of [["Allow", true], ["Deny", false]]) {
      const button = element("button", yes ? "allow" : "deny", label);
      button.addEventListener("click", () => decide(part.id, yes));
      made.append(button);
    }
  }
  return made;
}

function draw() {
  const thread = find("thread");
  thread.replaceChildren(
    ...chat.shown().map(({ role, parts }) => {
      const made = element("article", role);
      made.append(...parts.map(drawn));
      return made;
    }),
  );
  window.scrollTo(0, document.body.scrollHeight);
}

async function follow(events) {
  find("send").disabled = true;
  find("stop").hidden = false;
  try {
    for await (const _ of events) draw();
  } catch (error) {
    draw();
    if (error.name !== "AbortError") find("thread").append(element("p", "error", error.message));
  } finally {
    find("send").disabled = false;
    find("stop").hidden = true;
  }
}

const decided = {};

function decide(call, yes) {
  decided[call] = yes;
  const waiting = chat.shown().flatMap(({ parts }) => parts).filter(({ state }) => state === "asks");
  if (waiting.every(({ id }) => id in decided)) {
    stopping = new AbortController();
    follow(chat.decide(decided, stopping.signal));
  }
}

find("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = find("question").value.trim();
  if (!text || find("send").disabled) return;
  find("question").value = "";
  stopping = new AbortController();
  follow(chat.ask(text, stopping.signal));
});
find("stop").addEventListener("click", () => stopping?.abort());
find("protocol").addEventListener("change", (event) => {
  chat = new protocols[event.target.value].Chat();
  draw();
});
