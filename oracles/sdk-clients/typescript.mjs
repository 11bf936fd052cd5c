// A client of the TypeScript SDK does everything once with a mock server that `sparring serve` plays.
//
//   node typescript.mjs sdk|client REVISION '{"transport": "http", "url": "…"}'
//
// `sdk` is the package `@modelcontextprotocol/sdk`, `client` the newer `@modelcontextprotocol/client`. For stdio the
// target is {"transport": "stdio", "command": ["sparring", "serve", …]}. Exit code 0 if all went well; else the first
// thing that did not is on stderr.
import assert from 'node:assert/strict';

const [which, revision, target] = [process.argv[2], process.argv[3], JSON.parse(process.argv[4])];
const modern = revision >= '2026-07-28';

async function sdk() {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const { SSEClientTransport } = await import('@modelcontextprotocol/sdk/client/sse.js');
    const types = await import('@modelcontextprotocol/sdk/types.js');
    return {
        Client, StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport, options: {},
        handle: (client, method, handler) =>
            client.setRequestHandler({ 'sampling/createMessage': types.CreateMessageRequestSchema, 'elicitation/create': types.ElicitRequestSchema, 'roots/list': types.ListRootsRequestSchema }[method], handler),
        hear: (client, method, handler) =>
            client.setNotificationHandler({ 'notifications/message': types.LoggingMessageNotificationSchema, 'notifications/tools/list_changed': types.ToolListChangedNotificationSchema }[method], handler),
        call: (client, params, options) => client.callTool(params, undefined, options),
    };
}

async function client() {
    const { Client, StreamableHTTPClientTransport, SSEClientTransport } = await import('@modelcontextprotocol/client');
    const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio');
    return {
        Client, StdioClientTransport, StreamableHTTPClientTransport, SSEClientTransport,
        options: modern ? { versionNegotiation: { mode: { pin: revision } } } : {},
        handle: (client, method, handler) => client.setRequestHandler(method, handler),
        hear: (client, method, handler) => client.setNotificationHandler(method, handler),
        call: (client, params, options) => client.callTool(params, options),
    };
}

const kit = which === 'sdk' ? await sdk() : await client();
const capabilities = { sampling: {}, roots: {}, ...(revision >= '2025-06-18' && { elicitation: { form: {} } }) };
const me = new kit.Client({ name: `sparring-oracle-${which}`, version: '0.1.0' }, { capabilities, ...kit.options });
const asked = [], logged = [];
kit.handle(me, 'sampling/createMessage', request => {
    asked.push(request.method);
    return { role: 'assistant', model: 'none', content: { type: 'text', text: 'sampled' }, stopReason: 'endTurn' };
});
kit.handle(me, 'roots/list', () => ({ roots: [{ uri: 'file:///tmp' }] }));
if (capabilities.elicitation) {
    kit.handle(me, 'elicitation/create', request => {
        asked.push(request.method);
        return { action: 'accept', content: { username: 'ada', email: 'ada@example.com', name: 'Ada' } };
    });
}
kit.hear(me, 'notifications/message', notification => { logged.push(notification.params.data); });
let transport;
if (target.transport === 'stdio') {
    const [command, ...args] = target.command;
    transport = new kit.StdioClientTransport({ command, args, stderr: 'pipe' });
} else {
    const Transport = target.transport === 'http' ? kit.StreamableHTTPClientTransport : kit.SSEClientTransport;
    transport = new Transport(new URL(target.url));
}
await me.connect(transport);

const did = [];
const step = async (name, operation) => {
    try {
        await operation();
        did.push(name);
    } catch (error) {
        error.message = `${name}: ${error.message}`;
        throw error;
    }
};
const text = result => result.content.map(block => block.text).join('');

