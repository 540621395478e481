"""Runs environments of a blind set on a private engine, and counts how many first remedies are right. `scripts/corpus` starts it.

Each case gets images that print its lines and end with its exit code. Their siblings accept connections and have the usual clients for
health checks. Cases that need a build or a health check of the failing service itself are left out.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

PROGRAM = pathlib.Path(os.environ["PROGRAM"])
# Time until a service has given up, with all its restarts.
LIMIT = 240
# Programs of health checks, each of which succeeds.
CLIENTS = "pg_isready redis-cli mysqladmin mariadb-admin mongosh mongo curl rabbitmq-diagnostics rabbitmqctl healthcheck.sh".split()
SIBLING = """#!/bin/sh
for port in {ports}; do (while true; do nc -l -p "$port" >/dev/null 2>&1 || sleep 1; done) & done
exec sleep 100000
"""


def docker(*arguments, **options):
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, **options)


def make_image(name, script):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "start").write_text(script)
        links = "".join(f" && ln -s /bin/true /bin/{client}" for client in CLIENTS)
        lines = [
            "FROM busybox:local",
            f"RUN rm -f /bin/curl{links}",
            "COPY start /start",
            "RUN chmod 755 /start",
            'ENTRYPOINT ["/start"]',
        ]
        pathlib.Path(folder, "Dockerfile").write_text("\n".join(lines) + "\n")
        docker("build", "-q", "-t", name, folder, env=os.environ | {"DOCKER_BUILDKIT": "0"})


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def failing(case):
    """Script that prints the lines of a case and ends with its code."""
    lines = [f"printf '%s\\n' {quoted(line)}" for line in case["stdout"]]
    lines += [f"printf '%s\\n' {quoted(line)} >&2" for line in case["stderr"]]
    return "#!/bin/sh\n" + "\n".join(lines) + f"\nsleep 2.5\nexit {case['exitCode']}\n"


def images(text):
    """Image and ports of each service."""
    found, service = {}, None
    for line in text.splitlines():
        if name := re.match(r"  ([\w-]+):\s*$", line):
            service = name[1]
        if image := re.match(r"""\s+image: ["']?([^"'\s]+)""", line):
            found[service] = image[1]
    return found


def is_usable(case):
    is_failure = case.get("failure", "exit") == "exit" and 0 < case["exitCode"] < 256
    return is_failure and (case.get("expect") or case.get("anyOf")) and not re.search(r"^\s+(build|entrypoint):", case["spec"], re.M)


def prepare(case, folder):
    folder.mkdir(parents=True)
    text = case["spec"]
    ports = sorted(set(re.findall(r"port: (\d+)", text)))
    for service, image in images(text).items():
        is_failing = service == "web"
        make_image(image, failing(case) if is_failing else SIBLING.format(ports=" ".join(ports)))
    for source in re.findall(r"(\./[^:\"'\s]*):", text):
        path = folder / source
        if "." in path.name:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("content\n")
        else:
            path.mkdir(parents=True, exist_ok=True)
    (folder / "e2e.yaml").write_text(text)


def is_met(expected, edit):
    service = expected.get("service") or "web"
    key = edit.get("key") or ""
    place = key.removeprefix(f"services.{service}.")
    wanted = expected.get("key")
    is_key = wanted is None or place == wanted or place.startswith((f"{wanted}.", f"{wanted}["))
    is_key = is_key or (place == "container.healthcheck" and wanted.startswith("container.healthcheck."))
    renamed = f"{place.rpartition('.')[0]}.{edit.get('suggest')}"
    is_file = expected.get("file") is None or edit.get("file", "").endswith(expected["file"].removeprefix("./"))
    text = json.dumps(edit, ensure_ascii=False).replace('\\"', '"')
    is_text = expected.get("text") is None or expected["text"] in text
    return (is_key or renamed == wanted) and is_file and is_text


def first_edit(status):
    """First remedy of the failing service, and whether no restart is left."""
    rows = [row for row in status.get("services", []) if row["name"] == "web"]
    error = rows and rows[0].get("lastError")
    is_final = error and (error["code"].endswith("EXHAUSTED") or status["phase"] in ("Failed", "Blocked"))
    if not error:
        return None
    remedies = error.get("remedies", [])
    # Without an edit, the remedies show what was proposed instead.
    return (remedies[:1] or [error["message"]], is_final)


def main():
    file, count, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    cases = [case for case in json.loads(file.read_text()) if is_usable(case)]
    chosen = sorted(random.Random(seed).sample(cases, min(count, len(cases))), key=lambda case: case["name"])
    right = 0
    for case in chosen:
        with tempfile.TemporaryDirectory() as home:
            folder, state = pathlib.Path(home, case["name"]), pathlib.Path(home, "state")
            prepare(case, folder)
            log = open(pathlib.Path(home, "log"), "w")
            run = [PROGRAM, "run", folder, "--state", state, "--listen", "off"]
            controller = subprocess.Popen(run, stdout=log, stderr=log)
            edit, answered = None, False
            until = time.monotonic() + LIMIT
            while time.monotonic() < until:
                time.sleep(0.5)
                statuses = list(state.glob("environments/*.json"))
                found = statuses and first_edit(json.loads(statuses[0].read_text()))
                if found and found[1]:
                    edit, answered = next(iter(found[0]), None), True
                    break
            subprocess.run([PROGRAM, "down", "--all", "--state", state], capture_output=True)
            controller.terminate()
            controller.wait()
        wanted = [case["expect"], *case["expect"].get("anyOf", []), *(case.get("anyOf") or [])]
        is_right = isinstance(edit, dict) and any(is_met(expected, edit) for expected in wanted)
        right += is_right
        shown = "no answer" if not answered else json.dumps(edit)
        print(f"{'right' if is_right else 'wrong'}: {case['name']}" + ("" if is_right else f": {shown}"), flush=True)
    print(f"{right} of {len(chosen)} first remedies are right")
    return 0 if right >= 0.85 * len(chosen) else 1


sys.exit(main())
