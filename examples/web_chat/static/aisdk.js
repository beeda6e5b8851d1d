// A client of the AI SDK's UI message stream. It keeps UI messages, and sends all of them with each request.
import { post } from "./events.js";

export class Chat {
  constructor() {
    this.id = crypto.randomUUID();
    this.messages = [];
  }

  async *ask(text, signal) {
    this.messages.push({ id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] });
    yield* this.#send("submit-message", signal);
  }

  async *decide(decisions, signal) {
    for (const part of this.messages.at(-1).parts) {
      if (part.state !== "approval-requested") continue;
      part.state = "approval-responded";
      part.approval = { ...part.approval, approved: decisions[part.toolCallId] };
    }
    yield* this.#send("submit-message", signal);
  }

  // What the page shows: for each message its parts, in one form for both protocols.
  shown() {
    return this.messages.map(({ role, parts }) => ({ role, parts: parts.map(shownPart).filter(Boolean) }));
  }

  async *#send(trigger, signal) {
    const body = { id: this.id, messages: this.messages, trigger };
    for await (const event of post("/api/chat", body, signal)) {
      if (event.type === "error") throw new Error(event.errorText);
      this.#apply(event);
      yield;
    }
  }

  #apply(event) {
    if (event.type === "start") {
      if (this.messages.at(-1).role !== "assistant") {
        this.messages.push({ id: event.messageId ?? crypto.randomUUID(), role: "assistant", parts: [] });
      }
      return;
    }
    const { parts } = this.messages.at(-1);
    const call = parts.findLast((part) => part.toolCallId === event.toolCallId && event.toolCallId !== undefined);
    const [kind, step] = [event.type.split("-")[0], event.type.split("-").slice(1).join("-")];
    if (event.type === "start-step") parts.push({ type: "step-start" });
    else if ((kind === "text" || kind === "reasoning") && step === "start") parts.push({ type: kind, text: "" });
    else if ((kind === "text" || kind === "reasoning") && step === "delta") parts.at(-1).text += event.delta;
    else if ((kind === "text" || kind === "reasoning") && event.providerMetadata) {
      parts.at(-1).providerMetadata = event.providerMetadata;
    } else if (event.type.startsWith("data-")) parts.push(event);
    else if (event.type === "tool-input-start") parts.push(newCall(event, "input-streaming", { rawInput: "" }));
    else if (event.type === "tool-input-delta") call.rawInput += event.inputTextDelta;
    else if (event.type === "tool-input-available" || event.type === "tool-input-error") {
      const known = call ?? parts[parts.push(newCall(event, "", {})) - 1];
      known.state = event.type === "tool-input-error" ? "output-error" : "input-available";
      known.input = event.input;
      known.errorText = event.errorText;
      known.callProviderMetadata = event.providerMetadata;
    } else if (event.type === "tool-approval-request") {
      Object.assign(call, { state: "approval-requested", approval: { id: event.approvalId } });
    } else if (kind === "tool") Object.assign(call, { state: step, output: event.output, errorText: event.errorText });
  }
}

function newCall({ toolCallId, toolName }, state, rest) {
  return { type: `tool-${toolName}`, toolCallId, state, ...rest };
}

function shownPart(part) {
  if (part.type === "text" || part.type === "reasoning") return { kind: part.type, text: part.text };
  if (!part.type.startsWith("tool-")) return null;
  const states = {
    "input-streaming": "writing",
    "approval-requested": "asks",
    "output-available": "done",
    "output-error": "failed",
    "output-denied": "denied",
  };
  return {
    kind: "call",
    id: part.toolCallId,
    name: part.type.slice("tool-".length),
    text: part.input === undefined ? part.rawInput : JSON.stringify(part.input),
    state: states[part.state] ?? "called",
    result: part.errorText ?? (part.output === undefined ? undefined : JSON.stringify(part.output)),
  };
}
