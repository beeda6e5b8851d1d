// The list of answers. Everything that came from a model is set as text, never as HTML.
"use strict";
(() => {
  const find = (id) => document.getElementById(id);
  const lines = new Map(); // number -> { data, element }
  const root = location.pathname.replace(/\/$/, "");
  let clock = -1;

  async function poll() {
    let busy = false;
    try {
      const response = await fetch(`${root}/answers?since=${clock}`, { headers: { accept: "application/json" } });
      if (!response.ok) throw new Error(`HTTP ${response.status}`);
      const news = await response.json();
      if (news.clock < clock) lines.clear(); // the gateway was started again
      clock = news.clock;
      take(news);
      busy = [...lines.values()].some(({ data }) => data.state === "waiting" || data.state === "streaming");
      find("status").textContent = busy ? "live" : "idle";
      find("status").className = busy ? "live" : "";
    } catch (error) {
      find("status").textContent = `no connection (${error.message})`;
      find("status").className = "lost";
      clock = -1;
    }
    setTimeout(next, busy ? 300 : 1000);
  }

  function next() {
    if (document.hidden || find("paused").checked) setTimeout(next, 300);
    else poll();
  }

  function take({ numbers, changed }) {
    const kept = new Set(numbers);
    for (const [number, { element }] of lines) {
      if (!kept.has(number)) {
        element.remove();
        lines.delete(number);
      }
    }
    for (const data of changed) {
      const line = lines.get(data.number) ?? added(data.number);
      line.data = data;
      draw(line);
    }
    choices("model", new Set([...lines.values()].map(({ data }) => data.model)), 1);
    choices("warning", new Set([...lines.values()].flatMap(({ data }) => data.warnings)), 2);
    filter();
  }

  function added(number) {
    const element = find("line").content.firstElementChild.cloneNode(true);
    element.dataset.number = number;
    element.querySelector(".open").href = `${root}/answers/${number}`;
    element.querySelector(".save").addEventListener("click", () => save(number));
    const line = { element };
    lines.set(number, line);
    const before = [...find("list").children].find((other) => Number(other.dataset.number) < number);
    find("list").insertBefore(element, before ?? null);
    return line;
  }

  function draw({ data, element }) {
    const put = (name, text) => (element.querySelector(`.${name}`).textContent = text);
    element.className = data.state + (data.warnings.length ? " warned" : "");
    put("state", data.state === "finished" ? data.finish : data.state);
    put("model", data.model);
    put("provider", `${data.provider} · ${data.adapter}`);
    const [input, output] = data.tokens ?? [];
    const numbers = [new Date(data.began * 1000).toLocaleTimeString(), `${data.seconds.toFixed(2)} s`];
    numbers.push(`${data.bytes.toLocaleString("en")} bytes`);
    if (data.tokens) numbers.push(`${input ?? "?"} → ${output ?? "?"} tokens`);
    put("numbers", numbers.join(" · "));
    put("text", data.text);
    put("calls", data.calls.map((name) => `→ ${name}()`).join("  "));
    const notes = data.warnings.map((code) => `⚠ ${code}`);
    if (data.retries) notes.push(`${data.retries} failed before`);
    if (data.error) notes.push(`${data.error.kind}: ${data.error.message}`);
    put("notes", notes.join(" · "));
    element.querySelector(".save").disabled = !["finished", "failed", "left"].includes(data.state) || !data.bytes;
  }

  function choices(id, values, fixed) {
    const box = find(id);
    const wanted = [...values].sort();
    if (wanted.join("\n") === [...box.options].slice(fixed).map(({ value }) => value).join("\n")) return;
    const chosen = box.value;
    box.length = fixed;
    for (const value of wanted) box.add(new Option(value, value));
    box.value = [...box.options].some(({ value }) => value === chosen) ? chosen : "";
  }

  function filter() {
    const [model, warning, errors] = [find("model").value, find("warning").value, find("errors").checked];
    let shown = 0;
    for (const { data, element } of lines.values()) {
      const warned = !warning || (warning === "*" ? data.warnings.length > 0 : data.warnings.includes(warning));
      element.hidden = !((!model || data.model === model) && warned && (!errors || data.error));
      shown += !element.hidden;
    }
    find("empty").hidden = shown > 0;
    find("empty").textContent = lines.size
      ? "No answer passes the filters."
      : "No answers yet. They appear here when a client sends a request to the gateway.";
  }

  async function save(number) {
    const button = lines.get(number).element.querySelector(".save");
    const name = prompt("Name of the fixture", `answer-${number}`);
    if (!name) return;
    const address = `${root}/answers/${number}/fixture?name=${encodeURIComponent(name)}`;
    const response = await fetch(address, { method: "POST", headers: { "x-streamfold": "1" } });
    const { saved, error } = await response.json();
    button.textContent = saved ? `Saved: ${saved}` : `Not saved: ${error}`;
  }

  for (const id of ["model", "warning", "errors"]) find(id).addEventListener("change", filter);
  find("filters").addEventListener("submit", (event) => event.preventDefault());
  poll();
})();
