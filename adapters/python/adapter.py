"""Puts the client of the Python SDK (PyPI `mcp`) under Sparring's driver protocol, see docs/driver-protocol.md.

The SDK's defaults are left alone: what is judged is the SDK, not this file.
"""
import asyncio, importlib.metadata, json, os, sys, threading, time

import anyio, mcp_types as types
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from sdk import Failed, Session, event, plain, query, redirects, roots, write

FEATURES = ["sampling", "elicitation", "roots", "oauth", "progress", "notifications", "several-servers", "call-timeout", "headers"]
PAGES = 1000  # the SDK leaves the loop over pages to its user, and so its end
sessions, running = {}, {}  # by server; cancel scopes by step


def chosen(params):
    found = [session for session in sessions.values() if params.get("server", session.name) == session.name]
    if not found:
        raise Failed("refused", "no such server is open")
    return found


def one(operation):
    async def run(params):
        return plain(await chosen(params)[0].attempt(lambda client: operation(client, params)))
    return run


def every(method, key, members=None):
    async def run(params):
        items, cursor = [], None
        for session in chosen(params):
            for _ in range(PAGES):
                page = await session.attempt(lambda client: getattr(client, method)(cursor=cursor))
                items += [{**{k: v for k, v in item.items() if not members or k in members}, "server": session.name} for item in plain(page)[key]]
                cursor = page.next_cursor
                if cursor is None:  # an empty string is a cursor
                    break
            else:
                raise Failed("refused", f"the adapter reads {PAGES} pages and no more")
        return {key: items}
    return run


async def tools(params):
    listed = await every("list_tools", "tools", ("name", "title", "description", "inputSchema", "outputSchema"))(params)
    return {"tools": [{**tool, "rawName": tool["name"]} for tool in listed["tools"]]}


async def open_(params):
    roots[:] = params.get("roots", [])
    await asyncio.gather(*(sessions.pop(name).end() for name in params["servers"] if name in sessions))
    servers, failures = {}, []
    for session in [Session(name, target, params) for name, target in params["servers"].items()]:
        await session.opened.wait()
        if session.error:
            failures.append(session.failure(session.error, opening=True))
            servers[session.name] = {"ok": False, "error": {"message": str(failures[-1]), **failures[-1].data}}
        else:
            client, sessions[session.name] = session.client, session
            servers[session.name] = {"ok": True, "protocolVersion": client.protocol_version, "serverInfo": plain(client.server_info),
                                     "capabilities": plain(client.server_capabilities)}
            if client.instructions is not None:
                servers[session.name]["instructions"] = client.instructions
    if failures and len(failures) == len(servers):
        raise failures[0]
    return {"servers": servers}


async def call(params):
    async def report(progress, total, message):
        told = {"progress": progress, "total": total, "message": message}
        event("progress", step=params["step"], **{key: value for key, value in told.items() if value is not None})

    session, timeout = chosen(params)[0], params.get("timeout_ms")
    with anyio.CancelScope() as running[params["step"]]:
        try:
            return plain(await session.attempt(lambda client: client.call_tool(
                params["tool"], params.get("arguments"), timeout and timeout / 1000, report if params.get("progress") else None)))
        finally:
            del running[params["step"]]
    raise Failed("cancelled", "the call was cancelled")


async def bench(params):
    client, ns = chosen(params)[0].client, []
    for _ in range(params["calls"]):
        start = time.perf_counter_ns()
        await client.call_tool(params["tool"], params.get("arguments"))
        ns.append(time.perf_counter_ns() - start)
    return {"ns": ns}  # how long each call took


async def cancel(params):
    if params["step"] not in running:
        raise Failed("refused", f"no call runs as {params['step']}")
    running[params["step"]].cancel()


async def set_roots(params):
    roots[:] = params["roots"]
    for session in chosen({}):
        if "roots" not in session.params:
            raise Failed("refused", "roots were not declared")
        await session.attempt(lambda client: client.send_roots_list_changed())


async def close(params):
    await asyncio.gather(*(sessions.pop(session.name).end() for session in (chosen(params) if sessions else [])))


def reference(params):
    return types.PromptReference(name=params["prompt"]) if "prompt" in params else types.ResourceTemplateReference(uri=params["template"])


OPERATIONS = {
    "open": open_, "tools": tools, "call": call, "bench": bench, "cancel": cancel, "set_roots": set_roots, "close": close,
    "resources": every("list_resources", "resources"), "templates": every("list_resource_templates", "resourceTemplates"), "prompts": every("list_prompts", "prompts"),
    "read": one(lambda client, params: client.read_resource(params["uri"])),
    "subscribe": one(lambda client, params: client.subscribe_resource(params["uri"])),
    "unsubscribe": one(lambda client, params: client.unsubscribe_resource(params["uri"])),
    "prompt": one(lambda client, params: client.get_prompt(params["name"], params.get("arguments"))),
    "complete": one(lambda client, params: client.complete(reference(params), {"name": params["argument"], "value": params["value"]})),
    "set_level": one(lambda client, params: client.set_logging_level(params["level"])), "ping": one(lambda client, params: client.send_ping()),
}


async def take(id, method, params):
    if method == "hello":
        return write(id=id, result={"name": "mcp", "version": importlib.metadata.version("mcp"), "operations": [name for name in OPERATIONS if name != "bench"],
                                    "transports": ["stdio", "http", "sse-legacy"], "revisions": list(KNOWN_PROTOCOL_VERSIONS), "features": FEATURES})
    if method not in OPERATIONS:
        return write(id=id, error={"code": -32601, "message": f"no operation {method}"})
    try:
        write(id=id, result=await OPERATIONS[method](params) or {})
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
        params = {key: value for key, value in message.get("params", {}).items() if value is not None}  # null is as good as absent
        if message["method"] == "redirect":
            name = query(params["url"]).get("state")
            if waiting := redirects.pop(name if name in redirects else next(iter(redirects), None), None):
                waiting.set_result(params["url"])
        else:
            tasks.add(task := asyncio.create_task(take(message["id"], message["method"], params)))
            task.add_done_callback(tasks.discard)
    await close({})


asyncio.run(main())
sys.stderr.flush()
os._exit(0)  # the interpreter's own way out takes its time
