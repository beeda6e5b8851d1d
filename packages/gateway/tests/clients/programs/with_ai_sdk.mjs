// Vercel's AI SDK; which of its providers speaks is the argument: `openai`, `compatible` for Chat Completions alone,
// `anthropic` or `google`.
import { createRequire } from "node:module";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { jsonSchema, stepCountIs, streamText, tool } from "ai";
import { answerAll, RESULT } from "./answering.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const which = process.argv[2];
const names = ["ai", `@ai-sdk/${which === "compatible" ? "openai-compatible" : which}`];
const require = createRequire(import.meta.url);
const versions = Object.fromEntries(names.map((name) => [name, require(`${name}/package.json`).version]));

function model(command) {
  const settings = { baseURL: command.base_url, apiKey: command.key };
  if (which === "compatible") {
    return createOpenAICompatible({ name: "gateway", includeUsage: true, ...settings })(command.model);
  }
  if (which === "google") {
    return createGoogleGenerativeAI({ ...settings, baseURL: `${command.base_url}beta` })(command.model);
  }
  if (which === "anthropic") return createAnthropic(settings)(command.model);
  const provider = createOpenAI(settings);
  return command.wire === "chat" ? provider.chat(command.model) : provider.responses(command.model);
}

await answerAll(versions, async (command, heard, say) => {
  const tools = Object.fromEntries(
    command.tools.map(({ function: { name, description, parameters } }) => [
      name,
      tool({
        description,
        inputSchema: jsonSchema(parameters),
        ...(command.loop ? { execute: async () => RESULT } : {}),
      }),
    ]),
  );
  const result = streamText({
    model: model(command),
    prompt: command.prompt,
    maxRetries: 0,
    onError: () => {},
    providerOptions: {
      // Else it sends back no items but their ids, and the gateway, which keeps nothing, refuses them.
      google: { thinkingConfig: { includeThoughts: true } },
      openai: command.loop ? { store: false } : {},
      anthropic: command.options.max_tokens ? {} : { thinking: { type: "enabled", budgetTokens: 2000 } },
    },
    stopWhen: stepCountIs(command.loop ? 2 : 1),
    ...(command.tools.length ? { tools } : {}),
    ...(command.options.tool_choice ? { toolChoice: command.options.tool_choice } : {}),
    ...(command.options.max_tokens ? { maxOutputTokens: command.options.max_tokens } : {}),
  });
  for await (const part of result.fullStream) {
    if (part.type === "text-delta") say(part.text);
    else if (part.type === "reasoning-delta") heard.reasoning += part.text;
    else if (part.type === "tool-call") heard.calls.push([part.toolCallId, part.toolName, JSON.stringify(part.input)]);
    else if (part.type === "finish") heard.finish = part.finishReason;
    else if (part.type === "error") throw part.error;
  }
});
