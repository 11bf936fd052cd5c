#!/usr/bin/env node
// The server scenarios of the official conformance framework against our mock servers.
//
//   oracles/official-server/run.mjs [SCENARIO…]
//
// Exit code 0 if no check of any scenario failed. A warning of the framework counts as a failure too: the mock is to be
// what a SHOULD asks for.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { PRERELEASE, RELEASE, checksIn, failed, install, listed, passed, told, tree, work } from '../framework.mjs';

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
    { framework: RELEASE, revision: '2025-06-18', script: script('official-server.yaml') },
    { framework: RELEASE, revision: '2025-11-25', script: script('official-server.yaml') },
    { framework: PRERELEASE, revision: '2025-03-26', script: script('official-server.yaml') },
    { framework: PRERELEASE, revision: '2025-06-18', script: script('official-server.yaml') },
    { framework: PRERELEASE, revision: '2025-11-25', script: script('official-server.yaml') },
    { framework: PRERELEASE, revision: '2026-07-28', script: script('official-server-2026.yaml') }
];

async function serve({ script, revision }) {
    const server = spawn(sparring, ['serve', 'http', '--script', script, '--revision', revision], { stdio: ['ignore', 'pipe', 'inherit'] });
    for await (const line of createInterface({ input: server.stdout })) return { server, url: JSON.parse(line).url };
    throw new Error(`sparring serve ended before it was ready, for ${script}`);
}

// The scenarios that a version of the framework has for a revision; extensions go with the newest.
function wanted(node, program, { framework, revision }) {
    const those = framework === PRERELEASE && revision >= '2026-07-28' ? [revision, 'extension'] : [revision];
    return listed(node, program, '--server').filter(({ revisions }) => revisions.some(each => those.includes(each))).map(({ name }) => name);
}

const chosen = process.argv.slice(2);
const { node, framework } = install();
let good = 0, bad = 0, checksPassed = 0;
for (const run of RUNS) {
    const { program, version } = framework(run.framework);
    const { server, url } = await serve(run);
    for (const name of wanted(node, program, run)) {
        if (chosen.length > 0 && !chosen.includes(name)) continue;
        const why = LEFT_OUT[name] ?? LEFT_OUT[`${version} ${name}`];
        if (why) {
            console.log(`${version} ${run.revision} ${name}: skipped, ${why}`);
            continue;
        }
        const results = join(work, 'official-server', `${version}-${run.revision}-${name}`);
        rmSync(results, { recursive: true, force: true });
        mkdirSync(results, { recursive: true });
        const options = run.framework === PRERELEASE ? ['--spec-version', run.revision, '--force'] : [];
        const done = spawnSync(node, [program, 'server', '--url', url, '--scenario', name, '-o', results, ...options], { encoding: 'utf8' });
        const checks = checksIn(results);
        if (checks.length > 0 && checks.every(({ status }) => status === 'SKIPPED' || status === 'INFO')) {
            console.log(`${version} ${run.revision} ${name}: skipped by the framework, ${checks[0].description}`);
            continue;
        }
        const missed = failed(checks), kept = passed(checks);
        const ok = missed.length === 0 && kept > 0 && done.status === 0;
        ok ? good++ : bad++;
        checksPassed += kept;
        console.log(`${version} ${run.revision} ${name}: ${ok ? `${kept} checks` : 'FAILED'}`);
        for (const check of missed) console.log(told(check));
        if (!ok && missed.length === 0) console.log(`    exit code ${done.status}, ${checks.length} checks\n${done.stdout}${done.stderr}`);
    }
    server.kill('SIGTERM');
}
console.log(`${good} passed, ${bad} failed (${checksPassed} checks)`);
process.exit(bad > 0 ? 1 : good > 0 ? 0 : 77);
