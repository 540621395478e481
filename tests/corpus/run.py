"""Runs environments of a blind set on a private engine, and counts how many first remedies are right. `scripts/corpus` starts it.

Stand-ins replace the images. The one of the failing service prints the lines of its case and ends with its exit code. The others answer
requests, have the usual clients of health checks, and complete if they are one-shot. Only failures by an exit code run, without a `build`
or an `entrypoint`.
"""

import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import yaml

PROGRAM = pathlib.Path(os.environ["PROGRAM"])
# Maximum time until a service has given up, in seconds.
LIMIT = 180
# Number of environments that run in parallel.
PARALLEL = 4
# Programs of health checks, each of which succeeds.
CLIENTS = "pg_isready redis-cli mysqladmin mariadb-admin mongosh mongo curl rabbitmq-diagnostics rabbitmqctl healthcheck.sh".split()
# Answers one request. A connection that ends with unread input is reset.
ANSWER = r"""#!/bin/sh
while read -r line && [ ${#line} -gt 1 ]; do :; done
printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'
"""


def docker(*arguments, **options):
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"docker {arguments[0]}: {done.stderr}")


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def services_of(case):
    return yaml.safe_load(case["spec"])["services"]


def failing(case):
    """Script that prints the lines of a case and ends with its code."""
    lines = [f"printf '%s\\n' {quoted(line)}" for line in case["stdout"]]
    lines += [f"printf '%s\\n' {quoted(line)} >&2" for line in case["stderr"]]
    return "\n".join([*lines, "sleep 2.5", f"exit {case['exitCode']}"])


def ports_of(service):
    """Ports of a container, from its published ports and its health check."""
    container = service.get("container", {})
    published = [int(str(port).rpartition(":")[2]) for port in container.get("ports", [])]
    checked = container.get("healthcheck", {}).get("port")
    return sorted({*published, *([checked] if checked else [])})


def answering(service):
    if service.get("oneShot"):
        return "exit 0"
    return "\n".join([*(f"nc -ll -p {port} -e /answer &" for port in ports_of(service)), "exec sleep 100000"])


def earlier(case):
    """Image of the failing service in the revision that wrote its volumes; `None` without a volume."""
    service = services_of(case)["web"]
    mounts = service.get("container", {}).get("volumes", [])
    is_stored = any(not mount.startswith((".", "/")) for mount in mounts)
    return service["image"].rpartition(":")[0] + ":previous" if is_stored else None


def make_images(case):
    """Builds one stand-in per image. Services that share one differ by their commands."""
    scripts, failing_image = {}, None
    if image := earlier(case):
        scripts[image] = [answering(services_of(case)["web"])]
    for name, service in services_of(case).items():
        words = " ".join(service.get("command", []))
        script = failing(case) if name == "web" else answering(service)
        scripts.setdefault(service["image"], []).append(f'if [ "$*" = {quoted(words)} ]; then\n{script}\nfi')
        failing_image = service["image"] if name == "web" else failing_image
    # Root is never refused a permission.
    is_refused = re.search("permission denied|EACCES", "\n".join(case["stderr"] + case["stdout"]), re.I)
    links = "".join(f" && ln -sf /succeed /bin/{client}" for client in CLIENTS)
    for image, parts in scripts.items():
        files = {
            "start": "\n".join(["#!/bin/sh", *parts]) + "\n",
            "answer": ANSWER,
            "succeed": "#!/bin/sh\nexit 0\n",
            "Dockerfile": "\n".join(
                [
                    "FROM busybox:local",
                    "COPY start answer succeed /",
                    f"RUN chmod 755 /start /answer /succeed{links}",
                    *(["USER 1000"] if image == failing_image and is_refused else []),
                    'ENTRYPOINT ["/start"]',
                ]
            )
            + "\n",
        }
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                pathlib.Path(folder, name).write_text(text)
            docker("build", "-q", "-t", image, folder, env=os.environ | {"DOCKER_BUILDKIT": "0"})


