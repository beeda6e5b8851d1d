// Google's own client for Node on the Interactions API; the steps of a turn are kept by this program.
import { createRequire } from "node:module";
import { GoogleGenAI } from "@google/genai";
import { answerAll, RESULT } from "./answering.mjs";

const VERSION = createRequire(import.meta.url)("./node_modules/@google/genai/package.json").version;

async function streamed(client, command, input, heard, say) {
  const { options, tools } = command;
  const stream = await client.interactions.create({
    model: command.model,
    input,
    store: false,
    stream: true,
    ...(tools.length ? { tools: tools.map(({ function: one }) => ({ type: "function", ...one })) } : {}),
    generation_config: {
      thinking_summaries: "auto",
      ...(options.max_tokens ? { max_output_tokens: options.max_tokens } : {}),
      ...(options.tool_choice === "required" ? { tool_choice: "any" } : {}),
    },
  });
  const steps = [];
  for await (const event of stream) {
    const step = steps[event.index];
    switch (event.event_type) {
      case "step.start":
        steps[event.index] = { ...event.step, text: "" };
        break;
      case "step.delta":
        if (event.delta.type === "text") {
          step.text += event.delta.text;
          say(event.delta.text);
        } else if (event.delta.type === "thought_summary") heard.reasoning += event.delta.content.text;
        else if (event.delta.type === "arguments_delta") step.text += event.delta.arguments;
        break;
      case "error":
        throw Object.assign(new Error(event.error.message), { status: null });
      case "interaction.completed":
        heard.finish = event.interaction.status;
    }
  }
  if (heard.finish === null) throw new Error("the stream ended before the interaction");
  return steps;
}

await answerAll({ "@google/genai": VERSION, node: process.versions.node }, async (command, heard, say) => {
  const httpOptions = { baseUrl: command.base_url.replace(/\/v1$/, ""), retryOptions: { attempts: 1 } };
  const client = new GoogleGenAI({ apiKey: command.key, httpOptions });
  const question = { type: "user_input", content: [{ type: "text", text: command.prompt }] };
  const steps = await streamed(client, command, [question], heard, say);
  const calls = steps.filter((step) => step.type === "function_call");
  heard.calls = calls.map((step) => [step.id, step.name, step.text]);
  if (command.loop) {
    const turn = steps.flatMap((step) => {
      if (step.type === "model_output") return [{ type: step.type, content: [{ type: "text", text: step.text }] }];
      const { id, name, type } = step;
      return type === "function_call" ? [{ type, id, name, arguments: JSON.parse(step.text || "{}") }] : [];
    });
    const results = calls.map(({ id, name }) => ({ type: "function_result", call_id: id, name, result: RESULT }));
    heard.finish = null;
    await streamed(client, command, [question, ...turn, ...results], heard, say);
  }
});
