"""Puts the client of the Python SDK (PyPI `mcp`) under Sparring's driver protocol.

See docs/driver-protocol.md. The SDK's defaults are left alone: what is judged is the SDK, not this file.
"""
import asyncio, contextlib, importlib.metadata, json, math, sys, threading, warnings
from urllib.parse import parse_qs, urlsplit

import anyio, httpx2, mcp_types as types, pydantic
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

# Nothing listens here: the harness hands the redirect over. Below the ephemeral ports, so that no mock gets it either.
REDIRECT_URI = "http://127.0.0.1:17817/callback"
FEATURES = ["sampling", "elicitation", "roots", "oauth", "progress", "notifications", "several-servers", "call-timeout", "headers"]
SAMPLED = pydantic.TypeAdapter(types.CreateMessageResult | types.CreateMessageResultWithTools)
sessions, running, redirects, roots = {}, {}, {}, []  # sessions by server, cancel scopes by step, futures by `state`
out, sys.stdout = sys.stdout, sys.stderr  # stdout is the driver protocol's


def write(**message):
    out.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    out.flush()


def event(name, **data):
    write(method="event", params={"name": name, "data": data})


def plain(model):
    return None if model is None else model.model_dump(by_alias=True, mode="json", exclude_unset=True)


class Failed(Exception):
    def __init__(self, kind, message, code=None):
        super().__init__(message)
        self.data = {"kind": kind} if code is None else {"kind": kind, "code": code}


class Storage:
    """What the SDK leaves to its user in OAuth: keeping things, and taking the redirect."""

    def __init__(self, id, secret):
        method = "client_secret_basic" if secret else "none"
        self.tokens, self.client = None, id and OAuthClientInformationFull(client_id=id, client_secret=secret, redirect_uris=[REDIRECT_URI], token_endpoint_auth_method=method)

    async def get_tokens(self): return self.tokens
    async def set_tokens(self, tokens): self.tokens = tokens
    async def get_client_info(self): return self.client
    async def set_client_info(self, client): self.client = client

    async def redirect(self, url):
        self.redirected = asyncio.get_running_loop().create_future()
        redirects[parse_qs(urlsplit(url).query).get("state", [""])[0]] = self.redirected
        event("authorization-url", url=url)

    async def callback(self):
        query = {key: values[0] for key, values in parse_qs(urlsplit(await self.redirected).query).items()}
        if "code" not in query:
            raise OAuthFlowError(f"no code in the redirect: {query.get('error')}")
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


