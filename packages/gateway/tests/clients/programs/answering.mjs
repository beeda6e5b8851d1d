// What the programs for Node share: see answering.py.
import { createInterface } from "node:readline";

export const RESULT = "18 degrees";

// Tools and options as the Messages API has them: see answering.py.
export function inAnthropicsWords({ options, tools }) {
  return {
    max_tokens: options.max_tokens ?? 4000,
    ...(options.max_tokens ? {} : { thinking: { type: "enabled", budget_tokens: 2000 } }),
    ...(tools.length
      ? { tools: tools.map(({ function: { name, description, parameters } }) => ({ name, description, input_schema: parameters })) }
      : {}),
    ...(options.tool_choice === "required" ? { tool_choice: { type: "any" } } : {}),
  };
}

export async function answerAll(versions, ask) {
  console.log(JSON.stringify(versions));
  for await (const line of createInterface({ input: process.stdin })) {
    const heard = { text: "", pieces: 0, reasoning: "", calls: [], finish: null, usage: null, error: null };
    const say = (piece) => {
      heard.text += piece;
      heard.pieces += 1;
    };
    try {
      await ask(JSON.parse(line), heard, say);
    } catch (error) {
      // The class that was thrown, and the status where the HTTP client has put it.
      heard.error = {
        type: error?.constructor?.name ?? typeof error,
        status: error?.status ?? error?.statusCode ?? null,
        message: String(error?.message ?? JSON.stringify(error)),
      };
    }
    console.log(JSON.stringify(heard));
  }
}
