// Puts the client of the TypeScript SDK (npm `@modelcontextprotocol/sdk`) under Sparring's driver protocol.
// See docs/driver-protocol.md. The SDK's defaults are left alone: what is judged is the SDK, not this file.
import { readFileSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport, StreamableHTTPError } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { OAuthError } from '@modelcontextprotocol/sdk/server/auth/errors.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

const { name, version } = JSON.parse(readFileSync(new URL('node_modules/@modelcontextprotocol/sdk/package.json', import.meta.url)));
const HELLO = {
    name, version, transports: ['stdio', 'http', 'sse-legacy'], revisions: ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'],
    features: ['sampling', 'elicitation', 'roots', 'oauth', 'progress', 'notifications', 'several-servers', 'call-timeout', 'headers']
};
// Nothing listens here: the harness hands the redirect over. Below the ephemeral ports, so that no mock gets it either.
const REDIRECT_URI = 'http://127.0.0.1:17817/callback';
const sessions = new Map(); // by server name
const running = new Map(); // AbortController by step
const redirects = []; // authorizations that wait for their redirect
let roots = [];
console.log = console.error; // stdout is the driver protocol's
const write = message => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
const event = (name, data) => write({ method: 'event', params: { name, data } });
const failed = (kind, message, code) => Object.assign(new Error(message), { failed: { kind, code } });

// What the SDK leaves to its user in OAuth: keeping things, and taking the redirect.
class Authorization {
    redirectUrl = REDIRECT_URI;
    clientMetadata = {
        client_name: 'sparring-adapter', redirect_uris: [REDIRECT_URI], response_types: ['code'],
        grant_types: ['authorization_code', 'refresh_token'], token_endpoint_auth_method: 'none'
    };
    constructor({ client_id, client_secret = undefined }) { this.client = this.registered = client_id && { client_id, client_secret }; }
    // The SDK asks for saved discovery first thing, so this tells that it is authorizing. None is ever saved.
    discoveryState() { this.busy = true; }
    state() { return (this.expected = crypto.randomUUID()); }
    clientInformation() { return this.client; }
    saveClientInformation(client) { this.client = client; }
    tokens() { return this.saved; }
    saveTokens(tokens) { this.saved = tokens; this.busy = false; }
    saveCodeVerifier(verifier) { this.verifier = verifier; }
    codeVerifier() { return this.verifier; }
    invalidateCredentials(scope) { this.saved = undefined; if (scope === 'all') this.client = this.registered; }
    redirectToAuthorization(url) {
        this.redirected = new Promise(resolve => redirects.push({ state: this.expected, resolve }));
        event('authorization-url', { url: String(url) });
    }
    async finish(transport) {
        const { state, code, error } = Object.fromEntries(new URL(await this.redirected).searchParams);
        this.redirected = undefined;
        if (state !== this.expected || error || !code) throw failed('auth', `the redirect: ${error ?? 'not what was expected'}`);
        await transport.finishAuth(code);
    }
}

// Does something with the SDK. When it wants authorization, finishes that and tries again, as the SDK's documentation says.
async function attempt(session, operation, options = {}, rounds = 2) {
    try {
        return await operation(session.client);
    } catch (error) {
        const { auth, transport } = session;
        if (!(error instanceof UnauthorizedError) || !auth?.redirected || rounds === 0) throw failure(error, auth, options);
        await auth.finish(transport).catch(error => { throw failure(error, auth); });
        return attempt(session, operation, options, rounds - 1);
    }
}
function failure(error, auth, { opening, signal } = {}) {
    if (error.failed) return error;
    const { name, message = String(error) } = error;
    const is = (kind, code) => failed(kind, message, code);
    if (signal?.aborted) return is('cancelled');
    if (error instanceof UnauthorizedError || error instanceof OAuthError) return is('auth');
    if (error instanceof StreamableHTTPError && !(error.code > 0)) return is('invalid'); // the content type
    if (error instanceof StreamableHTTPError) return is(auth && [401, 403].includes(error.code) ? 'auth' : 'http', error.code);
    if (error instanceof types.McpError) { // of the server, or the SDK's own, told apart by words and data only
        if (error.code === -32001 && (error.data?.timeout ?? error.data?.maxTotalTimeout) !== undefined) return is('timeout', -32001);
        if (message === 'MCP error -32000: Connection closed') return is('closed');
        if (/has an output schema but did not|Structured content does not match|Failed to validate struct/.test(message)) return is('invalid');
        return is('protocol', error.code);
    }
    if (auth?.busy) return (auth.busy = false, is('auth'));
    if (/ZodError$|SyntaxError/.test(name) || /protocol version is not supported|invalid initialize/.test(message)) return is('invalid');
    if (error.syscall?.startsWith('spawn')) return is('start');
    if (message === 'fetch failed' || message === 'Not connected' || name === 'AbortError') return is(opening ? 'start' : 'closed');
    return is(/does not support/.test(message) ? 'refused' : 'other');
}

