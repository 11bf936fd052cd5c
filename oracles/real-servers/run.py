#!/usr/bin/env python3
"""The program `sparring-client` with servers that other people wrote, over stdio and HTTP.

    oracles/real-servers/run.py [NAME…]

Installs the servers below `target/oracles` (npm, pip, cargo; versions pinned beside this file) and uses each as a person
would: list, call, a call that fails, read, prompt, cancel, and a list that changes. The program is that of
`target/release`, or what SPARRING_CLIENT names. Exit code 0 if everything went well, 77 if no server could be had.
"""
import json, os, pathlib, shutil, signal, socket, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[1]
WORK = pathlib.Path(os.environ.get("SPARRING_ORACLES", TREE / "target" / "oracles")) / "real-servers"
CLIENT = os.environ.get("SPARRING_CLIENT", str(TREE / "target" / "release" / "sparring-client"))
LIMIT = 120  # seconds for one command: an end to what hangs, and no measure of anything


class Missing(Exception):
    pass


def needs(program):
    if not shutil.which(program):
        raise Missing(f"there is no {program}")


# ---- the servers ----

def npm(name):
    def prepare():
        needs("node"), needs("npm")
        folder = WORK / "npm"
        folder.mkdir(parents=True, exist_ok=True)
        for file in HERE.glob("package*.json"):
            shutil.copy(file, folder)
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)
        return [str(folder / "node_modules" / ".bin" / f"mcp-{name}")]
    return prepare


def fastmcp():
    if sys.version_info < (3, 10):
        raise Missing("this python3 is older than 3.10")
    venv = WORK / "python"
    if not (venv / "bin/python").exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    pip = [venv / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", HERE / "requirements.txt"]
    subprocess.run(pip, check=True)
    return [str(venv / "bin/python"), str(HERE / "fastmcp_server.py")]


def rmcp():
    needs("cargo")
    build = ["cargo", "build", "--quiet", "--locked", "--manifest-path", HERE / "rmcp/Cargo.toml", "--target-dir", WORK / "rust"]
    subprocess.run(build, check=True)
    return [str(WORK / "rust/debug/sparring-rmcp-server")]


# ---- using them ----

class Check:
    def __init__(self, label):
        self.label, self.passed, self.failures = label, 0, []

    def that(self, what, condition, seen=""):
        if condition:
            self.passed += 1
        else:
            self.failures.append(f"{self.label}: {what}: {seen}")


class Person:
    """Somebody with a configuration of their own."""

    def __init__(self, folder, label):
        self.folder, self.check = folder, Check(label)
        self.config = folder / "mcp.json"
        self.env = {**os.environ, "SPARRING_CLIENT_CONFIG": str(self.config), "XDG_STATE_HOME": str(folder / "state")}

    def run(self, *words, code=0):
        done = subprocess.run([CLIENT, *words], capture_output=True, text=True, timeout=LIMIT, env=self.env, stdin=subprocess.DEVNULL, cwd=self.folder)
        self.check.that(f"{' '.join(words)} ends with {code}", done.returncode == code, f"{done.returncode} {done.stdout}{done.stderr}")
        return done

    def says(self, expected, *words, code=0):
        done = self.run(*words, code=code)
        self.check.that(f"{' '.join(words)} says {expected!r}", expected in done.stdout + done.stderr, done.stdout + done.stderr)

    def json(self, *words):
        done = self.run(*words, "--json")
        try:
            return json.loads(done.stdout)
        except ValueError:
            self.check.that(f"{' '.join(words)} gives JSON", False, done.stdout + done.stderr)
            return None

    def has_tools(self, *names):
        status = self.json("status", "s")
        tools = {tool["name"] for tool in (status or [{}])[0].get("tools", [])}
        self.check.that(f"its tools are {', '.join(names)} at least", tools >= set(names), tools)
        composed = {tool["name"] for tool in self.json("tools") or []}
        self.check.that("composed names", composed >= {f"mcp__s__{name}" for name in names}, composed)

    def cancels(self, tool, *arguments, sign=None):
        """Interrupts a call under way: `sign` is what the server says then."""
        words = [CLIENT, "--verbose", "call", "s", tool, *arguments]
        call = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=self.env, stdin=subprocess.DEVNULL, cwd=self.folder)
        said = []
        # The first report of progress says that the call has arrived.
        for line in call.stdout:
            said.append(line)
            if " of " in line:
                break
        begun = time.monotonic()
        call.send_signal(signal.SIGINT)
        said += [call.communicate(timeout=LIMIT)[0]]
        said = "".join(said)
        self.check.that(f"an interrupted {tool} ends with 130", call.returncode == 130, f"{call.returncode} {said}")
        self.check.that(f"an interrupted {tool} ends at once", time.monotonic() - begun < 30)
        if sign:
            self.check.that("the server hears of it", sign in said, said)

    def follows(self, tool, target):
        """The list changes, and is read again."""
        program = os.environ.get("SPARRING_FOLLOW", str(TREE / "target/debug/examples/follow_changes"))
        if not pathlib.Path(program).exists():
            build = ["cargo", "build", "--quiet", "--locked", "-p", "sparring-client", "--example", "follow_changes"]
            subprocess.run(build, cwd=TREE, check=True)
        words = [program, tool, *target]
        done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, env=self.env, stdin=subprocess.DEVNULL, cwd=self.folder)
        changed = done.returncode == 0 and "4 tools before, 5 now" in done.stdout
        self.check.that("a list that changes is read again", changed, done.stdout + done.stderr)


