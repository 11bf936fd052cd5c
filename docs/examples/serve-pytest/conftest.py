"""The fixture `sparring`: mock MCP servers for tests. Copy this file; it needs the standard library and pytest only.

    def test_it(sparring):
        server = sparring.http(script={"tools": ["echo"]})
        ... server.url ...

The program is the one that the environment variable SPARRING names, or `sparring` on the PATH.
"""

import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import pytest


class Server:
    """A mock that is served by a process of its own, until `stop`."""

    def __init__(self, arguments):
        program = os.environ.get("SPARRING", "sparring")
        # The mock ends when its stdin does: also if this process is killed.
        command = [program, "serve", *arguments, "--stop-with-stdin"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the mock did not start: exit code {self.process.wait()}")
        self.ready = json.loads(line)
        self.url = self.ready.get("url")
        self.command = self.ready.get("command")

    def _ask(self, method, path, body=None, timeout=60):
        control = self.ready["control"]
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {control['token']}"}
        request = urllib.request.Request(control["url"] + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from None

    def act(self, *actions, **where):
        """Makes the server do something now, in the words of scripts; `where` is `exchange`, `session`…"""
        query = "?" + urllib.parse.urlencode(where) if where else ""
        return self._ask("POST", "/actions" + query, actions)

    def wait(self, count=1, timeout=10, after=0, **pattern):
        """Waits for events, such as `wait(request="tools/call")`; fails if they don't come."""
        body = {"pattern": pattern, "count": count, "after": after, "timeout_ms": int(timeout * 1000)}
        answer = self._ask("POST", "/wait", body, timeout + 30)
        assert answer["matched"], f"{len(answer['events'])} of {count} events like {pattern}"
        return answer["events"]

    def count(self, **pattern):
        """How many events like this there are."""
        body = {"pattern": pattern, "count": 1_000_000, "timeout_ms": 0}
        return len(self._ask("POST", "/wait", body)["events"])

    def transcript(self):
        """All that happened so far."""
        return self._ask("GET", "/transcript")["events"]

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait(30) == 0


class Sparring:
    def __init__(self, folder):
        self.folder, self.servers = folder, []

    def _start(self, transport, script, more):
        arguments = [*transport, *more]
        if script is not None:
            path = self.folder / f"script-{len(self.servers)}.yaml"
            # JSON is YAML.
            path.write_text(script if isinstance(script, str) else json.dumps(script))
            arguments += ["--script", str(path)]
        transcript = self.folder / f"transcript-{len(self.servers)}.jsonl"
        server = Server([*arguments, "--transcript", str(transcript)])
        self.servers.append(server)
        return server

    def http(self, script=None, *more):
        """A server at `url`."""
        return self._start(["http"], script, more)

    def stdio(self, script=None, *more):
        """A server that `command` starts, any number of times."""
        return self._start(["stdio", "--broker"], script, more)


@pytest.fixture
def sparring(tmp_path):
    sparring = Sparring(tmp_path)
    yield sparring
    for server in sparring.servers:
        server.stop()