class Session:
    """A connection. The SDK's context managers are entered and left in one task, `task`."""

    def __init__(self, name, target, params):
        self.name, self.target, self.params = name, target, params
        self.opened, self.leave, self.error, self.status, self.auth = asyncio.Event(), asyncio.Event(), None, None, None
        self.task = asyncio.create_task(self.run())

    async def run(self):
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self.params.get("timeout_ms", math.inf) / 1000) as scope:
                async with contextlib.AsyncExitStack() as stack:
                    self.client = await stack.enter_async_context(await self.make(stack))
                    scope.deadline = math.inf
                    self.opened.set()
                    await self.leave.wait()
            if scope.cancelled_caught and not self.opened.is_set():
                self.error = Failed("timeout", "no handshake in time")
        except BaseException as error:
            self.error = error
        self.opened.set()

    async def make(self, stack):
        params, answers = self.params, {}
        if "sampling" in params:
            answers["sampling_callback"] = lambda *_: ready(SAMPLED.validate_python(params["sampling"]))
        if "elicitation" in params:
            answers["elicitation_callback"] = lambda *_: ready(types.ElicitResult.model_validate(params["elicitation"]))
        if "roots" in params:
            answers["list_roots_callback"] = lambda *_: ready(types.ListRootsResult(roots=[types.Root(uri=uri) for uri in roots]))
        mode = "legacy" if params.get("revision") in HANDSHAKE_PROTOCOL_VERSIONS else "auto"
        info = types.Implementation(name="sparring-adapter-python", version="0.1.0")
        if self.target["transport"] == "stdio":
            server = StdioServerParameters(command=self.target["command"], args=self.target["args"], env=self.target.get("env"))
        else:
            url, headers = self.target["url"], params.get("headers", {})
            if "authorization" not in map(str.lower, headers):
                storage = Storage(params.get("client_id"), params.get("client_secret"))
                metadata = OAuthClientMetadata(client_name="sparring-adapter", redirect_uris=[REDIRECT_URI], token_endpoint_auth_method="none")
                self.auth = OAuthClientProvider(url, metadata, storage, storage.redirect, storage.callback)
            http = await stack.enter_async_context(create_mcp_http_client(headers, auth=self.auth))
            http.event_hooks = {"response": [self.note]}  # the SDK keeps the status to itself
            server = streamable_http_client(url, http_client=http)
        return Client(server, mode=mode, client_info=info, message_handler=self.hear, **answers)

    async def note(self, response):
        self.status = response.status_code if response.status_code >= 400 else self.status

    async def hear(self, message):
        if isinstance(message, Exception):
            return event("log", text=f"{self.name}: {message}")
        told = plain(message)
        event("notification", server=self.name, method=told["method"], params=told.get("params") or {})

    async def attempt(self, operation):
        try:
            return await operation(self.client)
        except Exception as error:
            raise self.failure(error) from error

    def failure(self, error, opening=False):
        if isinstance(error, MCPError) and error.message == "Connection closed" and self.error:
            error = self.error  # what had ended the connection says more
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        says = lambda kind, code=None: Failed(kind, str(error) or repr(error), code)
        if isinstance(error, Failed):
            return error
        if isinstance(error, MCPError):  # of the server, or the SDK's own, told apart by words only
            own = {
                (-32001, "Request "): "timeout", (-32000, "Connection closed"): "closed", (-32000, "SSE stream"): "closed",
                (-32600, "Session terminated"): "http", (-32603, "Server returned an error response"): "http", (-32601, "Not Found"): "http",
                (-32600, "Unexpected content type"): "invalid", (-32700, "Failed to parse"): "invalid", (-32600, "server answered a request with"): "invalid",
            }
            kind = next((kind for (code, words), kind in own.items() if code == error.code and error.message.startswith(words)), "protocol")
            if kind == "http":
                return says("auth" if self.auth and self.status in (401, 403) else "http", self.status)
            return says(kind, error.code if kind == "protocol" else None)
        if isinstance(error, OAuthFlowError):
            return says("auth")
        if isinstance(error, (OSError, httpx2.TransportError)):
            return says("start" if opening else "closed")
        if isinstance(error, pydantic.ValidationError) or any(words in str(error) for words in ("Unsupported protocol version", "structured content", "Invalid schema")):
            return says("invalid")
        return says("closed" if self.task.done() else "other")


async def ready(value):
    return value


def chosen(params):
    found = [session for session in sessions.values() if params.get("server", session.name) == session.name]
    if not found:
        raise Failed("refused", "no such server is open")
    return found


def one(operation):
    async def run(params):
        return plain(await chosen(params)[0].attempt(lambda client: operation(client, params)))
    return run


def every(method, key, change=lambda item: item):
    async def run(params):
        items = []
        for session in chosen(params):
            cursor = None
            while True:
                page = await session.attempt(lambda client: getattr(client, method)(cursor=cursor))
                items += [{**change(item), "server": session.name} for item in plain(page)[key]]
                cursor = page.next_cursor
                if cursor is None:  # an empty string is a cursor
                    break
        return {key: items}
    return run


async def open_(params):
    roots[:] = params.get("roots", [])
    await asyncio.gather(*(leave(sessions[name]) for name in params["servers"] if name in sessions))
    new = [Session(name, target, params) for name, target in params["servers"].items()]
    servers, failures = {}, []
    for session in new:
        await session.opened.wait()
        if session.error:
            failures.append(session.failure(session.error, opening=True))
            servers[session.name] = {"ok": False, "error": {"message": str(failures[-1]), **failures[-1].data}}
        else:
            client, sessions[session.name] = session.client, session
            servers[session.name] = {"ok": True, "protocolVersion": client.protocol_version, "serverInfo": plain(client.server_info),
                                     "capabilities": plain(client.server_capabilities), "instructions": client.instructions}
    if failures and len(failures) == len(new):
        raise failures[0]
    return {"servers": servers}


