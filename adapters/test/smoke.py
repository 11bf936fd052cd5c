"""Drives an adapter against tiny_server.py: `python3 adapters/test/smoke.py node adapters/typescript/adapter.mjs`.

Standard library only. Prints a line for each step, ends with exit code 1 at the first that failed.
"""
import json, pathlib, queue, subprocess, sys, threading, urllib.error, urllib.parse, urllib.request

PATIENCE = 30  # seconds for any one answer
SERVER = str(pathlib.Path(__file__).with_name("tiny_server.py"))
STDIO = {"transport": "stdio", "command": sys.executable, "args": [SERVER, "stdio"], "env": {"X": "1"}}


class Adapter:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
        self.next, self.answers, self.events = 1, {}, queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0", line
            if "id" in message:
                self.answers[message["id"]].put(message)
            elif message["params"]["name"] == "authorization-url":
                self.browse(message["params"]["data"]["url"])
            else:
                assert message["method"] == "event", line
                self.events.put(message["params"])
        for waiting in self.answers.values():
            waiting.put(None)

    def write(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()

    def browse(self, url):
        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *_):
                return None
        try:
            urllib.request.build_opener(Stay).open(url)
        except urllib.error.HTTPError as redirect:
            self.write({"method": "redirect", "params": {"url": redirect.headers["Location"]}})

    def start(self, method, **params):
        id, self.next = self.next, self.next + 1
        self.answers[id] = queue.Queue()
        self.write({"id": id, "method": method, "params": params})
        return lambda: self.answers[id].get(timeout=PATIENCE)

    def ok(self, method, **params):
        answer = self.start(method, **params)()
        assert answer and "result" in answer, f"{method}: {answer}"
        return answer["result"]

    def fails(self, kind, method, **params):
        answer = self.start(method, **params)()
        assert answer and answer.get("error", {}).get("code") == 1, f"{method}: {answer}"
        assert answer["error"]["data"]["kind"] in kind.split("|"), f"{method}: {answer}"
        return answer["error"]

    def text(self, tool, server="s", **arguments):
        result = self.ok("call", step=f"{tool}-{self.next}", tool=tool, name=tool, server=server, arguments=arguments, progress=False)
        return json.loads(result["content"][0]["text"])

    def event(self, name, **data):
        while True:
            event = self.events.get(timeout=PATIENCE)  # others may come before it
            if event["name"] == name and data.items() <= event["data"].items():
                return


def step(text):
    print(f"  {text}", flush=True)


def conversation(adapter, target, http):
    answers = {"sampling": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "!"}},
               "elicitation": {"action": "accept", "content": {"x": "y"}}}
    opened = adapter.ok("open", servers={"s": target}, revision="2025-11-25", roots=["file:///a"], timeout_ms=20000, headers={"X-Test": "yes"} if http else {}, **answers)["servers"]["s"]
    assert opened["ok"] and opened["protocolVersion"] == "2025-06-18" and opened["serverInfo"]["name"] == "tiny" and opened["instructions"] == "be kind" and "tools" in opened["capabilities"], opened
    step("open")
    tools = adapter.ok("tools")["tools"]
    assert [t["rawName"] for t in tools] == ["echo", "sleep", "progress", "refuse", "ask", "notify", "seen", "die", "lie"], [t["name"] for t in tools]
    assert all(t["name"] == t["rawName"] and t["server"] == "s" and t["inputSchema"] for t in tools) and tools[-1]["outputSchema"], tools
    assert [r["uri"] for r in adapter.ok("resources", server="s")["resources"]] == ["test://0", "test://1", "test://2"]
    assert adapter.ok("templates")["resourceTemplates"][0]["uriTemplate"] == "test://{n}"
    assert adapter.ok("prompts")["prompts"][0]["name"] == "p"
    step("lists, all pages, an empty cursor among them")
    assert adapter.text("echo", line="a\u2028b", n=1) == {"line": "a\u2028b", "n": 1}
    assert adapter.ok("read", uri="test://0")["contents"][0]["blob"] == "AAEC/w=="
    prompt = adapter.ok("prompt", name="p", arguments={"a": "v"})
    assert prompt["messages"][0]["content"]["text"] == "v" and prompt["description"] == "d", prompt
    assert adapter.ok("complete", prompt="p", argument="a", value="v")["completion"]["values"] == ["v!", "ref/prompt"]
    assert adapter.ok("complete", template="test://{n}", argument="n", value="7")["completion"]["values"] == ["7!", "ref/resource"]
    for method, params in {"subscribe": {"uri": "test://0"}, "unsubscribe": {"uri": "test://0"}, "set_level": {"level": "debug"}, "ping": {}}.items():
        assert adapter.ok(method, **params) == {}, method
    step("call, read, prompt, complete, subscribe, set_level, ping")
    asked = adapter.text("ask")
    assert [r["uri"] for r in asked["roots"]["roots"]] == ["file:///a"], asked
    assert asked["sampling"]["content"]["text"] == "!" and asked["elicitation"]["content"] == {"x": "y"}, asked
    assert adapter.ok("set_roots", roots=["file:///b", "file:///c"]) == {}
    assert [r["uri"] for r in adapter.text("ask")["roots"]["roots"]] == ["file:///b", "file:///c"]
    step("sampling, elicitation, roots")
    adapter.ok("call", step="p", tool="progress", name="progress", server="s", arguments={}, progress=True)
    adapter.event("progress", step="p", progress=1, total=2, message="m1")
    adapter.event("progress", step="p", progress=2, total=2, message="m2")
    adapter.text("notify")
    adapter.event("notification", server="s", method="notifications/message")
    adapter.event("notification", server="s", method="notifications/tools/list_changed")
    step("progress, notifications")
    slow = adapter.start("call", step="slow", tool="sleep", name="sleep", server="s", arguments={}, progress=False)
    assert adapter.text("echo", n=2) == {"n": 2}
    assert adapter.ok("cancel", step="slow", reason="enough") == {}
    answer = slow()
    assert answer["error"]["data"]["kind"] == "cancelled", answer
    adapter.fails("timeout", "call", step="t", tool="sleep", name="sleep", server="s", arguments={}, timeout_ms=300, progress=False)
    while adapter.text("seen").count("notifications/cancelled") < 2:  # sent, perhaps not yet heard
        pass
    seen = adapter.text("seen")
    assert "notifications/roots/list_changed" in seen and "notifications/initialized" in seen, seen
    assert not http or "yes" in seen, seen
    step(f"overlap, cancel, timeout; reasons heard: {[s for a, s in zip(seen, seen[1:]) if a == 'notifications/cancelled']}")
    error = adapter.fails("protocol", "call", step="r", tool="refuse", name="refuse", server="s", arguments={}, progress=False)
    assert error["data"]["code"] == -32050 and "refused by the tool" in error["message"], error
    lie = adapter.start("call", step="l", tool="lie", name="lie", server="s", arguments={}, progress=False)()
    assert "result" in lie or lie["error"]["data"]["kind"] == "invalid", lie
    step(f"errors; a lie about structured content: {'believed' if 'result' in lie else 'refused'}")
    adapter.fails("refused", "ping", server="nobody")
    adapter.fails("refused", "cancel", step="nobody")


