"""The SDK's side of the adapter: connections, what servers ask and tell, OAuth, and which failure is of which kind."""
import asyncio, contextlib, json, math, sys, warnings
from urllib.parse import parse_qsl, urlsplit

import anyio, httpx2, mcp_types as types, pydantic
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

# Nothing listens here: the harness hands the redirect over. Below the ephemeral ports, so that no mock gets it either.
REDIRECT = {"redirect_uris": ["http://127.0.0.1:17817/callback"]}
SAMPLED = pydantic.TypeAdapter(types.CreateMessageResult | types.CreateMessageResultWithTools)
OWN = [  # errors that the SDK makes itself, told from the server's by their words only
    ("timeout", -32001, "Request '"), ("closed", -32000, "Connection closed"), ("closed", -32000, "SSE stream"), ("http", -32601, "Not Found"),
    ("http", -32600, "Session terminated"), ("http", -32603, "Server returned an error response"), ("invalid", -32600, "Unexpected content type"),
    ("invalid", -32600, "server answered a request with"), ("invalid", -32700, "Failed to parse"),
]
redirects, roots = {}, []  # futures by `state`; URIs
out, sys.stdout = sys.stdout, sys.stderr  # stdout is the driver protocol's
warnings.simplefilter("ignore", UserWarning)  # the SDK's, about what its newest revision drops


def write(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), file=out, flush=True)


def event(name, **data):
    write(method="event", params={"name": name, "data": data})


def plain(model):
    return model and model.model_dump(by_alias=True, mode="json", exclude_unset=True)


def query(url):
    return dict(parse_qsl(urlsplit(url).query))


async def ready(value):
    return value


class Failed(Exception):
    def __init__(self, kind, message, code=None):
        super().__init__(message)
        self.data = {"kind": kind} if code is None else {"kind": kind, "code": code}


class Storage:
    """What the SDK leaves to its user in OAuth: keeping things, and taking the redirect."""

    def __init__(self, id=None, secret=None, method=None):
        method = method or ("client_secret_basic" if secret else "none")
        self.tokens, self.client = None, id and OAuthClientInformationFull(client_id=id, client_secret=secret, token_endpoint_auth_method=method, **REDIRECT)

    async def get_tokens(self): return self.tokens
    async def set_tokens(self, tokens): self.tokens = tokens
    async def get_client_info(self): return self.client
    async def set_client_info(self, client): self.client = client

    async def redirect(self, url):
        self.redirected = redirects[query(url).get("state")] = asyncio.get_running_loop().create_future()
        event("authorization-url", url=url)

    async def callback(self):
        told = query(await self.redirected)
        if "code" not in told:
            raise OAuthFlowError(f"no code in the redirect: {told.get('error')}")
        return AuthorizationCodeResult(**{key: told.get(key) for key in ("code", "state", "iss")})


class OnDemand(httpx2.Auth):
    """The SDK's OAuth from the first 401 on. A user would configure it for servers that want it: it lets one request through at a time."""

    requires_response_body = True

    def __init__(self, provider):
        self.provider, self.wanted = provider, False

    async def async_auth_flow(self, request):
        response = None if self.wanted else (yield request)
        if not self.wanted and response.status_code != 401:
            return
        self.wanted, flow = True, self.provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = response or (yield outgoing)  # the first is at hand
                outgoing, response = await flow.asend(response), None
        except StopAsyncIteration:
            pass
        finally:
            await flow.aclose()


class Session:
    """A connection. The SDK's context managers are entered and left in one task."""

    def __init__(self, name, target, params):
        self.name, self.target, self.params, self.auth = name, target, params, None
        self.error, self.broken, self.status = None, None, None
        self.opened, self.leave, self.task = asyncio.Event(), asyncio.Event(), asyncio.create_task(self.run())

    async def run(self):
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + self.params.get("timeout_ms", math.inf) / 1000) as scope:
                async with contextlib.AsyncExitStack() as stack:
                    self.client = await stack.enter_async_context(await self.make(stack))
                    scope.deadline = math.inf
                    self.opened.set()
                    await self.leave.wait()
            if not self.opened.is_set():
                self.error = Failed("timeout", "no handshake in time")
        except BaseException as error:
            self.error = error
        self.opened.set()

    async def make(self, stack):
        params, target, answers = self.params, self.target, {}
        if "sampling" in params:
            answers["sampling_callback"] = lambda *_: ready(SAMPLED.validate_python(params["sampling"]))
        if "elicitation" in params:
            answers["elicitation_callback"] = lambda *_: ready(types.ElicitResult.model_validate(params["elicitation"]))
        if "roots" in params:
            answers["list_roots_callback"] = lambda *_: ready(types.ListRootsResult(roots=[types.Root(uri=uri) for uri in roots]))
        if target["transport"] == "stdio":
            server = StdioServerParameters(command=target["command"], args=target["args"], env=target.get("env"))
        else:
            headers = params.get("headers", {})
            if "authorization" not in map(str.lower, headers):
                storage = Storage(params.get("client_id"), params.get("client_secret"), params.get("client_authentication"))
                metadata = OAuthClientMetadata(client_name="sparring-adapter", token_endpoint_auth_method="none", **REDIRECT)
                self.auth = OnDemand(OAuthClientProvider(target["url"], metadata, storage, storage.redirect, storage.callback))
            if target["transport"] == "sse-legacy":
                server = sse_client(target["url"], headers=headers, auth=self.auth)
            else:
                http = await stack.enter_async_context(create_mcp_http_client(headers, auth=self.auth))
                self.send, http.send = http.send, self.note
                server = streamable_http_client(target["url"], http_client=http)
        # `auto`, the SDK's default, would ask servers of the older revisions for `server/discover` first.
        mode = "legacy" if params.get("revision") in HANDSHAKE_PROTOCOL_VERSIONS else "auto"
        return Client(server, mode=mode, client_info=types.Implementation(name="sparring-adapter-python", version="0.1.0"), message_handler=self.hear, **answers)

    async def note(self, *args, **kwargs):
        """Sends with the HTTP client, and remembers what the SDK keeps to itself."""
        try:
            response = await self.send(*args, **kwargs)
        except Exception as error:
            self.broken = error
            raise
        self.status = response.status_code if response.status_code >= 400 else self.status
        return response

    async def hear(self, message):
        if isinstance(message, Exception):
            return event("log", text=f"{self.name}: {message!r}")
        event("notification", server=self.name, **{"params": {}, **plain(message)})

    async def attempt(self, operation):
        try:
            return await operation(self.client)
        except Exception as error:
            raise self.failure(error) from error

    def failure(self, error, opening=False):
        if getattr(error, "message", None) == "Connection closed":
            error = self.error or self.broken or error  # what had ended the connection says more
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        says = lambda kind, code=None: Failed(kind, str(error) or repr(error), code)
        if isinstance(error, Failed):
            return error
        if isinstance(error, MCPError):
            kind = next((kind for kind, code, words in OWN if code == error.code and error.message.startswith(words)), "protocol")
            if kind == "http":
                return says("auth" if self.auth and self.auth.wanted and self.status in (401, 403) else "http", self.status)
            return says(kind, error.code if kind == "protocol" else None)
        if isinstance(error, OAuthFlowError):
            return says("auth")
        if isinstance(error, (OSError, httpx2.TransportError)):
            return says("start" if opening else "closed")
        if isinstance(error, pydantic.ValidationError) or any(words in str(error) for words in ("Unsupported protocol version", "structured content", "Invalid schema")):
            return says("invalid")
        return says("closed" if self.task.done() and not opening else "other")

    async def end(self):
        self.leave.set()
        await self.task