async def call(params):
    async def report(progress, total, message):
        event("progress", step=params["step"], progress=progress, total=total, message=message)

    [session, *_], timeout = chosen(params), params.get("timeout_ms")
    with anyio.CancelScope() as scope:
        running[params["step"]] = scope
        try:
            return plain(await session.attempt(lambda client: client.call_tool(
                params["tool"], params.get("arguments"), timeout and timeout / 1000, report if params.get("progress") else None)))
        finally:
            del running[params["step"]]
    raise Failed("cancelled", "the call was cancelled")


async def cancel(params):
    if params["step"] not in running:
        raise Failed("refused", f"no call runs as {params['step']}")
    running[params["step"]].cancel()
    return {}


async def set_roots(params):
    roots[:] = params["roots"]
    for session in chosen({}):
        if "roots" not in session.params:
            raise Failed("refused", "roots were not declared")
        await session.attempt(lambda client: client.send_roots_list_changed())
    return {}


async def leave(session):
    sessions.pop(session.name, None)
    session.leave.set()
    await session.task


async def close(params):
    await asyncio.gather(*map(leave, chosen(params) if sessions else []))
    return {}


def tool(item):
    return {"rawName": item["name"], **{key: item[key] for key in ("name", "title", "description", "inputSchema", "outputSchema") if key in item}}


def reference(params):
    if "prompt" in params:
        return types.PromptReference(name=params["prompt"])
    return types.ResourceTemplateReference(uri=params["template"])


OPERATIONS = {
    "open": open_, "call": call, "cancel": cancel, "set_roots": set_roots, "close": close, "tools": every("list_tools", "tools", tool),
    "resources": every("list_resources", "resources"), "templates": every("list_resource_templates", "resourceTemplates"),
    "prompts": every("list_prompts", "prompts"), "read": one(lambda client, params: client.read_resource(params["uri"])),
    "subscribe": one(lambda client, params: client.subscribe_resource(params["uri"])),
    "unsubscribe": one(lambda client, params: client.unsubscribe_resource(params["uri"])),
    "prompt": one(lambda client, params: client.get_prompt(params["name"], params.get("arguments"))),
    "complete": one(lambda client, params: client.complete(reference(params), {"name": params["argument"], "value": params["value"]})),
    "set_level": one(lambda client, params: client.set_logging_level(params["level"])), "ping": one(lambda client, params: client.send_ping()),
}


async def answer(id, method, params):
    if method == "hello":
        return write(id=id, result={"name": "mcp (Python)", "version": importlib.metadata.version("mcp"), "operations": list(OPERATIONS), "transports": ["stdio", "http"],
                                    "revisions": list(HANDSHAKE_PROTOCOL_VERSIONS), "features": FEATURES})
    if method not in OPERATIONS:
        return write(id=id, error={"code": -32601, "message": f"no operation {method}"})
    try:
        write(id=id, result=await OPERATIONS[method](params))
    except Exception as error:
        write(id=id, error={"code": 1, "message": str(error) or repr(error), "data": getattr(error, "data", {"kind": "other"})})


async def main():
    loop, lines, tasks = asyncio.get_running_loop(), asyncio.Queue(), set()

    def read():
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    threading.Thread(target=read, daemon=True).start()
    while line := await lines.get():
        message = json.loads(line)
        params = {key: value for key, value in (message.get("params") or {}).items() if value is not None}  # null is as good as absent
        if message["method"] == "redirect":
            state = parse_qs(urlsplit(params["url"]).query).get("state", [""])[0]
            waiting = redirects.pop(state if state in redirects else next(iter(redirects), None), None)
            waiting and waiting.set_result(params["url"])
        else:
            tasks.add(task := asyncio.create_task(answer(message["id"], message["method"], params)))
            task.add_done_callback(tasks.discard)
    await close({})


warnings.simplefilter("ignore", UserWarning)  # the SDK's, about what the newest revision drops
asyncio.run(main())
