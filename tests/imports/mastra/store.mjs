// Makes a Mastra store through the packages' public functions, and prints what they say is in it.
// node store.mjs pg|libsql URL
import { readFileSync } from 'node:fs';
import { Agent } from '@mastra/core/agent';
import { MastraLanguageModelV2Mock } from '@mastra/core/test-utils/llm-mock';
import { createTool } from '@mastra/core/tools';
import { LibSQLStore } from '@mastra/libsql';
import { Memory } from '@mastra/memory';
import { PostgresStore } from '@mastra/pg';
import { z } from 'zod';

const [, , kind, url] = process.argv;
const storage =
  kind === 'pg' ? new PostgresStore({ id: 'harbour', connectionString: url }) : new LibSQLStore({ id: 'harbour', url });
await storage.init();
const store = await storage.getStore('memory');

await runAgent();
await saveByHand();
console.log(JSON.stringify(await everything()));
await storage.close?.();
process.exit(0);

// Two turns of an agent whose model thinks, calls a tool, and answers; the first one with a file.
async function runAgent() {
  const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
  const thinks = [
    { type: 'reasoning-start', id: 'r' },
    { type: 'reasoning-delta', id: 'r', delta: 'The gauge knows.' },
    { type: 'reasoning-end', id: 'r', providerMetadata: { anthropic: { signature: 'c2lnbmVk' } } },
    { type: 'tool-call', toolCallId: 'call_1', toolName: 'depth', input: '{"at":"quay"}' },
    { type: 'finish', finishReason: 'tool-calls', usage },
  ];
  const says = [
    { type: 'text-start', id: 't' },
    { type: 'text-delta', id: 't', delta: '4.2 metres — Ebbe. 🌊' },
    { type: 'text-end', id: 't' },
    { type: 'finish', finishReason: 'stop', usage },
  ];
  let count = 0;
  const doStream = async () => ({
    stream: new ReadableStream({
      start(controller) {
        const answer = count++ % 2 ? says : thinks;
        for (const chunk of [{ type: 'stream-start', warnings: [] }, ...answer]) controller.enqueue(chunk);
        controller.close();
      },
    }),
  });
  const agent = new Agent({
    id: 'pilot',
    name: 'pilot',
    instructions: 'Be brief.',
    model: new MastraLanguageModelV2Mock({ provider: 'anthropic', modelId: 'claude-opus-4-6', doStream }),
    memory: new Memory({ storage, options: { lastMessages: 20, semanticRecall: false } }),
    tools: {
      depth: createTool({
        id: 'depth',
        description: 'Depth of the water',
        inputSchema: z.object({ at: z.string() }),
        execute: async () => ({ metres: 4.2 }),
      }),
    },
  });
  const chart = { type: 'file', mediaType: 'text/plain', data: 'Y2hhcnQ=' };
  const asked = [[{ type: 'text', text: 'How deep is the harbour?' }, chart], [{ type: 'text', text: 'And now?' }]];
  for (const content of asked) {
    const answer = await agent.stream([{ role: 'user', content }], { memory: { thread: 'agent', resource: 'ada' } });
    await answer.consumeStream();
  }
}

// Threads whose messages hold what a run rarely leaves behind; read from the file beside this one.
async function saveByHand() {
  const { threads, messages } = JSON.parse(readFileSync(new URL('threads.json', import.meta.url)));
  for (const thread of threads) {
    const times = { createdAt: new Date(thread.createdAt), updatedAt: new Date(thread.createdAt) };
    await store.saveThread({ thread: { ...thread, ...times } });
  }
  const dated = messages.map(message => ({ ...message, createdAt: new Date(message.createdAt) }));
  const many = Array.from({ length: 150 }, (_, number) => ({
    id: `many-${String(number).padStart(3, '0')}`,
    role: number % 2 ? 'assistant' : 'user',
    threadId: 'many',
    resourceId: 'bob',
    // Three share a moment.
    createdAt: new Date(Date.UTC(2026, 0, 2) + Math.floor(number / 3) * 1000),
    content: { format: 2, parts: [{ type: 'text', text: `wave ${number}` }] },
  }));
  await store.saveMessages({ messages: [...dated, ...many] });
}

async function everything() {
  const { threads } = await store.listThreads({ perPage: false });
  const out = [];
  for (const thread of threads) {
    const { messages } = await store.listMessages({ threadId: thread.id, perPage: false });
    out.push({ ...thread, messages });
  }
  return { threads: out };
}
