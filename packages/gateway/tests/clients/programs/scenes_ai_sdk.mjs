// The scenes by Vercel's AI SDK, of the major version that is installed beside this program.
import { createRequire } from "node:module";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogleGenerativeAI } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { generateObject, generateText, stepCountIs, streamObject, streamText, tool } from "ai";
import { z } from "zod";
import { answerAll } from "./answering.mjs";

globalThis.AI_SDK_LOG_WARNINGS = false;
const require = createRequire(import.meta.url);
const names = ["ai", "@ai-sdk/openai", "@ai-sdk/anthropic", "@ai-sdk/google"];
const City = z.object({ name: z.string(), population: z.number().int() });

function model({ wire, base_url, key, model }) {
  const settings = { apiKey: key, baseURL: `${base_url}/${wire === "gemini" ? "v1beta" : "v1"}` };
  if (wire === "gemini") return createGoogleGenerativeAI(settings)(model);
  if (wire === "messages") return createAnthropic(settings)(model);
  return wire === "chat" ? createOpenAI(settings).chat(model) : createOpenAI(settings).responses(model);
}

// Version 6 has moved the details of the counts.
function counts(usage) {
  const { inputTokens, outputTokens, totalTokens } = usage;
  return {
    input: inputTokens,
    output: outputTokens,
    total: totalTokens,
    cached: usage.inputTokenDetails?.cacheReadTokens ?? usage.cachedInputTokens,
    reasoning: usage.outputTokenDetails?.reasoningTokens ?? usage.reasoningTokens,
  };
}

async function object(request, stream, heard, say) {
  const result = stream
    ? streamObject({ ...request, schema: City, onError: ({ error }) => { heard.failure = error; } })
    : await generateObject({ ...request, schema: City });
  if (stream) for await (const _ of result.partialObjectStream);
  if (heard.failure) throw heard.failure;
  say(JSON.stringify(await result.object));
  heard.usage = counts(await result.usage);
  heard.finish = await result.finishReason;
}

await answerAll(
  Object.fromEntries(names.map((name) => [name, require(`${name}/package.json`).version])),
  async (command, heard, say) => {
    const ran = (name, answer) => async (input) => {
      heard.calls.push([name, input]);
      return answer(input);
    };
    const tools = {
      get_weather: tool({
        description: "The weather.",
        inputSchema: z.object({ city: z.string() }),
        execute: ran("get_weather", ({ city }) => `${city}: 18 degrees`),
      }),
      get_time: tool({ description: "The time.", inputSchema: z.object({}), execute: ran("get_time", () => "12:00") }),
    };
    const request = {
      model: model(command),
      prompt: command.prompt,
      maxRetries: 0,
      providerOptions: {
        google: { thinkingConfig: { includeThoughts: true } },
        openai: { reasoningSummary: "auto" },
        anthropic: command.task === "object" ? {} : { thinking: { type: "enabled", budgetTokens: 2000 } },
      },
    };
    if (command.task === "object") return object(request, command.stream, heard, say);
    const steps = { ...request, stopWhen: stepCountIs(3), ...(command.task === "tools" ? { tools } : {}) };
    if (command.stream) {
      const result = streamText({ ...steps, onError: () => {} });
      for await (const part of result.fullStream) {
        if (part.type === "text-delta") say(part.text);
        else if (part.type === "reasoning-delta") heard.reasoning += part.text;
        else if (part.type === "error") throw part.error;
        else if (part.type === "finish") [heard.finish, heard.usage] = [part.finishReason, counts(part.totalUsage)];
      }
    } else {
      const result = await generateText(steps);
      for (const step of result.steps) {
        say(step.text);
        heard.reasoning += step.reasoningText ?? "";
      }
      [heard.finish, heard.usage] = [result.finishReason, counts(result.totalUsage)];
    }
  },
);