def everything(person, _):
    person.has_tools("echo", "get-sum", "get-tiny-image", "trigger-long-running-operation")
    person.says("Echo: a b", "call", "s", "echo", "message=a b")
    person.says("The sum of 5 and 3 is 8", "call", "s", "get-sum", "a=5", "b=3")
    person.says("is no argument", "call", "s", "get-sum", "5", code=2)
    person.says("did you mean \"get-sum\"", "call", "s", "get-sun", code=4)
    result = person.json("call", "s", "get-structured-content", "location=Chicago")
    person.check.that("structured content", isinstance((result or {}).get("structuredContent"), dict), result)
    pictures = person.folder / "pictures"
    person.says("[image image/png", "call", "s", "get-tiny-image", "--save", str(pictures))
    picture = pictures / "1.png"
    person.check.that("a picture is saved", picture.exists() and picture.read_bytes().startswith(b"\x89PNG"))
    resources = person.json("resources") or [{}]
    uris = [resource.get("uri") for resource in resources if resource.get("uri")]
    person.check.that("resources and templates", bool(uris) and any("uriTemplate" in r for r in resources), resources)
    person.says("#", "read", uris[0] if uris else "none")
    person.says("simple-prompt", "prompts")
    person.says("Rome", "prompt", "args-prompt", "city=Rome")
    person.says("needs the argument", "prompt", "args-prompt", code=1)
    person.cancels("trigger-long-running-operation", "duration=60", "steps=60")


def filesystem(person, data):
    file = data / "notes.txt"
    file.write_text("the notes\n")
    person.has_tools("read_text_file", "list_directory", "edit_file")
    person.says("the notes", "call", "s", "read_text_file", f"path={file}")
    person.says("[FILE] notes.txt", "call", "s", "list_directory", f"path={data}")
    edit = json.dumps({"path": str(file), "edits": [{"oldText": "the", "newText": "my"}]})
    person.run("call", "s", "edit_file", edit)
    person.check.that("the file is edited", file.read_text() == "my notes\n", file.read_text())
    person.says("denied", "call", "s", "read_text_file", "path=/etc/passwd", code=1)


def memory(person, _):
    person.has_tools("create_entities", "read_graph")
    entities = json.dumps({"entities": [{"name": "Ada", "entityType": "person", "observations": ["likes engines"]}]})
    person.run("call", "s", "create_entities", entities)
    # In another process: the server keeps it in a file.
    person.says("likes engines", "call", "s", "read_graph")


def own(person, target):
    """What the servers that are made here have."""
    person.has_tools("add", "fail", "slow", "grow")
    person.says("42", "call", "s", "add", "a=40", "b=2")
    person.says("it failed on purpose", "call", "s", "fail", code=1)
    person.says("the note", "read", "note://one")
    person.says("[user] Review x=1.", "prompt", "review", "code=x=1")
    status = person.json("status", "s")
    person.check.that("its version", status and status[0]["server"]["version"] == "1.2.3", status)
    person.check.that("its instructions", status and status[0].get("instructions") == "Be kind.", status)
    over_stdio = not target[0].startswith("http")
    person.cancels("slow", sign="the call was cancelled" if over_stdio else None)
    person.follows("grow", target)


SERVERS = {  # how to get it, arguments over stdio, how HTTP is had, what is done with it
    "everything": (npm("server-everything"), ["stdio"], "variable", everything),
    "filesystem": (npm("server-filesystem"), ["{data}"], None, filesystem),
    "memory": (npm("server-memory"), [], None, memory),
    "fastmcp": (fastmcp, ["stdio"], "argument", own),
    "rmcp": (rmcp, ["stdio"], "argument", own),
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def listening(server, port):
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("the server does not listen")


def used(name, transport, folder):
    prepare, arguments, http, use = SERVERS[name]
    command = prepare()
    person = Person(folder, f"{name} {transport}")
    data = folder / "data"
    data.mkdir()
    if transport == "stdio":
        words = [argument.format(data=data.resolve()) for argument in arguments]
        environment = ["--env", f"MEMORY_FILE_PATH={folder / 'memory.json'}"] if name == "memory" else []
        person.says("added s", "add", "s", *environment, "--", *command, *words)
        use(person, data.resolve() if name == "filesystem" else [*command, *words])
        return person.check
    port = free_port()
    words = [*command, "streamableHttp"] if http == "variable" else [*command, str(port)]
    with open(folder / "server.log", "w") as log:
        server = subprocess.Popen(words, stdout=log, stderr=log, env={**os.environ, "PORT": str(port)})
    try:
        listening(server, port)
        url = f"http://127.0.0.1:{port}/mcp"
        person.says("added s", "add", "s", "--url", url)
        use(person, [url])
    finally:
        server.terminate()
        server.wait()
    return person.check


def main(chosen):
    if not pathlib.Path(CLIENT).exists():
        print(f"there is no {CLIENT}: cargo build --release -p sparring-client-cli")
        return 1
    missing, passed, failures = [], 0, []
    for name in chosen or SERVERS:
        for transport in ["stdio", "http"] if SERVERS[name][2] else ["stdio"]:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    check = used(name, transport, pathlib.Path(folder))
                except Missing as why:
                    missing.append(f"{name}: {why}")
                    print(f"{name} {transport}: skipped, {why}")
                    continue
                except subprocess.CalledProcessError as broken:
                    failures.append(f"{name}: it can't be had: {broken}")
                    continue
                except subprocess.TimeoutExpired as late:
                    failures.append(f"{name} {transport}: still running after {LIMIT} s: {late.cmd}")
                    continue
            passed += check.passed
            failures += check.failures
            print(f"{name} {transport}: {check.passed} passed, {len(check.failures)} failed", flush=True)
    for failure in failures:
        print(failure)
    print(f"\n{passed} passed, {len(failures)} failed")
    if failures:
        return 1
    if passed == 0:
        print("no server could be had: " + "; ".join(missing))
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
