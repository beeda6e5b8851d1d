// Asks `examples/web_chat` to delete a note, and answers its request for an approval: with the AI SDK's own chat, or with
// AG-UI's agent. Prints what the page would show in the end.
const [which, base, answer] = process.argv.slice(2);
const approved = answer === "allow";
const question = "Delete the shopping list";

async function withAISDK() {
  const { AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } = await import(which);
  const state = {
    status: "ready",
    error: undefined,
    messages: [],
    pushMessage: (message) => void state.messages.push(message),
    popMessage: () => void state.messages.pop(),
    replaceMessage: (index, message) => void (state.messages[index] = structuredClone(message)),
    snapshot: (thing) => structuredClone(thing),
  };
  class Chat extends AbstractChat {}
  const chat = new Chat({
    state,
    transport: new DefaultChatTransport({ api: `${base}/api/chat` }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
    onError: (error) => console.error(error),
  });
  await chat.sendMessage({ text: question });
  const waiting = state.messages.at(-1).parts.find((part) => part.state === "approval-requested");
  await chat.addToolApprovalResponse({ id: waiting.approval.id, approved, reason: "not today" });
  const isDone = () => state.status === "ready" && state.messages.at(-1).parts.at(-1).type === "text";
  for (let tries = 0; tries < 500 && !isDone(); tries += 1) await new Promise((done) => setTimeout(done, 20));
  const { parts } = state.messages.at(-1);
  const called = parts.find((part) => part.type === "tool-delete_note");
  return {
    messages: state.messages.length,
    result: called.output ?? called.state,
    text: parts.findLast((part) => part.type === "text").text,
    error: state.error?.message ?? null,
  };
}

async function withAGUI() {
  const { HttpAgent, buildResumeArray } = await import("@ag-ui/client");
  const agent = new HttpAgent({ url: `${base}/agent`, initialMessages: [{ id: "u1", role: "user", content: question }] });
  let error = null;
  const subscriber = { onRunErrorEvent: ({ event }) => void (error = event.message) };
  await agent.runAgent({}, subscriber);
  const [interrupt] = agent.pendingInterrupts;
  const payload = { approved, reason: "not today" };
  const resume = buildResumeArray(agent.pendingInterrupts, { [interrupt.id]: { status: "resolved", payload } });
  await agent.runAgent({ resume }, subscriber);
  return {
    messages: agent.messages.length,
    result: agent.messages.find(({ role }) => role === "tool").content,
    text: agent.messages.at(-1).content,
    error,
  };
}

console.log(JSON.stringify(await (which === "agui" ? withAGUI() : withAISDK())));
