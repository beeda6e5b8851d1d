"use strict";
(() => {
// The cards and the answers, as the examination left them. Nothing here makes markup from text.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const element = (tag, kind, text) => {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
};
const answers = new Map(data.answers.map((answer) => [`${answer.card}/${answer.number}`, answer]));

byId("title").textContent = data.title;
byId("facts").textContent = data.facts;

const show = (chosen) => {
  [...byId("apis").children].forEach((button, at) => button.setAttribute("aria-pressed", String(at === chosen)));
  [...byId("cards").children].forEach((card, at) => { card.hidden = at !== chosen; });
};

data.cards.forEach((card, at) => {
  const button = byId("apis").appendChild(element("button", "", card.adapter));
  button.type = "button";
  button.addEventListener("click", () => show(at));
  const section = byId("cards").appendChild(element("section"));
  section.append(element("p", "facts", card.facts));
  for (const theme of [...new Set(card.findings.map((finding) => finding.theme))]) {
    const group = section.appendChild(element("div", "theme"));
    group.append(element("h3", "", theme));
    for (const finding of card.findings.filter((one) => one.theme === theme)) group.append(row(finding, at));
  }
  if (card.profile) {
    const group = section.appendChild(element("div", "theme"));
    group.append(element("h3", "", "profile"), element("pre", "profile", card.profile));
  }
});
byId("apis").hidden = data.cards.length < 2;
show(0);

function row(finding, card) {
  const made = element("div", "finding");
  made.dataset.probe = finding.probe;
  made.append(element("span", `verdict ${finding.verdict}`, finding.verdict));
  const said = made.appendChild(element("div", "said"));
  said.append(element("p", "question", finding.question));
  said.append(element("p", "saw", finding.tally ? `${finding.saw} (${finding.tally})` : finding.saw));
  if (finding.does) said.append(element("p", "does", finding.does));
  const list = made.appendChild(element("div", "answers"));
  for (const number of finding.answers) {
    const answer = answers.get(`${card}/${number}`);
    if (!answer) continue;
    const button = list.appendChild(element("button", "", `#${number}`));
    button.type = "button";
    button.title = `Open answer ${number}: ${answer.name}`;
    button.addEventListener("click", () => open(answer));
  }
  const others = finding.count - finding.answers.length;
  const responses = others === 1 ? "1 response" : `${others} responses`;
  if (others) list.append(element("span", "others", finding.answers.length ? `and ${others} more` : responses));
  return made;
}

// A stream is drawn by the inspector's own page, in a frame that can reach nothing.
function open(answer) {
  const views = [["stream", answer.stream !== null], ["request", true], ["answer", answer.stream === null]];
  const choice = byId("viewer-choice");
  choice.replaceChildren();
  byId("viewer-name").textContent = `#${answer.number} ${answer.name}`;
  const view = (name) => {
    [...choice.children].forEach((button) => button.setAttribute("aria-pressed", String(button.textContent === name)));
    byId("stream").hidden = name !== "stream";
    byId("text").hidden = name === "stream";
    if (name === "stream") byId("stream").srcdoc = data.frame[0] + block(answer.stream) + data.frame[1];
    else byId("text").textContent = name === "request" ? answer.request : answer.body;
  };
  for (const [name, there] of views) {
    if (!there) continue;
    const button = choice.appendChild(element("button", "", name));
    button.type = "button";
    button.addEventListener("click", () => view(name));
  }
  view(choice.firstChild.textContent);
  byId("viewer").showModal();
}

function block(value) {
  return JSON.stringify(value).replace(/[<>&\u2028\u2029]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

byId("close").addEventListener("click", () => byId("viewer").close());
byId("viewer").addEventListener("close", () => byId("stream").removeAttribute("srcdoc"));
})();
