// What a test of your own looks like. The client is the official TypeScript SDK's; yours goes in its place.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { afterEach, expect, test } from "vitest";
import { Server } from "./sparring.mjs";

const open = [];

afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function served(starting) {
  const server = await starting;
  open.push(() => server.stop());
  return server;
}

async function connect(transport) {
  const client = new Client({ name: "agent", version: "1.0.0" });
  await client.connect(transport);
  open.push(() => client.close());
  return client;
}

const search = (client, text) => client.callTool({ name: "search", arguments: { text } });

// The second search fails; everything else is what a perfect server does.
const FLAKY = `
tools:
  - { name: search, like: echo }
rules:
  - on: tools/call
    nth: 2
    do:
      - error: { code: -32603, message: out of order }
`;

test("a search that fails is told, and the next one works", async () => {
  const server = await served(Server.http(FLAKY));
  const client = await connect(new StreamableHTTPClientTransport(new URL(server.url)));
  expect((await search(client, "one")).content[0].text).toBe("one");
  await expect(search(client, "two")).rejects.toThrow("out of order");
  expect((await search(client, "three")).content[0].text).toBe("three");
  expect(await server.count({ request: "tools/call" })).toBe(3);
});

test("a tool that comes later is announced and found", async () => {
  const server = await served(Server.http({ tools: ["echo"], http: { sessions: true, get_stream: true } }));
  const client = await connect(new StreamableHTTPClientTransport(new URL(server.url)));
  const announced = new Promise((done) => client.setNotificationHandler(ToolListChangedNotificationSchema, done));
  await server.act([{ add_tool: { name: "later" } }, { announce: "tools" }]);
  await announced;
  expect((await client.listTools()).tools.map((tool) => tool.name)).toEqual(["echo", "later"]);
});

test("a call that hangs ends when the server gives up", async () => {
  const server = await served(Server.http({ tools: ["echo"], rules: [{ on: "tools/call", do: ["stall"] }] }));
  const client = await connect(new StreamableHTTPClientTransport(new URL(server.url)));
  const call = client.callTool({ name: "echo", arguments: { text: "hi" } });
  const failed = expect(call).rejects.toMatchObject({ code: 503 });
  const [event] = await server.wait({ request: "tools/call" });
  await server.act([{ status: 503 }], { exchange: event.what.exchange });
  await failed;
});

test("a server that dies is started again", async () => {
  const server = await served(Server.stdio({ tools: ["echo"] }));
  const [command, ...args] = server.command;
  for (const text of ["one", "two"]) {
    const client = new Client({ name: "agent", version: "1.0.0" });
    await client.connect(new StdioClientTransport({ command, args }));
    expect((await client.callTool({ name: "echo", arguments: { text } })).content[0].text).toBe(text);
    await client.close();
  }
  const started = await server.wait({ process: "started" }, { count: 2 });
  expect(started.map((event) => event.incarnation)).toEqual([1, 2]);
});