def main():
    command = sys.argv[1:]
    web = subprocess.Popen([sys.executable, SERVER, "http"], stdout=subprocess.PIPE, text=True)
    base = web.stdout.readline().strip()
    try:
        for name, target in {"stdio": STDIO, "http": {"transport": "http", "url": f"{base}/mcp"}, "http with OAuth": {"transport": "http", "url": f"{base}/auth"}}.items():
            print(name, flush=True)
            adapter = Adapter(command)
            hello = adapter.ok("hello", protocol=1)
            assert set(hello) == {"name", "version", "operations", "transports", "revisions", "features"}, hello
            assert adapter.start("no-such-operation")()["error"]["code"] == -32601
            step(f"hello: {hello['name']} {hello['version']}, without {set('open tools call cancel resources templates read subscribe unsubscribe prompts prompt complete set_level ping set_roots close'.split()) - set(hello['operations'])}")
            http = target["transport"] == "http"
            conversation(adapter, target, http)
            if not http:
                adapter.fails("closed", "call", step="d", tool="die", name="die", server="s", arguments={}, progress=False)
                adapter.fails("closed", "ping")
                adapter.fails("start", "open", servers={"x": {"transport": "stdio", "command": "/no/such/program", "args": [], "env": {}}})
                step("a server that dies, one that can't be started")
            else:
                adapter.fails("http", "open", servers={"x": {"transport": "http", "url": f"{base}/broken"}})
                adapter.fails("start", "open", servers={"x": {"transport": "http", "url": "http://127.0.0.1:9/mcp"}})
                step("an HTTP error, nobody there")
            assert adapter.ok("close", server="s") == {}
            both = adapter.ok("open", servers={"a": STDIO, "b": target, "c": {"transport": "stdio", "command": "/no/such/program", "args": [], "env": {}}})["servers"]
            assert both["a"]["ok"] and both["b"]["ok"] and not both["c"]["ok"] and both["c"]["error"]["kind"] == "start", both
            assert {t["server"] for t in adapter.ok("tools")["tools"]} >= {"a", "b"}
            assert adapter.text("echo", "a", n=1) == adapter.text("echo", "b", n=1)
            assert adapter.ok("close", server="a") == {}
            adapter.fails("refused|closed", "ping", server="a")
            assert adapter.ok("ping", server="b") == {}
            assert adapter.ok("close") == {}
            step("several servers, close")
            adapter.ok("open", servers={"last": STDIO})
            adapter.process.stdin.close()
            assert adapter.process.wait(PATIENCE) == 0, adapter.process.returncode
            step("exit when stdin ends")
    finally:
        web.kill()
        if "adapter" in locals():
            adapter.process.kill()


main()
