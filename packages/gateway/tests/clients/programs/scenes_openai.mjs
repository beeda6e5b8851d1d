// The scenes by OpenAI's own client for Node, with its runner of tools and its accumulators.
import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { VERSION } from "openai/version";
import { z } from "zod";
import { answerAll } from "./answering.mjs";

const City = z.object({ name: z.string(), population: z.number().int() });
const WEATHER = { type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false };
const TIME = { type: "object", properties: {}, additionalProperties: false };

function toolbox(heard) {
  const run = (name, answer) => (input) => {
    heard.calls.push([name, input]);
    return answer(input);
  };
  return [
    ["get_weather", "The weather.", WEATHER, run("get_weather", ({ city }) => `${city}: 18 degrees`)],
    ["get_time", "The time.", TIME, run("get_time", () => "12:00")],
  ];
}

async function chat(client, command, heard, say) {
  const request = {
    model: command.model,
    messages: [{ role: "user", content: command.prompt }],
    ...(command.stream ? { stream_options: { include_usage: true } } : {}),
  };
  const { completions } = client.chat;
  let runner;
  if (command.task === "tools") {
    const tools = toolbox(heard).map(([name, description, parameters, run]) => ({
      type: "function",
      function: { name, description, parameters, function: run, parse: JSON.parse },
    }));
    runner = completions.runTools({ ...request, tools, stream: command.stream });
  } else if (command.task === "object") {
    const format = { ...request, response_format: zodResponseFormat(City, "City") };
    if (!command.stream) return chatAnswers([await completions.parse(format)], heard, say);
    runner = completions.stream(format);
  } else if (command.stream) runner = completions.stream(request);
  else return chatAnswers([await completions.create(request)], heard, say);
  // Its accumulator keeps the last piece of a member that it does not know.
  runner.on("chunk", (chunk) => { heard.reasoning += chunk.choices[0]?.delta?.reasoning_content ?? ""; });
  await runner.done();
  chatAnswers(runner.allChatCompletions(), heard, say, !command.stream);
}

function chatAnswers(answers, heard, say, whole = true) {
  heard.usage = [];
  for (const { choices: [choice], usage } of answers) {
    say(choice.message.parsed ? JSON.stringify(choice.message.parsed) : choice.message.content ?? "");
    if (whole) heard.reasoning += choice.message.reasoning_content ?? "";
    heard.finish = choice.finish_reason;
    heard.usage.push(usage);
  }
}

async function responses(client, command, heard, say) {
  const tools = toolbox(heard);
  const request = {
    model: command.model,
    reasoning: { summary: "auto" },
    ...(command.task === "object" ? { text: { format: zodTextFormat(City, "City") } } : {}),
    ...(command.task === "tools"
      ? { tools: tools.map(([name, description, parameters]) => ({ type: "function", name, description, parameters, strict: true })) }
      : {}),
  };
  let input = [{ role: "user", content: command.prompt }];
  heard.usage = [];
  for (let turn = 0; turn < 3; turn += 1) {
    const response = command.stream
      ? await client.responses.stream({ ...request, input }).finalResponse()
      : await client.responses.parse({ ...request, input });
    if (response.status === "failed") throw new Error(response.error.message);
    say(response.output_parsed ? JSON.stringify(response.output_parsed) : response.output_text);
    for (const item of response.output) {
      if (item.type === "reasoning") heard.reasoning += item.summary.map((part) => part.text).join("");
    }
    heard.usage.push(response.usage);
    heard.finish = response.incomplete_details?.reason ?? response.status;
    const calls = response.status === "completed" ? response.output.filter((item) => item.type === "function_call") : [];
    if (!calls.length) return;
    const results = calls.map((call) => ({
      type: "function_call_output",
      call_id: call.call_id,
      output: tools.find(([name]) => name === call.name)[3](JSON.parse(call.arguments)),
    }));
    input = [...input, ...response.output, ...results];
  }
}

await answerAll({ openai: VERSION, node: process.versions.node }, async (command, heard, say) => {
  const client = new OpenAI({ baseURL: `${command.base_url}/v1`, apiKey: command.key, maxRetries: 0 });
  await (command.wire === "chat" ? chat : responses)(client, command, heard, say);
});
