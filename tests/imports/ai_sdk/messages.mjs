// What an application keeps of a conversation with the AI SDK: its UI messages, after a turn with two tool calls.
import { convertToModelMessages, simulateReadableStream, stepCountIs, streamText, tool } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";

const usage = {
  inputTokens: { total: 3, noCache: 3, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 4, text: 4, reasoning: 0 },
};
const signed = { anthropic: { signature: "c2lnbmVk" } };
const call = (toolCallId, toolName, input) => ({ type: "tool-call", toolCallId, toolName, input: JSON.stringify(input) });
const end = (unified) => ({ type: "finish", finishReason: { unified, raw: unified }, usage });
const answers = [
  [
    { type: "stream-start", warnings: [] },
    { type: "reasoning-start", id: "r" },
    { type: "reasoning-delta", id: "r", delta: "Two things to ask." },
    { type: "reasoning-end", id: "r", providerMetadata: signed },
    { type: "text-start", id: "t" },
    { type: "text-delta", id: "t", delta: "I'll " },
    { type: "text-delta", id: "t", delta: "look." },
    { type: "text-end", id: "t" },
    call("toolu_1", "depth", { at: "quay" }),
    call("toolu_2", "tide", {}),
    end("tool-calls"),
  ],
  [
    { type: "stream-start", warnings: [] },
    { type: "text-start", id: "t" },
    { type: "text-delta", id: "t", delta: "4.2 metres." },
    { type: "text-end", id: "t" },
    end("stop"),
  ],
];
let step = 0;
const model = new MockLanguageModelV3({
  doStream: async () => ({ stream: simulateReadableStream({ chunks: answers[step++] }) }),
});
const tools = {
  depth: tool({ inputSchema: z.object({ at: z.string() }), execute: async () => ({ metres: 4.2 }) }),
  tide: tool({
    inputSchema: z.object({}),
    execute: async () => {
      throw new Error("no gauge");
    },
  }),
};
const asked = [{ id: "u1", role: "user", parts: [{ type: "text", text: "How deep? Grüße 🌊" }] }];
const result = streamText({ model, tools, messages: await convertToModelMessages(asked), stopWhen: stepCountIs(3) });
let kept;
const stream = result.toUIMessageStream({
  originalMessages: asked,
  sendReasoning: true,
  onError: (error) => error.message,
  onFinish: ({ messages }) => {
    kept = messages;
  },
});
for await (const _ of stream);
process.stdout.write(JSON.stringify(kept));
