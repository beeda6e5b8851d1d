// Anthropic's own client for Node, and its accumulator.
import Anthropic from "@anthropic-ai/sdk";
import { VERSION } from "@anthropic-ai/sdk/version";
import { answerAll, inAnthropicsWords, RESULT } from "./answering.mjs";

async function streamed(client, command, messages, heard, say) {
  const stream = client.messages.stream({ model: command.model, messages, ...inAnthropicsWords(command) });
  stream.on("text", say);
  stream.on("thinking", (piece) => {
    heard.reasoning += piece;
  });
  const message = await stream.finalMessage();
  heard.finish = message.stop_reason;
  return message;
}

await answerAll({ "@anthropic-ai/sdk": VERSION, node: process.versions.node }, async (command, heard, say) => {
  const client = new Anthropic({ baseURL: command.base_url.replace(/\/v1$/, ""), apiKey: command.key, maxRetries: 0 });
  const question = { role: "user", content: command.prompt };
  const { content } = await streamed(client, command, [question], heard, say);
  const calls = content.filter((block) => block.type === "tool_use");
  heard.calls = calls.map((block) => [block.id, block.name, JSON.stringify(block.input)]);
  if (command.loop) {
    const results = calls.map((block) => ({ type: "tool_result", tool_use_id: block.id, content: RESULT }));
    const turns = [question, { role: "assistant", content }, { role: "user", content: results }];
    await streamed(client, command, turns, heard, say);
  }
});