async function connect(name, target, params) {
    const { sampling, elicitation, headers = {}, timeout_ms: timeout } = params;
    if (sessions.has(name)) await disconnect(sessions.get(name));
    const session = { name };
    if (target.transport !== 'stdio' && !new Headers(headers).has('authorization')) session.auth = new Authorization(params);
    const capabilities = { ...(sampling && { sampling: {} }), ...(elicitation && { elicitation: { form: {}, url: {} } }) };
    if (params.roots) capabilities.roots = { listChanged: true };
    await attempt(session, async () => {
        const client = session.client = new Client({ name: 'sparring-adapter-typescript', version: '0.1.0' }, { capabilities });
        if (capabilities.sampling) client.setRequestHandler(types.CreateMessageRequestSchema, () => sampling);
        if (capabilities.elicitation) client.setRequestHandler(types.ElicitRequestSchema, () => elicitation);
        if (capabilities.roots) client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: roots.map(uri => ({ uri })) }));
        client.fallbackNotificationHandler = async ({ method, params = {} }) => event('notification', { server: name, method, params });
        client.onerror = error => event('log', { text: `${name}: ${error}` });
        const Http = target.transport === 'http' ? StreamableHTTPClientTransport : SSEClientTransport;
        session.transport = target.transport === 'stdio'
            ? new StdioClientTransport({ command: target.command, args: target.args, env: target.env })
            : new Http(new URL(target.url), { authProvider: session.auth, requestInit: { headers } });
        // The SDK tells the negotiated version to transports that want to know.
        session.transport.setProtocolVersion ??= version => { session.version = version; };
        await client.connect(session.transport, { timeout });
    }, { opening: true });
    sessions.set(name, session);
    const { client, transport: { protocolVersion = session.version } } = session;
    const [serverInfo, instructions] = [client.getServerVersion(), client.getInstructions()];
    return { ok: true, protocolVersion, serverInfo, instructions, capabilities: client.getServerCapabilities() };
}
async function disconnect({ name, client, transport }) {
    sessions.delete(name); // and then end the HTTP session, which is the SDK user's to ask for
    await transport.terminateSession?.().catch(error => event('log', { text: `${name}: ${error}` }));
    await client.close();
}

