// Mock MCP servers for tests. Copy this file; it needs Node only.
//
// The program is the one that the environment variable SPARRING names, or `sparring` on the PATH.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/** A mock that is served by a process of its own, until `stop`. */
export class Server {
  /** A server at `url`. `script` is an object or YAML text. */
  static http(script, ...more) {
    return Server.#start(["http"], script, more);
  }

  /** A server that `command` starts, any number of times. */
  static stdio(script, ...more) {
    return Server.#start(["stdio", "--broker"], script, more);
  }

  static async #start(transport, script, more) {
    const server = new Server();
    server.folder = await mkdtemp(join(tmpdir(), "sparring-"));
    const words = ["serve", ...transport, ...more, "--stop-with-stdin"];
    if (script !== undefined) {
      const file = join(server.folder, "script.yaml");
      // JSON is YAML.
      await writeFile(file, typeof script === "string" ? script : JSON.stringify(script));
      words.push("--script", file);
    }
    // The mock ends when its stdin does: also if this process is killed.
    server.process = spawn(process.env.SPARRING ?? "sparring", words, { stdio: ["pipe", "pipe", "inherit"] });
    server.ended = once(server.process, "exit");
    const lines = createInterface(server.process.stdout);
    const [line] = await Promise.race([
      once(lines, "line"),
      server.ended.then(([code]) => Promise.reject(new Error(`the mock did not start: exit code ${code}`))),
    ]);
    server.ready = JSON.parse(line);
    server.url = server.ready.url;
    server.command = server.ready.command;
    return server;
  }

  async #ask(method, path, body) {
    const { url, token } = this.ready.control;
    const answer = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${token}` },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const json = await answer.json();
    if (!answer.ok) throw new Error(JSON.stringify(json.error));
    return json;
  }

  /** Makes the server do something now, in the words of scripts; `where` is `exchange`, `session`… */
  act(actions, where = {}) {
    return this.#ask("POST", `/actions?${new URLSearchParams(where)}`, actions);
  }

  /** Waits for events, such as `{ request: "tools/call" }`. */
  async wait(pattern, { count = 1, after = 0, timeout_ms = 10_000 } = {}) {
    const answer = await this.#ask("POST", "/wait", { pattern, count, after, timeout_ms });
    if (!answer.matched) throw new Error(`${answer.events.length} of ${count}: ${JSON.stringify(pattern)}`);
    return answer.events;
  }

  /** How many events like this there are. */
  async count(pattern) {
    return (await this.#ask("POST", "/wait", { pattern, count: 1_000_000, timeout_ms: 0 })).events.length;
  }

  /** All that happened so far. */
  async transcript() {
    return (await this.#ask("GET", "/transcript")).events;
  }

  async stop() {
    this.process.stdin.end();
    const [code] = await this.ended;
    await rm(this.folder, { recursive: true });
    if (code !== 0) throw new Error(`the mock ended with exit code ${code}`);
  }
}
