// What the runs of the official conformance framework share: where things are, how they are installed, and how the
// framework's answers are read.
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
export const tree = join(here, '..');
export const work = process.env.SPARRING_ORACLES ?? join(tree, 'target', 'oracles');

// The two versions, by the folders of their packages.
export const RELEASE = '@modelcontextprotocol/conformance';
export const PRERELEASE = 'conformance-next';

// Installs the packages that the lock file pins; ends with 77 where that can't be done.
export function install() {
    const folder = join(work, 'node');
    mkdirSync(folder, { recursive: true });
    for (const name of ['package.json', 'package-lock.json']) copyFileSync(join(here, name), join(folder, name));
    const npm = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--silent'], { cwd: folder, stdio: 'inherit' });
    if (npm.status !== 0) {
        console.log('the packages could not be installed');
        process.exit(77);
    }
    const modules = join(folder, 'node_modules');
    // The framework wants a newer Node than most machines have.
    const node = join(modules, '.bin', 'node');
    const framework = name => ({
        program: join(modules, name, 'dist', 'index.js'),
        version: JSON.parse(readFileSync(join(modules, name, 'package.json'), 'utf8')).version
    });
    return { node, framework };
}

// The scenarios that a version has, `side` being `--server` or `--client`, with the revisions of each.
export function listed(node, program, side) {
    const list = spawnSync(node, [program, 'list', side], { encoding: 'utf8' }).stdout;
    return [...list.matchAll(/^\s+- (\S+) \[([^\]]*)\]/gm)].map(([, name, revisions]) => ({ name, revisions: revisions.split(',') }));
}

// What the framework wrote about a scenario: files named checks.json, somewhere below the folder.
export function checksIn(folder) {
    return readdirSync(folder, { recursive: true }).filter(name => name.endsWith('checks.json')).flatMap(name => JSON.parse(readFileSync(join(folder, name), 'utf8')));
}

// Those that did not pass. A warning counts: a SHOULD is to be kept too.
export function failed(checks) {
    return checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING');
}

export function passed(checks) {
    return checks.filter(({ status }) => status === 'SUCCESS').length;
}

export function told({ id, name, status, description, errorMessage, details }) {
    return `    ${status} ${id} (${name}): ${errorMessage ?? description} ${JSON.stringify(details ?? {}).slice(0, 600)}`;
}