function chosen({ server }) {
    const found = [...sessions.values()].filter(({ name }) => server === undefined || server === name);
    if (found.length > 0) return found;
    throw failed('refused', 'no such server is open');
}
const one = operation => async params => attempt(chosen(params)[0], client => operation(client, params));
const all = (method, key, map = item => item) => async params => {
    const items = [];
    for (const session of chosen(params)) {
        let [cursor, pages] = [undefined, 0];
        do { // the SDK leaves this loop to its user, and so its end
            if (++pages > 1000) throw failed('refused', 'the adapter reads 1000 pages and no more');
            const page = await attempt(session, client => client[method](cursor === undefined ? undefined : { cursor }));
            items.push(...page[key].map(item => ({ ...map(item), server: session.name })));
            cursor = page.nextCursor;
        } while (cursor !== undefined); // an empty string is a cursor
    }
    return { [key]: items };
};
const operations = {
    async open(params) {
        roots = params.roots ?? [];
        const servers = Object.entries(params.servers);
        const ends = await Promise.allSettled(servers.map(([name, target]) => connect(name, target, params)));
        if (servers.length > 0 && ends.every(end => end.reason)) throw ends[0].reason;
        const results = ends.map(({ value, reason }) => value ?? { ok: false, error: { message: reason.message, ...reason.failed } });
        return { servers: Object.fromEntries(servers.map(([name], index) => [name, results[index]])) };
    },
    tools: all('listTools', 'tools', ({ name, title, description, inputSchema, outputSchema }) =>
        ({ name, rawName: name, title, description, inputSchema, outputSchema })),
    async call(params) {
        const { step, tool: name, timeout_ms: timeout } = params;
        const controller = new AbortController();
        const options = { signal: controller.signal, timeout };
        if (params.progress) options.onprogress = ({ progress, total, message }) => event('progress', { step, progress, total, message });
        const [session] = chosen(params);
        running.set(step, controller);
        const call = client => client.callTool({ name, arguments: params.arguments }, undefined, options);
        return attempt(session, call, options).finally(() => running.delete(step));
    },
    async bench({ tool: name, arguments: given, calls, ...params }) { // how long each call took, in nanoseconds
        const [{ client }] = chosen(params), ns = [];
        for (let start; ns.length < calls; ns.push(Number(process.hrtime.bigint() - start))) {
            start = process.hrtime.bigint();
            await client.callTool({ name, arguments: given });
        }
        return { ns };
    },
    async cancel({ step, reason }) {
        if (!running.has(step)) throw failed('refused', `no call runs as ${step}`);
        running.get(step).abort(reason);
    },
    resources: all('listResources', 'resources'),
    templates: all('listResourceTemplates', 'resourceTemplates'),
    prompts: all('listPrompts', 'prompts'),
    read: one((client, { uri }) => client.readResource({ uri })),
    subscribe: one((client, { uri }) => client.subscribeResource({ uri })),
    unsubscribe: one((client, { uri }) => client.unsubscribeResource({ uri })),
    prompt: one((client, params) => client.getPrompt({ name: params.name, arguments: params.arguments })),
    complete: one((client, { prompt, template, argument: name, value }) => client.complete({
        ref: prompt !== undefined ? { type: 'ref/prompt', name: prompt } : { type: 'ref/resource', uri: template }, argument: { name, value }
    })),
    ping: one(client => client.ping()),
    set_level: one((client, { level }) => client.setLoggingLevel(level)),
    async set_roots(params) {
        ({ roots } = params);
        await Promise.all(chosen({}).map(session => attempt(session, client => client.sendRootsListChanged())));
    },
    close: async params => { if (sessions.size > 0) await Promise.all(chosen(params).map(disconnect)); }
};

async function take({ id, method, params: given }) {
    const params = Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== null)); // null is as good as absent
    if (method === 'redirect') {
        const index = Math.max(redirects.findIndex(({ state }) => params.url.includes(state)), 0);
        return redirects.splice(index, 1)[0]?.resolve(params.url);
    }
    if (method === 'hello') return write({ id, result: { ...HELLO, operations: Object.keys(operations).filter(name => name !== 'bench') } });
    if (!Object.hasOwn(operations, method)) return write({ id, error: { code: -32601, message: `no operation ${method}` } });
    const fail = ({ message, failed }) => write({ id, error: { code: 1, message, data: failed } });
    await operations[method](params).then(result => write({ id, result: result ?? {} }), error => fail(failure(error)));
}
let rest = ''; // not `readline`, which also splits at U+2028, allowed within JSON
process.stdin.setEncoding('utf8').on('data', chunk => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    for (const line of lines) take(JSON.parse(line));
}).on('end', () => Promise.allSettled([...sessions.values()].map(disconnect)).then(() => process.exit(0)));
