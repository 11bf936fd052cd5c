"""A client of the Python SDK (PyPI `mcp`) does everything once with a mock server that `sparring serve` plays.

    python python_client.py REVISION '{"transport": "http", "url": "…"}'

For stdio the target is {"transport": "stdio", "command": ["sparring", "serve", …]}. Exit code 0 if all went well.
"""
import asyncio, base64, contextlib, json, sys, warnings

import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

warnings.simplefilter("ignore")  # the SDK's, about what its newest revision drops
revision, target = sys.argv[1], json.loads(sys.argv[2])
modern = revision >= "2026-07-28"
asked, logged, did = [], [], []


async def sample(*_):
    asked.append("sampling/createMessage")
    return types.CreateMessageResult(role="assistant", model="none", content=types.TextContent(type="text", text="sampled"))


async def elicit(*_):
    asked.append("elicitation/create")
    return types.ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.com", "name": "Ada"})


async def log(params):
    logged.append(params.data)


def text(result):
    return "".join(block.text for block in result.content)


@contextlib.contextmanager
def step(name):
    try:
        yield
    except Exception as error:
        error.add_note(f"in step: {name}")
        raise
    did.append(name)


async def refused(awaitable):
    try:
        await awaitable
    except MCPError:
        return
    raise AssertionError("an error was expected")


def server():
    if target["transport"] == "stdio":
        command, *args = target["command"]
        return StdioServerParameters(command=command, args=args)
    return streamable_http_client(target["url"]) if target["transport"] == "http" else sse_client(target["url"])


async def main():
    answers = {"sampling_callback": sample, "logging_callback": log}
    if revision >= "2025-06-18":
        answers["elicitation_callback"] = elicit
    # `auto`, the SDK's default, would ask servers of the older revisions for `server/discover` first.
    async with Client(server(), mode="auto" if modern else "legacy", **answers) as client:
        with step("version"):
            assert client.protocol_version == revision, client.protocol_version
            assert client.server_info.name == "sparring-mock"
            assert client.instructions == "Everything here is for tests."
        if not modern:
            with step("ping"):
                await client.send_ping()
        with step("tools"):
            assert any(tool.name == "test_simple_text" for tool in (await client.list_tools()).tools)
        with step("call"):
            assert text(await client.call_tool("test_simple_text", {})) == "This is a simple text response for testing."
        with step("image"):
            image = (await client.call_tool("test_image_content", {})).content[0]
            assert base64.b64decode(image.data)[1:4] == b"PNG"
        if revision >= "2025-03-26":
            with step("audio"):
                assert (await client.call_tool("test_audio_content", {})).content[0].mime_type == "audio/wav"
        with step("failing tool"):
            assert (await client.call_tool("test_error_handling", {})).is_error
        with step("unknown tool"):
            await refused(client.call_tool("no-such-tool", {}))
        with step("progress"):
            seen = []

            async def progress(value, *_):
                seen.append(value)

            await client.call_tool("test_tool_with_progress", {}, progress_callback=progress)
            assert len(seen) >= 2 and seen == sorted(set(seen)), seen
        if modern:
            with step("input required"):
                assert text(await client.call_tool("test_input_required_result_elicitation", {})) == "Hello, Ada!"
                assert asked == ["elicitation/create"], asked
        else:
            with step("logging"):
                await client.set_logging_level("debug")
                await client.call_tool("test_tool_with_logging", {})
                assert logged == ["Tool execution started", "Tool processing data", "Tool execution completed"], logged
            with step("sampling"):
                await client.call_tool("test_sampling", {"prompt": "Test prompt for sampling"})
                assert asked == ["sampling/createMessage"], asked
                asked.clear()
            if revision >= "2025-06-18":
                with step("elicitation"):
                    await client.call_tool("test_elicitation", {"message": "Please provide your information"})
                    assert asked == ["elicitation/create"], asked
        with step("resources"):
            assert any(str(r.uri) == "test://static-text" for r in (await client.list_resources()).resources)
            templates = (await client.list_resource_templates()).resource_templates
            assert templates[0].uri_template == "test://template/{id}/data"
            contents = (await client.read_resource("test://static-text")).contents
            assert contents[0].text == "This is the content of the static text resource."
            contents = (await client.read_resource("test://static-binary")).contents
            assert base64.b64decode(contents[0].blob)[1:4] == b"PNG"
            await refused(client.read_resource("test://nowhere"))
        if not modern:
            with step("subscriptions"):
                await client.subscribe_resource("test://watched-resource")
                await client.unsubscribe_resource("test://watched-resource")
        with step("prompts"):
            assert any(prompt.name == "test_simple_prompt" for prompt in (await client.list_prompts()).prompts)
            prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "hello", "arg2": "world"})
            assert prompt.messages[0].content.text == "Prompt with arguments: arg1='hello', arg2='world'"
        if revision >= "2025-03-26":
            with step("completion"):
                reference = types.PromptReference(type="ref/prompt", name="test_prompt_with_arguments")
                found = await client.complete(reference, {"name": "arg1", "value": "par"})
                assert all(value.startswith("par") for value in found.completion.values)
    did.append("close")
    print(f"{len(did)} things: {', '.join(did)}")


asyncio.run(main())
