// OpenAI's own client for Node, and its accumulators.
import OpenAI from "openai";
import { VERSION } from "openai/version";
import { answerAll } from "./answering.mjs";

async function chat(client, command, heard, say) {
  const stream = client.chat.completions.stream({
    model: command.model,
    messages: [{ role: "user", content: command.prompt }],
    ...(command.tools.length ? { tools: command.tools } : {}),
    ...command.options,
  });
  stream.on("content", say);
  stream.on("chunk", (chunk) => {
    heard.reasoning += chunk.choices[0]?.delta?.reasoning_content ?? "";
  });
  const [choice] = (await stream.finalChatCompletion()).choices;
  heard.calls = (choice.message.tool_calls ?? []).map((call) => [call.id, call.function.name, call.function.arguments]);
  heard.finish = choice.finish_reason;
}

async function responses(client, command, heard, say) {
  const stream = client.responses.stream({
    model: command.model,
    input: command.prompt,
    ...(command.tools.length ? { tools: command.tools.map((tool) => ({ type: "function", ...tool.function })) } : {}),
    ...command.options,
  });
  stream.on("response.output_text.delta", (event) => say(event.delta));
  stream.on("response.reasoning_summary_text.delta", (event) => {
    heard.reasoning += event.delta;
  });
  const response = await stream.finalResponse();
  if (response.status === "failed") throw new Error(response.error.message);
  const calls = response.output.filter((item) => item.type === "function_call");
  heard.calls = calls.map((item) => [item.call_id, item.name, item.arguments]);
  heard.finish = response.status;
}

await answerAll({ openai: VERSION, node: process.versions.node }, async (command, heard, say) => {
  const client = new OpenAI({ baseURL: command.base_url, apiKey: command.key, maxRetries: 0 });
  await (command.wire === "chat" ? chat : responses)(client, command, heard, say);
});
