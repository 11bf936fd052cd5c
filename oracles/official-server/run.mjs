#!/usr/bin/env node
// The server scenarios of the official conformance framework against our mock servers.
//
//   oracles/official-server/run.mjs [SCENARIO…]
//
// Exit code 0 if no check of any scenario failed. A warning of the framework counts as a failure too: the mock is to be
// what a SHOULD asks for.
import { spawn, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const tree = join(here, '..', '..');
const work = process.env.SPARRING_ORACLES ?? join(tree, 'target', 'oracles');
const sparring = process.env.SPARRING ?? join(tree, 'target', 'release', 'sparring');
const script = name => join(tree, 'scenarios', 'scripts', name);

// What is not run, and why.
const LEFT_OUT = {
    'sep-2640-skills-directory': 'skills are no part of a released revision',
    'sep-2640-skills-enumeration': 'skills are no part of a released revision',
    'sep-2640-skills-manifest': 'skills are no part of a released revision',
    // It names 2025-03-26 in the header of requests after a handshake of 2025-11-25, which a server has to refuse; the
    // prerelease names the right one.
    '0.1.16 server-sse-polling': 'this release sends the version header of another revision',
    '0.1.16 server-sse-multiple-streams': 'this release sends the version header of another revision'
};

const RUNS = [
    { framework: '@modelcontextprotocol/conformance', revision: '2025-06-18', script: script('official-server.yaml') },
    { framework: '@modelcontextprotocol/conformance', revision: '2025-11-25', script: script('official-server.yaml') },
    { framework: 'conformance-next', revision: '2025-03-26', script: script('official-server.yaml') },
    { framework: 'conformance-next', revision: '2025-06-18', script: script('official-server.yaml') },
    { framework: 'conformance-next', revision: '2025-11-25', script: script('official-server.yaml') },
    { framework: 'conformance-next', revision: '2026-07-28', script: script('official-server-2026.yaml') }
];

function install() {
    const folder = join(work, 'node');
    mkdirSync(folder, { recursive: true });
    for (const name of ['package.json', 'package-lock.json']) copyFileSync(join(here, '..', name), join(folder, name));
    const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--silent'], { cwd: folder, stdio: 'inherit' });
    if (npm.status !== 0) {
        console.log('the packages could not be installed');
        process.exit(77);
    }
    return folder;
}

async function serve({ script, revision }) {
    const server = spawn(sparring, ['serve', 'http', '--script', script, '--revision', revision], { stdio: ['ignore', 'pipe', 'inherit'] });
    for await (const line of createInterface({ input: server.stdout })) return { server, url: JSON.parse(line).url };
    throw new Error(`sparring serve ended before it was ready, for ${script}`);
}

// The scenarios that a version of the framework has for a revision; extensions go with the newest.
function listed(node, program, { framework, revision }) {
    const list = spawnSync(node, [program, 'list', '--server'], { encoding: 'utf8' }).stdout;
    const found = [...list.matchAll(/^\s+- (\S+) \[([^\]]*)\]/gm)].map(([, name, revisions]) => [name, revisions.split(',')]);
    const wanted = framework === 'conformance-next' && revision >= '2026-07-28' ? [revision, 'extension'] : [revision];
    return found.filter(([, revisions]) => revisions.some(each => wanted.includes(each))).map(([name]) => name);
}

// What the framework wrote about a scenario: files named checks.json, somewhere below the folder.
function checksIn(folder) {
    return readdirSync(folder, { recursive: true }).filter(name => name.endsWith('checks.json')).flatMap(name => JSON.parse(readFileSync(join(folder, name), 'utf8')));
}

const chosen = process.argv.slice(2);
const modules = join(install(), 'node_modules');
const node = join(modules, '.bin', 'node');
let passed = 0, failed = 0, checksPassed = 0;
for (const run of RUNS) {
    const program = join(modules, run.framework, 'dist', 'index.js');
    const { version } = JSON.parse(readFileSync(join(modules, run.framework, 'package.json'), 'utf8'));
    const { server, url } = await serve(run);
    for (const name of listed(node, program, run)) {
        if (chosen.length > 0 && !chosen.includes(name)) continue;
        const why = LEFT_OUT[name] ?? LEFT_OUT[`${version} ${name}`];
        if (why) {
            console.log(`${version} ${run.revision} ${name}: skipped, ${why}`);
            continue;
        }
        const results = join(work, 'official-server', `${version}-${run.revision}-${name}`);
        rmSync(results, { recursive: true, force: true });
        mkdirSync(results, { recursive: true });
        const options = run.framework === 'conformance-next' ? ['--spec-version', run.revision, '--force'] : [];
        const done = spawnSync(node, [program, 'server', '--url', url, '--scenario', name, '-o', results, ...options], { encoding: 'utf8' });
        const checks = checksIn(results);
        if (checks.length > 0 && checks.every(({ status }) => status === 'SKIPPED' || status === 'INFO')) {
            console.log(`${version} ${run.revision} ${name}: skipped by the framework, ${checks[0].description}`);
            continue;
        }
        const bad = checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING');
        const good = checks.filter(({ status }) => status === 'SUCCESS').length;
        const ok = bad.length === 0 && good > 0 && done.status === 0;
        ok ? passed++ : failed++;
        checksPassed += good;
        console.log(`${version} ${run.revision} ${name}: ${ok ? `${good} checks` : 'FAILED'}`);
        for (const { id, status, description, errorMessage, details } of bad) {
            console.log(`    ${status} ${id}: ${errorMessage ?? description} ${JSON.stringify(details ?? {}).slice(0, 600)}`);
        }
        if (!ok && bad.length === 0) console.log(`    exit code ${done.status}, ${checks.length} checks\n${done.stdout}${done.stderr}`);
    }
    server.kill('SIGTERM');
}
console.log(`${passed} passed, ${failed} failed (${checksPassed} checks)`);
process.exit(failed > 0 ? 1 : passed > 0 ? 0 : 77);