def is_usable(case):
    is_failure = case.get("failure", "exit") == "exit" and 0 < case["exitCode"] < 256
    return is_failure and wanted_of(case) and not re.search(r"^\s+(build|entrypoint):", case["spec"], re.M)


def wanted_of(case):
    """All right first edits."""
    first = case.get("expect") or {}
    return [*([first] if first else []), *first.get("anyOf", []), *(case.get("anyOf") or [])]


def write_files(case, folder):
    """Writes the spec file and what it mounts. A name prefix keeps the containers of cases apart."""
    folder.mkdir(parents=True)
    for source, target in re.findall(r"(\./[^:\"'\s]*):([^:\"'\s\]]+)", case["spec"]):
        path = folder / source
        is_file = "." in path.name or target == services_of(case)["web"].get("command", [None])[0]
        if is_file:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("content\n")
            path.chmod(0o755)
        else:
            path.mkdir(parents=True, exist_ok=True)
    prefix = f"isolation: {{ namespace: {case['name'][:20].strip('-')} }}\n"
    (folder / "e2e.yaml").write_text(case["spec"].rstrip("\n") + "\n" + prefix)


def value_after(case, edit):
    """Value of a variable after the edit, which often changes a part of it or names the variable of another service."""
    place = re.match(r"services\.([^.]+)\.container\.environment\.(.+)", edit.get("key") or "")
    if not place:
        return ""

    def value_of(service, name):
        service = services_of(case).get(service, {})
        words = service.get("command", [])
        after = dict(zip(words, words[1:]))
        return str(service.get("container", {}).get("environment", {}).get(name, after.get(name, "")))

    if edit.get("now") and edit.get("suggest"):
        return value_of(*place.groups()).replace(edit["now"], edit["suggest"], 1)
    named = re.search("the value of `([^`]+)` of `([^`]+)`", edit.get("hint") or "")
    if not named:
        return ""
    value = value_of(named[2], named[1])
    user = re.match("write the user `([^`]+)`", edit["hint"])
    return f"{user[1]}:{value}" if user else value


def is_met(case, expected, edit):
    """Compares as the test of the set does."""
    service = expected.get("service") or "web"
    place = (edit.get("key") or "").removeprefix(f"services.{service}.")
    wanted = expected.get("key")
    # The name of a variable can contain dots.
    before, _, variable = place.partition(".environment.")
    parent, name = (f"{before}.environment", variable) if variable else place.rpartition(".")[::2]
    is_renamed = edit.get("now") == name and f"{parent}.{edit.get('suggest')}" == wanted
    is_key = wanted is None or place == wanted or place.startswith((f"{wanted}.", f"{wanted}[")) or is_renamed
    is_key = is_key or (place == "container.healthcheck" and wanted.startswith("container.healthcheck."))
    is_file = expected.get("file") is None or (edit.get("file") or "").endswith(expected["file"].removeprefix("./"))
    parts = [edit.get(part) for part in ("key", "now", "suggest", "hint", "reason")] + [value_after(case, edit)]
    is_text = expected.get("text") is None or expected["text"] in "\n".join(str(part) for part in parts if part)
    return is_key and is_file and is_text


def is_right(case, edit):
    if not isinstance(edit, dict):
        return False
    if "[redacted]" in (edit.get("suggest") or ""):
        return False
    named = "the value of `" in (edit.get("hint") or "")
    has_value = not edit.get("key") or edit.get("suggest") is not None or named
    return has_value and any(is_met(case, expected, edit) for expected in wanted_of(case))


def status_of(state):
    """Status of the only environment."""
    for file in state.glob("environments/*.json"):
        return json.loads(file.read_text())
    return {"services": [], "phase": None}


def given_up(status):
    """Error of the failing service when no restart is left."""
    for row in status.get("services", []):
        error = row.get("lastError")
        if row["name"] == "web" and error and (error["code"].endswith("EXHAUSTED") or status["phase"] == "Failed"):
            return error
    return None


