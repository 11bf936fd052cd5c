"""A server made with FastMCP: `fastmcp_server.py stdio`, or `fastmcp_server.py PORT` over HTTP."""
import asyncio, sys
import mcp.types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError

server = FastMCP("fast", version="1.2.3", instructions="Be kind.")


@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool
def fail() -> str:
    """Fails, as tools do."""
    raise ToolError("it failed on purpose")


@server.tool
async def slow(ctx: Context) -> str:
    """Takes a minute, and tells when it is cancelled."""
    try:
        for n in range(600):
            await ctx.report_progress(n, 600)
            await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        print("the call was cancelled", file=sys.stderr, flush=True)
        raise
    return "done"


@server.tool
async def grow(ctx: Context) -> str:
    """Adds a tool, and says so."""
    server.tool(lambda: "new", name="grown")
    await ctx.send_notification(mcp.types.ToolListChangedNotification(method="notifications/tools/list_changed"))
    return "grown"


@server.resource("note://one", mime_type="text/plain")
def note() -> str:
    return "the note"


@server.resource("note://by/{name}")
def named(name: str) -> str:
    return f"the note of {name}"


@server.prompt
def review(code: str) -> str:
    """Asks for a review."""
    return f"Review {code}."


if sys.argv[1] == "stdio":
    server.run(show_banner=False)
else:
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
