// Reads answers as user interfaces do: the AI SDK's transport and message reader, or AG-UI's HTTP agent. One line of JSON
// in, with the body of a response; one line out, with what a page would show of it.
import { createInterface } from "node:readline";

const which = process.argv[2];

function response(body, headers) {
  return async () => new Response(Buffer.from(body, "base64"), { status: 200, headers });
}

async function reader() {
  if (which === "agui") {
    const { HttpAgent } = await import("@ag-ui/client");
    return async ({ body, headers }) => {
      const agent = new HttpAgent({ url: "http://test/agent", threadId: "thread", fetch: response(body, headers) });
      const heard = { error: null, interrupts: [] };
      try {
        await agent.runAgent({ runId: "run" }, {
          onRunErrorEvent: ({ event }) => void (heard.error = event.message),
        });
      } catch (error) {
        heard.error ??= `${error?.constructor?.name}: ${error?.message}`;
      }
      return { ...heard, interrupts: agent.pendingInterrupts, messages: agent.messages };
    };
  }
  const { DefaultChatTransport, readUIMessageStream } = await import(which);
  return async ({ body, headers }) => {
    const transport = new DefaultChatTransport({ api: "http://test/api/chat", fetch: response(body, headers) });
    const heard = { error: null, messages: [] };
    const request = { chatId: "chat", messages: [], trigger: "submit-message", messageId: undefined };
    const stream = await transport.sendMessages({ ...request, abortSignal: undefined });
    let last;
    for await (const message of readUIMessageStream({
      stream,
      onError: (error) => void (heard.error ??= `${error?.message ?? error}`),
    })) last = message;
    return { ...heard, messages: last ? [last] : [] };
  };
}

const read = await reader();
for await (const line of createInterface({ input: process.stdin })) {
  let heard;
  try {
    heard = await read(JSON.parse(line));
  } catch (error) {
    heard = { error: `program: ${error?.stack ?? error}`, messages: [] };
  }
  console.log(JSON.stringify(heard));
}
