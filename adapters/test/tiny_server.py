"""A tiny MCP server for smoke.py, standard library only: `tiny_server.py stdio`, or `tiny_server.py http` (prints its URL).

`http` also serves /auth, the same behind OAuth, and a small authorization server that says yes to everybody.
"""
import json, queue, sys, threading, urllib.parse, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OBJECT = {"type": "object"}
TOOLS = [{"name": name, "description": name, "inputSchema": OBJECT} for name in ("echo", "sleep", "progress", "refuse", "ask", "notify", "seen", "die")]
TOOLS.append({"name": "lie", "inputSchema": OBJECT, "outputSchema": {**OBJECT, "properties": {"n": {"type": "integer"}}, "required": ["n"]}})
BLOB = "AAEC/w=="


class Peer:
    """What the server knows of one client."""

    def __init__(self):
        self.seen, self.answers, self.cancelled = [], {}, {}

    def take(self, message, send):
        """Handles one message; `send` reaches the client. Tool calls may block."""
        method, params, id = message.get("method"), message.get("params") or {}, message.get("id")
        if method is None:
            return self.answers[id].put(message)
        self.seen.append(method)
        if method == "notifications/cancelled":
            self.seen.append(params.get("reason"))
            self.cancelled.setdefault(params["requestId"], threading.Event()).set()
        if id is None:
            return None
        try:
            result = self.request(method, params, id, send)
        except LookupError as error:
            return send({"id": id, "error": {"code": -32050, "message": str(error), "data": {"why": "asked"}}})
        return result is not None and send({"id": id, "result": result})

    def ask(self, send, method, params):
        id = str(uuid.uuid4())
        self.answers[id] = queue.Queue()
        send({"id": id, "method": method, "params": params})
        answer = self.answers[id].get(timeout=20)
        return answer["result"] if "result" in answer else answer["error"]

    def request(self, method, params, id, send):
        if method == "initialize":
            everything = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}, "logging": {}}
            return {"protocolVersion": "2025-06-18", "capabilities": everything, "serverInfo": {"name": "tiny", "version": "1"}, "instructions": "be kind"}
        if method in ("ping", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
            return {}
        if method == "tools/list":  # two pages, the second behind an empty cursor
            return {"tools": TOOLS[4:]} if params.get("cursor") == "" else {"tools": TOOLS[:4], "nextCursor": ""}
        if method == "resources/list":  # three pages
            page = int(params.get("cursor", "0"))
            return {"resources": [{"uri": f"test://{page}", "name": f"r{page}"}], **({"nextCursor": str(page + 1)} if page < 2 else {})}
        if method == "resources/templates/list":
            return {"resourceTemplates": [{"uriTemplate": "test://{n}", "name": "t"}]}
        if method == "resources/read":
            return {"contents": [{"uri": params["uri"], "blob": BLOB}]}
        if method == "prompts/list":
            return {"prompts": [{"name": "p", "arguments": [{"name": "a"}]}]}
        if method == "prompts/get":
            return {"description": "d", "messages": [{"role": "user", "content": {"type": "text", "text": str(params["arguments"]["a"])}}]}
        if method == "completion/complete":
            return {"completion": {"values": [params["argument"]["value"] + "!", params["ref"]["type"]]}}
        if method == "tools/call":
            return self.call(params["name"], params.get("arguments") or {}, params, id, send)
        raise LookupError(f"no method {method}")

    def call(self, name, arguments, params, id, send):
        out = arguments
        if name == "sleep":
            self.cancelled.setdefault(id, threading.Event()).wait(30)
            return None
        if name == "progress":
            token = params.get("_meta", {}).get("progressToken")
            for n in (1, 2):
                send({"method": "notifications/progress", "params": {"progressToken": token, "progress": n, "total": 2, "message": f"m{n}"}})
            self.ask(send, "ping", {})  # a client may drop progress that comes together with the answer
        if name == "refuse":
            raise LookupError("refused by the tool")
        if name == "ask":
            text = {"type": "text", "text": "?"}
            out = {
                "roots": self.ask(send, "roots/list", {}),
                "sampling": self.ask(send, "sampling/createMessage", {"messages": [{"role": "user", "content": text}], "maxTokens": 5}),
                "elicitation": self.ask(send, "elicitation/create", {"message": "?", "requestedSchema": {**OBJECT, "properties": {"x": {"type": "string"}}}}),
            }
        if name == "notify":
            send({"method": "notifications/message", "params": {"level": "info", "data": "hear"}})
            send({"method": "notifications/tools/list_changed"})
        if name == "seen":
            out = self.seen
        if name == "die":
            import os
            os._exit(3)
        result = {"content": [{"type": "text", "text": json.dumps(out)}]}
        return {**result, "structuredContent": {"n": "one"}} if name == "lie" else result


def stdio():
    peer, lock = Peer(), threading.Lock()

    def send(message):
        with lock:
            print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

    for line in sys.stdin:
        threading.Thread(target=peer.take, args=(json.loads(line), send), daemon=True).start()


class Http(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    peers, verifiers = {}, {}

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", **headers):
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        base = f"http://{self.headers['Host']}"
        if url.path == "/.well-known/oauth-protected-resource/auth":
            return self.reply(200, {"resource": f"{base}/auth", "authorization_servers": [base]})
        if url.path == "/.well-known/oauth-authorization-server":
            ends = {f"{name}_endpoint": f"{base}/{name}" for name in ("authorization", "token", "registration")}
            return self.reply(200, {"issuer": base, **ends, "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
                                    "grant_types_supported": ["authorization_code", "refresh_token"], "token_endpoint_auth_methods_supported": ["none"]})
        if url.path == "/authorization":
            query = dict(urllib.parse.parse_qsl(url.query))
            answer = urllib.parse.urlencode({"code": "c0de", "state": query["state"]})
            return self.reply(302, Location=f"{query['redirect_uri']}?{answer}")
        return self.reply(405 if url.path in ("/mcp", "/auth") else 404)

    def do_DELETE(self):
        self.reply(200 if self.peers.pop(self.headers["Mcp-Session-Id"], None) else 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/registration":
            return self.reply(201, {**json.loads(body), "client_id": "tiny-client"})
        if self.path == "/token":
            return self.reply(200, {"access_token": "t0ken", "token_type": "Bearer", "expires_in": 3600})
        if self.path == "/auth" and self.headers["Authorization"] != "Bearer t0ken":
            where = f"http://{self.headers['Host']}/.well-known/oauth-protected-resource/auth"
            return self.reply(401, WWW_Authenticate=f'Bearer resource_metadata="{where}"')
        if self.path not in ("/mcp", "/auth"):
            return self.reply(503, b"out of order")
        message, session = json.loads(body), self.headers["Mcp-Session-Id"] or str(uuid.uuid4())
        if message.get("method") == "initialize":
            self.peers[session] = Peer()
            self.peers[session].seen.append(self.headers["X-Test"])
        if session not in self.peers:
            return self.reply(404)
        if "id" not in message or "method" not in message:
            self.peers[session].take(message, None)
            return self.reply(202)
        self.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", "Mcp-Session-Id": session, "Connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        return self.peers[session].take(message, lambda m: self.wfile.write(b"data: " + json.dumps({"jsonrpc": "2.0", **m}).encode() + b"\n\n"))


if sys.argv[1] == "stdio":
    stdio()
else:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Http)
    server.handle_error = lambda *_: None
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
