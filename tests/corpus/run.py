"""Runs environments of a blind set on a private engine, and counts how many first remedies are right. `scripts/corpus` starts it.

Stand-ins replace the images: the one of the failing service prints the lines of its case and ends with its exit code, the others answer
each request, have the usual clients for health checks, and complete if they are one-shot. Left out are cases with a build, with an
entrypoint, and those that fail by their health check only.
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
from concurrent.futures import ThreadPoolExecutor

import yaml

PROGRAM = pathlib.Path(os.environ["PROGRAM"])
# Time until a service has given up, with all its restarts.
LIMIT = 180
# Environments at the same time.
AT_A_TIME = 4
# Programs of health checks, each of which succeeds.
CLIENTS = "pg_isready redis-cli mysqladmin mariadb-admin mongosh mongo curl rabbitmq-diagnostics rabbitmqctl healthcheck.sh".split()
ANSWER = r"#!/bin/sh\nprintf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'\n"


def docker(*arguments, **options):
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True, **options)


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


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


def make_images(case):
    """Builds one stand-in per image. Services that share one differ by their commands."""
    scripts, is_failing = {}, {}
    for name, service in yaml.safe_load(case["spec"])["services"].items():
        image = service["image"]
        words = " ".join(service.get("command", []))
        script = failing(case) if name == "web" else answering(service)
        scripts.setdefault(image, []).append(f"if [ \"$*\" = {quoted(words)} ]; then\n{script}\nfi")
        is_failing[image] = is_failing.get(image, False) or name == "web"
    for image, parts in scripts.items():
        # Root is never refused a permission.
        is_refused = re.search("permission denied|EACCES", "\n".join(case["stderr"] + case["stdout"]), re.I)
        links = "".join(f" && ln -s /bin/true /bin/{client}" for client in CLIENTS)
        lines = [
            "FROM busybox:local",
            f"RUN rm -f /bin/curl{links}",
            "COPY start answer /",
            "RUN chmod 755 /start /answer",
            *(["USER 1000"] if is_failing[image] and is_refused else []),
            'ENTRYPOINT ["/start"]',
        ]
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "start").write_text("\n".join(["#!/bin/sh", *parts]) + "\n")
            pathlib.Path(folder, "answer").write_text(ANSWER.encode().decode("unicode_escape"))
            pathlib.Path(folder, "Dockerfile").write_text("\n".join(lines) + "\n")
            docker("build", "-q", "-t", image, folder, env=os.environ | {"DOCKER_BUILDKIT": "0"})


def is_usable(case):
    is_failure = case.get("failure", "exit") == "exit" and 0 < case["exitCode"] < 256
    return is_failure and (case.get("expect") or case.get("anyOf")) and not re.search(r"^\s+(build|entrypoint):", case["spec"], re.M)


def write_files(case, folder):
    """Writes the spec file and what it mounts."""
    folder.mkdir(parents=True)
    for source in re.findall(r"(\./[^:\"'\s]*):", case["spec"]):
        path = folder / source
        if "." in path.name:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("content\n")
        else:
            path.mkdir(parents=True, exist_ok=True)
    (folder / "e2e.yaml").write_text(case["spec"])


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


def given_up(status):
    """Error of the failing service when no restart is left."""
    for row in status.get("services", []):
        error = row.get("lastError")
        if row["name"] == "web" and error and (error["code"].endswith("EXHAUSTED") or status["phase"] in ("Failed", "Blocked")):
            return error
    return None


def first_remedy(case):
    """First remedy of the failing service, or what was there instead."""
    with tempfile.TemporaryDirectory() as home:
        folder, state = pathlib.Path(home, case["name"]), pathlib.Path(home, "state")
        write_files(case, folder)
        with open(pathlib.Path(home, "log"), "w") as log:
            controller = subprocess.Popen([PROGRAM, "run", folder, "--state", state, "--listen", "off"], stdout=log, stderr=log)
        try:
            shown = "no status"
            until = time.monotonic() + LIMIT
            while time.monotonic() < until:
                time.sleep(0.5)
                for file in state.glob("environments/*.json"):
                    status = json.loads(file.read_text())
                    if error := given_up(status):
                        return (error.get("remedies") or [error["message"]])[0]
                    shown = "no answer: " + json.dumps([[row["name"], row.get("state"), row.get("reason")] for row in status["services"]])
            return shown
        finally:
            subprocess.run([PROGRAM, "down", "--all", "--volumes", "--state", state], capture_output=True)
            controller.terminate()
            controller.wait()


def main():
    file, count, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    cases = [case for case in json.loads(file.read_text()) if is_usable(case)]
    chosen = sorted(random.Random(seed).sample(cases, min(count, len(cases))), key=lambda case: case["name"])
    for case in chosen:
        make_images(case)
    right = 0
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for case, remedy in zip(chosen, pool.map(first_remedy, chosen)):
            wanted = [case["expect"], *case["expect"].get("anyOf", []), *(case.get("anyOf") or [])]
            is_right = isinstance(remedy, dict) and any(is_met(expected, remedy) for expected in wanted)
            right += is_right
            print(f"right: {case['name']}" if is_right else f"wrong: {case['name']}: {json.dumps(remedy)}", flush=True)
    print(f"{right} of {len(chosen)} first remedies are right")
    return 0 if right >= 0.85 * len(chosen) else 1


sys.exit(main())
