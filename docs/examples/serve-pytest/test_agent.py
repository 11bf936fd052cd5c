"""What a test of your own looks like. The client is the official Python SDK's; yours goes in its place."""

import asyncio

import pytest
from mcp import Client, MCPError, StdioServerParameters

# The second search fails; everything else is what a perfect server does.
FLAKY = """
tools:
  - { name: search, like: echo }
rules:
  - on: tools/call
    nth: 2
    do:
      - error: { code: -32603, message: out of order }
"""


async def search(client, text):
    result = await client.call_tool("search", {"text": text})
    return result.content[0].text


def test_a_search_that_fails_is_told_and_the_next_one_works(sparring):
    server = sparring.http(FLAKY)

    async def run():
        async with Client(server.url) as client:
            assert await search(client, "one") == "one"
            with pytest.raises(MCPError, match="out of order"):
                await search(client, "two")
            assert await search(client, "three") == "three"

    asyncio.run(run())
    assert server.count(request="tools/call") == 3


def test_a_tool_that_comes_later_is_found(sparring):
    server = sparring.http({"tools": ["echo"], "http": {"sessions": True, "get_stream": True}})

    async def run():
        async with Client(server.url) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo"]
            # Blocking calls have no place in an event loop.
            await asyncio.to_thread(server.act, {"add_tool": {"name": "later"}}, {"announce": "tools"})
            assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "later"]

    asyncio.run(run())


def test_a_call_that_hangs_ends_when_the_server_gives_up(sparring):
    server = sparring.http({"tools": ["echo"], "rules": [{"on": "tools/call", "do": ["stall"]}]})

    async def run():
        async with Client(server.url) as client:
            call = asyncio.create_task(client.call_tool("echo", {"text": "hi"}))
            (event,) = await asyncio.to_thread(server.wait, request="tools/call")
            await asyncio.to_thread(server.act, {"status": 503}, exchange=event["what"]["exchange"])
            with pytest.raises(MCPError):
                await call

    asyncio.run(run())


def test_a_server_that_dies_is_started_again(sparring):
    server = sparring.stdio({"tools": ["echo"]})
    command, *arguments = server.command

    async def run():
        for _ in range(2):
            async with Client(StdioServerParameters(command=command, args=arguments)) as client:
                assert (await client.call_tool("echo", {"text": "hi"})).content[0].text == "hi"

    asyncio.run(run())
    started = server.wait(process="started", count=2)
    assert [event["incarnation"] for event in started] == [1, 2]
    server.wait(process="ended", count=2)