def wait_for(controller, log, state, is_done):
    """Returns what `is_done` finds in the status, or a text with the last states."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        if controller.poll() is not None:
            return "the controller ended: " + log.read_text()[-2000:]
        status = status_of(state)
        if found := is_done(status):
            return found
        time.sleep(0.5)
    return "no answer: " + json.dumps([[row["name"], row.get("state"), row.get("waitingOn")] for row in status["services"]])


def default_answer(state):
    """Text of the answer to `argus_status` without arguments."""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "corpus", "version": "1"}}
    calls = [
        {"id": 1, "method": "initialize", "params": client},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "argus_status", "arguments": {}}},
    ]
    text = "".join(json.dumps({"jsonrpc": "2.0", **call}) + "\n" for call in calls)
    done = subprocess.run([PROGRAM, "mcp", "--state", state], input=text, capture_output=True, text=True, timeout=60)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    content = [answer.get("result", {}).get("content", []) for answer in answers if answer.get("id") == 2]
    if not content:
        print(f"no answer: {done.stderr}", file=sys.stderr)
    return "".join(part["text"] for parts in content for part in parts)


def first_remedy(case):
    """Returns the first remedy of the failing service and the default answer to an agent. Without a remedy, the first one is the message
    of its error, or the last states."""
    with tempfile.TemporaryDirectory() as home:
        folder, state, log = pathlib.Path(home, "project"), pathlib.Path(home, "state"), pathlib.Path(home, "log")
        write_files(case, folder)
        spec = folder / "e2e.yaml"
        text, image = spec.read_text(), services_of(case)["web"]["image"]
        if earlier(case):
            before = text.replace(f'image: "{image}"', f'image: "{earlier(case)}"')
            assert before != text, "the image of `web` must have double quotes in the file"
            spec.write_text(before)
        command = [PROGRAM, "run", folder, "--state", state, "--listen", "off"]
        with open(log, "w") as output:
            controller = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            if earlier(case):
                ready = wait_for(controller, log, state, lambda status: status["phase"] == "Ready")
                if ready is not True:
                    return f"the revision before: {ready}", ""
                spec.write_text(text)
            error = wait_for(controller, log, state, given_up)
            if not isinstance(error, dict):
                return error, ""
            return (error.get("remedies") or [error["message"]])[0], default_answer(state)
        finally:
            down = subprocess.run([PROGRAM, "down", "--all", "--volumes", "--state", state], capture_output=True, text=True)
            controller.terminate()
            try:
                controller.wait(60)
            except subprocess.TimeoutExpired:
                controller.kill()
            if down.returncode != 0:
                print(f"{case['name']}: {down.stderr}", file=sys.stderr)


def main():
    file, count, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    cases = [case for case in json.loads(file.read_text()) if is_usable(case)]
    if not 1 <= count <= len(cases):
        sys.exit(f"the set has {len(cases)} environments for an engine, not {count}")
    chosen = sorted(random.Random(seed).sample(cases, count), key=lambda case: case["name"])
    for case in chosen:
        make_images(case)
    right, tokens = 0, []
    with ThreadPoolExecutor(PARALLEL) as pool:
        for case, (remedy, answer) in zip(chosen, pool.map(first_remedy, chosen)):
            found = is_right(case, remedy)
            right += found
            size = len(answer.encode()) // 4
            tokens += [size] if answer else []
            verdict = f"right: {case['name']}" if found else f"wrong: {case['name']}: {json.dumps(remedy)}"
            print(f"{verdict} ({size} tokens)", flush=True)
    print(f"{right} of {len(chosen)} first remedies are right")
    if tokens:
        median, most = statistics.median(tokens), max(tokens)
        print(f"tokens of {len(tokens)} default answers (bytes / 4): median {median:.0f}, most {most}")
    return 0 if right >= 0.85 * len(chosen) else 1


sys.exit(main())
