#!/usr/bin/env node
// The client scenarios of the official conformance framework against the reference client.
//
//   oracles/official-client/run.mjs [SCENARIO…]
//
// Every scenario of both versions, at every revision that it is listed for, extensions included. Exit code 0 if no check
// failed or warned but those that are listed below, each with its reason; an entry that is not needed any more is an
// error as well.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { PRERELEASE, RELEASE, checksIn, failed, install, listed, passed, told, tree, work } from '../framework.mjs';

const client = process.env.SPARRING_CLIENT ?? join(tree, 'target', 'release', 'sparring-client');

// Two at a time: the framework's mocks and timeouts are made for a machine that has time.
const AT_ONCE = 2;

const STATELESS = '2026-07-28';

// Where the framework is wrong: `VERSION REVISION SCENARIO` (or without the revision) to the ids of the checks that fail
// for it, why, and the sentence of the specification that says so.
const EXPECTED = {
};

if (!existsSync(client)) {
    console.log(`there is no ${client}: cargo build --release -p sparring-client-cli`);
    process.exit(1);
}

function run(words, options) {
    return new Promise(resolve => {
        const child = spawn(words[0], words.slice(1), { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
        let output = '';
        for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (output += text));
        child.on('close', (code, signal) => resolve({ code: code ?? signal, output }));
        child.on('error', error => resolve({ code: error.message, output }));
    });
}

// One scenario at one revision.
async function measure(node, { program, version, name, revision, force }) {
    const results = join(work, 'official-client', `${version}-${revision}-${name.replaceAll('/', '.')}`);
    rmSync(results, { recursive: true, force: true });
    mkdirSync(results, { recursive: true });
    // Extensions have no revision of their own.
    const at = revision === 'extension' ? [] : ['--spec-version', revision, ...(force ? ['--force'] : [])];
    // A shell reads the command.
    const command = `'${client.replaceAll("'", "'\\''")}' official`;
    const done = await run([node, program, 'client', '--command', command, '--scenario', name, '-o', results, ...at]);
    const checks = checksIn(results), missed = failed(checks), kept = passed(checks);
    const excuse = EXPECTED[`${version} ${revision} ${name}`] ?? EXPECTED[`${version} ${name}`];
    const real = missed.filter(({ id }) => !excuse?.checks.includes(id));
    const stale = excuse?.checks.filter(id => !missed.some(check => check.id === id)) ?? [];
    const problems = real.map(told);
    if (stale.length > 0) problems.push(`    ${stale.join(', ')} pass: take them off the list of what is expected to fail`);
    // Nothing checked, a client that failed, a timeout: whatever else keeps the framework from being content.
    if (problems.length === 0 && (kept === 0 || (missed.length === 0 && done.code !== 0))) {
        problems.push(`    exit code ${done.code}, ${checks.length} checks\n${done.output}`);
    }
    return { version, name, revision, kept, excused: missed.length - real.length, problems, output: done.output };
}

const chosen = process.argv.slice(2);
const { node, framework } = install();
const newest = framework(PRERELEASE).version;
const jobs = [RELEASE, PRERELEASE].map(framework).flatMap(({ program, version }) =>
    listed(node, program, '--client')
        .filter(({ name }) => chosen.length === 0 || chosen.includes(name))
        .flatMap(({ name, revisions }) => {
            const jobs = revisions.map(revision => ({ program, version, name, revision }));
            // The framework runs extensions at a revision with a handshake; in the stateless one they have to work too.
            const more = version === newest && revisions.includes('extension');
            return more ? [...jobs, { program, version, name, revision: STATELESS, force: true }] : jobs;
        })
);

const outcomes = new Array(jobs.length);
let next = 0;
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (next < jobs.length) {
        const mine = next++;
        outcomes[mine] = await measure(node, jobs[mine]);
    }
}));

// For each version a table: a row for each scenario, a column for each revision.
const distinct = list => [...new Set(list)];
for (const version of distinct(outcomes.map(each => each.version))) {
    const those = outcomes.filter(each => each.version === version);
    const revisions = distinct(those.map(({ revision }) => revision)).sort();
    const widest = Math.max(...those.map(({ name }) => name.length), version.length);
    const line = (first, cells) => console.log([first.padEnd(widest), ...cells.map(cell => cell.padStart(10))].join('  ').trimEnd());
    line(version, revisions);
    for (const name of distinct(those.map(each => each.name))) {
        line(name, revisions.map(revision => {
            const found = those.find(each => each.name === name && each.revision === revision);
            if (!found) return '';
            return found.problems.length > 0 ? 'FAILED' : found.excused > 0 ? `${found.kept} (-${found.excused})` : String(found.kept);
        }));
    }
    console.log();
}
console.log('A number is that of the checks that passed.');
const bad = outcomes.filter(({ problems }) => problems.length > 0);
for (const { version, revision, name, problems } of bad) {
    console.log(`\n${version} ${revision} ${name}: FAILED`);
    for (const problem of problems) console.log(problem);
}
const excused = outcomes.reduce((sum, each) => sum + each.excused, 0);
const kept = outcomes.reduce((sum, each) => sum + each.kept, 0);
const also = excused > 0 ? `, ${excused} failed for a fault of the framework` : '';
console.log(`\n${outcomes.length - bad.length} passed, ${bad.length} failed (${kept} checks${also})`);
process.exit(bad.length > 0 ? 1 : outcomes.length > 0 ? 0 : 77);
