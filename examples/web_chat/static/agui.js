// A client of AG-UI. It keeps the messages of a thread, and sends all of them with each run.
import { post } from "./events.js";

export class Chat {
  constructor() {
    this.threadId = crypto.randomUUID();
    this.messages = [];
    this.interrupts = [];
  }

  async *ask(text, signal) {
    this.messages.push({ id: crypto.randomUUID(), role: "user", content: text });
    yield* this.#run({}, signal);
  }

  async *decide(decisions, signal) {
    const resume = this.interrupts.map(({ id, toolCallId }) => ({
      interruptId: id,
      status: "resolved",
      payload: { approved: decisions[toolCallId] },
    }));
    yield* this.#run({ resume }, signal);
  }

  shown() {
    const results = new Map(this.messages.filter(({ role }) => role === "tool").map((m) => [m.toolCallId, m.content]));
    const asked = new Set(this.interrupts.map(({ toolCallId }) => toolCallId));
    const shown = [];
    for (const message of this.messages) {
      if (message.role === "tool") continue;
      const role = message.role === "user" ? "user" : "assistant";
      if (shown.at(-1)?.role !== role) shown.push({ role, parts: [] });
      const { parts } = shown.at(-1);
      const kind = message.role === "reasoning" ? "reasoning" : "text";
      if (message.content) parts.push({ kind, text: message.content });
      for (const { id, whole, function: called } of message.toolCalls ?? []) {
        const result = results.get(id);
        const state = result !== undefined ? "done" : asked.has(id) ? "asks" : whole ? "called" : "writing";
        const failed = result?.startsWith("Error: ");
        const denied = failed && result.includes("denied");
        const text = called.arguments;
        parts.push({ kind: "call", id, name: called.name, text, state: denied ? "denied" : failed ? "failed" : state, result });
      }
    }
    return shown;
  }

  async *#run(more, signal) {
    const { threadId } = this;
    const messages = this.messages.map(({ toolCalls, ...rest }) => ({
      ...rest,
      ...(toolCalls && { toolCalls: toolCalls.map(({ whole, ...call }) => call) }),
    }));
    const body = { threadId, runId: crypto.randomUUID(), protocolVersion: "1.0", messages, tools: [], context: [], ...more };
    this.interrupts = [];
    for await (const event of post("/agent", body, signal)) {
      if (event.type === "RUN_ERROR") throw new Error(event.message);
      this.#apply(event);
      yield;
    }
  }

  #message(id, role) {
    let found = this.messages.find((message) => message.id === id);
    if (!found) this.messages.push((found = { id, role, content: "" }));
    return found;
  }

  #call(id) {
    return this.messages.flatMap(({ toolCalls }) => toolCalls ?? []).findLast((call) => call.id === id);
  }

  #apply(event) {
    const { messageId, toolCallId, delta } = event;
    switch (event.type) {
      case "TEXT_MESSAGE_CONTENT":
        this.#message(messageId, "assistant").content += delta;
        break;
      case "REASONING_MESSAGE_CONTENT":
        this.#message(messageId, "reasoning").content += delta;
        break;
      case "TOOL_CALL_START": {
        const message = this.#message(event.parentMessageId, "assistant");
        const called = { name: event.toolCallName, arguments: "" };
        (message.toolCalls ??= []).push({ id: toolCallId, type: "function", function: called });
        break;
      }
      case "TOOL_CALL_ARGS":
        this.#call(toolCallId).function.arguments += delta;
        break;
      case "TOOL_CALL_END":
        this.#call(toolCallId).whole = true;
        break;
      case "TOOL_CALL_RESULT":
        this.messages.push({ id: messageId, role: "tool", toolCallId, content: event.content });
        break;
      case "REASONING_ENCRYPTED_VALUE": {
        const entity = event.subtype === "message" ? this.#message(event.entityId) : this.#call(event.entityId);
        entity.encryptedValue = event.encryptedValue;
        break;
      }
      case "RUN_FINISHED":
        this.interrupts = event.outcome?.interrupts ?? [];
    }
  }
}