await step('version', async () => {
    const version = me.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? transport._protocolVersion;
    if (version !== undefined) assert.equal(version, revision);
    assert.equal(me.getServerVersion().name, 'sparring-mock');
    assert.equal(me.getInstructions(), 'Everything here is for tests.');
});
if (!modern) await step('ping', () => me.ping());
await step('tools', async () => {
    const { tools } = await me.listTools();
    assert.ok(tools.some(tool => tool.name === 'test_simple_text'));
});
await step('call', async () => {
    assert.equal(text(await kit.call(me, { name: 'test_simple_text', arguments: {} })), 'This is a simple text response for testing.');
});
await step('image', async () => {
    const { content: [image] } = await kit.call(me, { name: 'test_image_content', arguments: {} });
    assert.equal(Buffer.from(image.data, 'base64').subarray(1, 4).toString(), 'PNG');
});
if (revision >= '2025-03-26') {
    await step('audio', async () => {
        const { content: [audio] } = await kit.call(me, { name: 'test_audio_content', arguments: {} });
        assert.equal(audio.mimeType, 'audio/wav');
    });
}
await step('failing tool', async () => {
    assert.equal((await kit.call(me, { name: 'test_error_handling', arguments: {} })).isError, true);
});
await step('unknown tool', () => assert.rejects(kit.call(me, { name: 'no-such-tool', arguments: {} })));
await step('progress', async () => {
    const seen = [];
    await kit.call(me, { name: 'test_tool_with_progress', arguments: {} }, { onprogress: ({ progress }) => seen.push(progress) });
    assert.ok(seen.length >= 2 && seen.every((value, index) => index === 0 || value > seen[index - 1]), `progress ${seen}`);
});
if (!modern) {
    await step('logging', async () => {
        await me.setLoggingLevel('debug');
        await kit.call(me, { name: 'test_tool_with_logging', arguments: {} });
        assert.deepEqual(logged, ['Tool execution started', 'Tool processing data', 'Tool execution completed']);
    });
    await step('sampling', async () => {
        await kit.call(me, { name: 'test_sampling', arguments: { prompt: 'Test prompt for sampling' } });
        assert.deepEqual(asked.splice(0), ['sampling/createMessage']);
    });
    if (capabilities.elicitation) {
        await step('elicitation', async () => {
            await kit.call(me, { name: 'test_elicitation', arguments: { message: 'Please provide your information' } });
            assert.deepEqual(asked.splice(0), ['elicitation/create']);
        });
    }
} else {
    await step('input required', async () => {
        assert.equal(text(await kit.call(me, { name: 'test_input_required_result_elicitation', arguments: {} })), 'Hello, Ada!');
        assert.deepEqual(asked.splice(0), ['elicitation/create']);
    });
}
await step('resources', async () => {
    const { resources } = await me.listResources();
    assert.ok(resources.some(resource => resource.uri === 'test://static-text'));
    const { resourceTemplates } = await me.listResourceTemplates();
    assert.equal(resourceTemplates[0].uriTemplate, 'test://template/{id}/data');
    const { contents: [static_] } = await me.readResource({ uri: 'test://static-text' });
    assert.equal(static_.text, 'This is the content of the static text resource.');
    const { contents: [binary] } = await me.readResource({ uri: 'test://static-binary' });
    assert.equal(Buffer.from(binary.blob, 'base64').subarray(1, 4).toString(), 'PNG');
    await assert.rejects(me.readResource({ uri: 'test://nowhere' }));
});
if (!modern) {
    await step('subscriptions', async () => {
        await me.subscribeResource({ uri: 'test://watched-resource' });
        await me.unsubscribeResource({ uri: 'test://watched-resource' });
    });
}
await step('prompts', async () => {
    const { prompts } = await me.listPrompts();
    assert.ok(prompts.some(prompt => prompt.name === 'test_simple_prompt'));
    const { messages: [message] } = await me.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'hello', arg2: 'world' } });
    assert.equal(message.content.text, "Prompt with arguments: arg1='hello', arg2='world'");
});
if (revision >= '2025-03-26') {
    await step('completion', async () => {
        const { completion } = await me.complete({ ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' }, argument: { name: 'arg1', value: 'par' } });
        assert.ok(completion.values.every(value => value.startsWith('par')));
    });
}
await step('close', async () => {
    await transport.terminateSession?.();
    await me.close();
});
console.log(`${did.length} things: ${did.join(', ')}`);
process.exit(0);
