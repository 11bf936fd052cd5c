#!/usr/bin/env python3
"""Clients of other people, each with our mock servers, in every revision and over every transport that both have.

    oracles/sdk-clients/run.py [NAME…]

Installs the clients below `target/oracles` and runs each (TypeScript needs Node, Rust cargo). The program `sparring` is
that of `target/release`, or what SPARRING names. Exit code 0 if every client did everything, 77 if none could run.
"""
import json, os, pathlib, shutil, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[1]
WORK = pathlib.Path(os.environ.get("SPARRING_ORACLES", TREE / "target" / "oracles"))
SPARRING = os.environ.get("SPARRING", str(TREE / "target" / "release" / "sparring"))
HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
SCRIPT, MODERN_SCRIPT = TREE / "scenarios/scripts/official-server.yaml", TREE / "scenarios/scripts/official-server-2026.yaml"
LIMIT = 120  # seconds for one client: an end to what hangs, and no measure of anything


def transports(revision, sse):
    """What a revision has: HTTP+SSE in the first, Streamable HTTP later."""
    return ["stdio"] + (["http"] if revision != HANDSHAKE[0] else ["sse"] if sse else [])


class Missing(Exception):
    pass


def npm(folder, source, *how):
    if not shutil.which("node") or not shutil.which("npm"):
        raise Missing("there is no Node")
    folder.mkdir(parents=True, exist_ok=True)
    for file in source.glob("package*.json"):
        shutil.copy(file, folder)
    subprocess.run(["npm", *how, "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)
    return folder


def install_node():
    folder = npm(WORK / "node", HERE.parent, "ci")
    # Programs find their packages from where they stand.
    shutil.copy(HERE / "typescript.mjs", folder)
    return folder


def install_inspector():
    # It names an optional package that does not exist, so there can't be a lock file that `npm ci` takes.
    return npm(WORK / "inspector", HERE.parent / "inspector", "install", "--no-package-lock")


def typescript(which):
    def prepare():
        folder = install_node()
        return [str(folder / "node_modules/.bin/node"), str(folder / "typescript.mjs"), which]
    return prepare


def python():
    venv = WORK / "python"
    if not (venv / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", TREE / "adapters/python/requirements.txt"]
    subprocess.run(pip, check=True)
    return [str(venv / "bin/python"), str(HERE / "python_client.py")]


def rust():
    if not shutil.which("cargo"):
        raise Missing("there is no cargo")
    build = ["cargo", "build", "--quiet", "--locked", "--manifest-path", TREE / "adapters/rust/Cargo.toml", "--target-dir", WORK / "rust"]
    subprocess.run([*build, "--bin", "everything"], check=True)
    return [str(WORK / "rust/debug/everything")]


CLIENTS = {  # how to get it, revisions, whether it has HTTP+SSE
    "typescript-sdk": (typescript("sdk"), HANDSHAKE, True),
    "typescript-client": (typescript("client"), [*HANDSHAKE, MODERN], True),
    "python-sdk": (python, [*HANDSHAKE, MODERN], True),
    "rmcp": (rust, [*HANDSHAKE, MODERN], False),
}


def script_for(revision):
    return MODERN_SCRIPT if revision == MODERN else SCRIPT


def serve(transport, revision):
    """A running server, and where it is."""
    command = [SPARRING, "serve", transport, "--script", str(script_for(revision)), "--revision", revision]
    if transport == "stdio":
        return None, {"transport": "stdio", "command": command}
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    ready = json.loads(server.stdout.readline())
    return server, {"transport": transport, "url": ready["url"]}


def run(client, transport, revision):
    server, target = serve(transport, revision)
    try:
        done = subprocess.run([*client, revision, json.dumps(target)], capture_output=True, text=True, timeout=LIMIT)
        return (done.returncode == 0, done.stdout.strip() if done.returncode == 0 else done.stdout + done.stderr)
    except subprocess.TimeoutExpired as error:
        return False, f"still running after {LIMIT} s\n{(error.stderr or b'').decode(errors='replace')}"
    finally:
        if server:
            server.terminate()
            if server.wait() != 0:
                print(f"  `sparring serve {transport}` ended with {server.returncode}")


def inspector(folder, transport, revision):
    """The Inspector's command line: one process for each thing."""
    server, target = serve(transport, revision)
    where = target["command"] if transport == "stdio" else [target["url"], "--transport", transport]
    cli = [str(folder / "node_modules/.bin/node"), str(folder / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"), "--cli"]
    things = {
        "tools/list": ([], "test_simple_text"),
        "tools/call": (["--tool-name", "test_simple_text"], "This is a simple text response for testing."),
        "resources/list": ([], "test://static-text"),
        "resources/read": (["--uri", "test://static-text"], "This is the content of the static text resource."),
        "resources/templates/list": ([], "test://template/{id}/data"),
        "prompts/list": ([], "test_simple_prompt"),
        "prompts/get": (["--prompt-name", "test_simple_prompt"], "This is a simple prompt for testing."),
    }
    try:
        for method, (options, wanted) in things.items():
            # Its own options come after what it takes for the server's command line.
            command = [*cli, *where, "--method", method, *options]
            done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
            if done.returncode != 0 or wanted not in done.stdout:
                return False, f"{method}: {done.stdout}{done.stderr}"
        return True, f"{len(things)} things: {', '.join(things)}"
    finally:
        if server:
            server.terminate()
            server.wait()


def reachable():
    """Whether the registry answers: then it is a failure that something could not be installed."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "index", "versions", "mcp"]
    return subprocess.run(pip, capture_output=True).returncode == 0


def main():
    wanted = sys.argv[1:] or [*CLIENTS, "inspector"]
    unknown = set(wanted) - {*CLIENTS, "inspector"}
    if unknown:
        sys.exit(f"no client {', '.join(sorted(unknown))}; there are {', '.join([*CLIENTS, 'inspector'])}")
    passed = failed = 0
    for name in wanted:
        try:
            if name == "inspector":
                folder = install_inspector()
                runs = [(t, r, lambda t=t, r=r: inspector(folder, t, r)) for r in HANDSHAKE for t in transports(r, True)]
            else:
                prepare, revisions, sse = CLIENTS[name]
                client = prepare()
                runs = [(t, r, lambda t=t, r=r: run(client, t, r)) for r in revisions for t in transports(r, sse)]
        except (Missing, subprocess.CalledProcessError) as missing:
            if isinstance(missing, subprocess.CalledProcessError) and reachable():
                raise
            print(f"{name}: skipped, {missing}")
            continue
        for transport, revision, operation in runs:
            ok, said = operation()
            passed, failed = passed + ok, failed + (not ok)
            print(f"{name} {revision} {transport}: {said if ok else 'FAILED'}", flush=True)
            if not ok:
                print("    " + said.replace("\n", "\n    "))
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0 if passed else 77)


main()
