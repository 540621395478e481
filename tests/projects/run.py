"""Runs the projects of this folder twice from their start to their removal. `scripts/projects` starts it on a private engine.

Each project is a folder with its files and a `case.toml`, which lists what a person does with it and what Argus must answer.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).parent
SCRATCH = pathlib.Path(os.environ["SCRATCH"])
PROGRAM = pathlib.Path(os.environ["PROGRAM"])
ENVIRONMENT = os.environ | {
    "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}",
    "XDG_STATE_HOME": str(SCRATCH / "state"),
    "XDG_CONFIG_HOME": str(SCRATCH / "config"),
    "ARGUS_LISTEN": "off",
    "DOCKER_BUILDKIT": "0",
    "NO_COLOR": "1",
}
# Stand-ins: tag and stage of `images/Dockerfile`.
IMAGES = {
    "alpine:3.20": "alpine",
    "postgres:16-alpine": "postgres",
    "redis:7-alpine": "redis",
    "nginx:1.27-alpine": "nginx",
    "node:20-alpine": "node",
    "python:3.12-slim": "python",
    "golang:1.22-alpine": "golang",
    "maven:3.9-eclipse-temurin-21": "maven",
    "eclipse-temurin:21-jre": "temurin",
    "php:8.3-fpm-alpine": "php",
    "composer:2": "composer",
}
# No answer contains these: a defect of Argus, or an unresolved template in its own words.
NEVER = ("INTERNAL", "panicked", "unknown owner", "report the bug")
# Keys of the changes that an answer proposes.
KEYS = """argus why {} -o json | grep '"key":' || true"""
LIMIT = 180
PARALLEL = 4
printing = threading.Lock()


class Failed(Exception):
    """A step whose answer is not the expected one."""


def say(line):
    with printing:
        print(line, flush=True)


def shell(line, folder):
    """Runs a line. Returns its exit code and everything that it printed."""
    ended = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, timeout=400
    )
    return ended.returncode, (ended.stdout + ended.stderr).decode(errors="replace")


def lines_of(command):
    code, text = shell(command, SCRATCH)
    if code != 0:
        raise Failed(f"$ {command}\n{text}")
    return [line for line in text.splitlines() if line]


def files_of(folder):
    """Content and mode of each file."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) for path in paths}


class Project:
    def __init__(self, name):
        self.name = name
        self.case = tomllib.loads((HERE / name / "case.toml").read_text())
        self.environment = self.case.get("environment", name)
        self.file = self.case.get("file", "")
        self.folder = SCRATCH / name
        self.steps = []
        self.controller = None
        shutil.copytree(HERE / name, self.folder, ignore=shutil.ignore_patterns("case.toml"))
        # A project is a git worktree.
        (self.folder / ".git").mkdir()
        (self.folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
        self.files = files_of(self.folder)

    # Steps.

    def step(self, name, work):
        """Runs a step. Returns false if it failed."""
        start = time.monotonic()
        try:
            work()
            result, output = "ok", ""
        except (Failed, OSError, subprocess.TimeoutExpired) as failure:
            result, output = "FAILED", str(failure)
        seconds = time.monotonic() - start
        self.steps.append((name, result))
        say(f"{self.name:17} {name:44} {result:6} {seconds:6.1f} s")
        if result == "FAILED":
            say("    " + output.rstrip().replace("\n", "\n    "))
        return result != "FAILED"

    def types(self, line, code=0, prints=(), never=()):
        """Runs a line and checks its exit code and its output."""
        ended, text = shell(line, self.folder)
        shown = f"$ {line}\n{text}(exit code {ended})"
        if ended != code:
            raise Failed(f"{shown}\nexpected: exit code {code}")
        for part in prints:
            if part not in text:
                raise Failed(f"{shown}\nexpected: {part}")
        for part in (*never, *NEVER):
            if part in text:
                raise Failed(f"{shown}\nmisleading: {part}")
        return text

    def until(self, what, question):
        """Repeats a question until it returns true."""
        end = time.monotonic() + LIMIT
        while not question():
            if time.monotonic() > end:
                raise Failed(what())
            time.sleep(0.3)

    def edit(self, change):
        """Replaces a text of a file. Returns its first line that changes."""
        path = self.folder / change["file"]
        text = path.read_bytes().decode()
        if change["old"] not in text:
            raise Failed(f"{change['file']} has no {change['old']!r}")
        path.write_bytes(text.replace(change["old"], change["new"], 1).encode())
        return text[: text.index(change["old"])].count("\n") + 1

    def sees(self, expected):
        """Waits until a page or a command answers the text."""
        if "page" in expected:
            url = f"http://127.0.0.1:{self.case['port']}{expected.get('path', '/')}"
            found = {"text": ""}

            def question():
                try:
                    found["text"] = urllib.request.urlopen(url, timeout=5).read().decode()
                except OSError as error:
                    found["text"] = str(error)
                return expected["page"] in found["text"]

            self.until(lambda: f"{url}: {found['text']}\nexpected: {expected['page']}", question)
        if "command" in expected:
            line = expected["command"]
            self.until(
                lambda: f"$ {line}\n{shell(line, self.folder)[1]}\nexpected: {expected['prints']}",
                lambda: expected["prints"] in shell(line, self.folder)[1],
            )

    def ready(self, expected):
        """The environment is Ready, and nothing is reported about it."""
        self.types(f"argus wait {self.environment} --timeout {LIMIT}s", prints=[f"{self.environment} Ready"])
        self.sees(expected)
        self.types(f"argus wait {self.environment} --timeout {LIMIT}s", prints=[f"{self.environment} Ready"])
        self.types(f"argus why {self.environment}", prints=["Ready"], never=["failed:", "hint:", "waits for:"])
        if "data" in self.case and self.has_data:
            self.sees(self.case["data"])

    # Rounds.

    def validate(self):
        text = self.types(f"argus validate {self.file}", prints=[f"environment `{self.environment}`", *self.case.get("notes", [])])
        warnings = text.count("warning:")
        if warnings != len(self.case.get("notes", [])):
            raise Failed(f"{text}\nexpected: {len(self.case.get('notes', []))} warnings")

    def start(self, number):
        if self.case.get("start") != "run":
            self.types(f"argus up {self.file} --detach --timeout {LIMIT}s", prints=[f"{self.environment} Ready"])
            return
        with open(SCRATCH / f"{self.name}.log", "ab") as log:
            self.controller = subprocess.Popen(
                [PROGRAM, "run", *self.file.split()], cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        # `argus ci` and `argus down` took it down. Only an edit of the spec file or `argus retry` creates it again.
        if number == 2 and self.case["edit"]["file"] != self.file:
            self.until(
                lambda: f"no controller:\n{(SCRATCH / f'{self.name}.log').read_text()}",
                lambda: shell(f"argus wait {self.environment} --timeout 2s", self.folder)[0] == 6,
            )
            again = f"argus retry {self.environment}"
            self.types(f"argus wait {self.environment} --timeout {LIMIT}s", code=6, prints=[again])
            self.types(again)

    def first_ready(self, number):
        self.has_data = number == 2
        self.ready(self.case["ready"])
        if "data" in self.case and number == 1:
            self.types(self.case["data"]["write"])
            self.has_data = True
            self.sees(self.case["data"])
        self.types("argus doctor", never=["fail "])
        self.types("argus orphans", prints=["no orphans"])

    def breaks(self, case):
        """Breaks a file. The command that waits fails early, and the answer names the cause and the change."""
        line = self.edit(case)
        command = case.get("command", f"argus wait {self.environment} --timeout {LIMIT}s")
        self.types(command, code=case.get("code", 6))
        # The text names the place, and the JSON the key.
        answer = f"argus why {self.environment}; {KEYS.format(self.environment)}"
        prints = [part.replace("{line}", str(line)) for part in case["why"]]
        self.types(case.get("answer", answer), prints=prints, never=case.get("never", ()))

    def fix(self, case):
        self.edit({"file": case["file"], "old": case["new"], "new": case["old"]})
        self.ready(self.case["edit"])

    def ci(self):
        command = self.case.get("ci", "")
        line = f"argus ci {self.file}" + (f" -- sh -c '{command}'" if command else "")
        self.types(line, prints=[f"{self.environment}: passed"])
        for name in ("summary.md", "junit.xml", "report.json"):
            if not (self.folder / "argus-report" / name).is_file():
                raise Failed(f"$ {line}\nexpected: argus-report/{name}")

    def down(self, number):
        volumes = " --volumes" if number == 2 else ""
        self.types(f"argus down {self.environment}{volumes}", prints=[f"{self.environment} gone"])
        self.types("argus get", prints=["no environments"])

    def stop(self):
        if self.controller is None:
            self.types("argus stop", prints=["stopped"])
            return
        self.controller.send_signal(signal.SIGINT)
        if self.controller.wait(60) != 0:
            raise Failed(f"argus run ended with {self.controller.returncode}\n{(SCRATCH / f'{self.name}.log').read_text()}")
        self.controller = None

    def nothing_left(self, number):
        label = f"--filter label=argusai.project={self.environment}"
        left = [f"container {it}" for it in lines_of(f"docker ps --all {label} --format '{{{{.Names}}}}'")]
        left += [f"network {it}" for it in lines_of(f"docker network ls {label} --format '{{{{.Name}}}}'")]
        kept = {f"argusai-{self.environment}_{name}" for name in self.case.get("volumes", [])} if number == 1 else set()
        volumes = {it for it in lines_of("docker volume ls --format '{{.Name}}'") if it.startswith(f"argusai-{self.environment}_")}
        left += [f"volume {it}" for it in volumes - kept]
        left += [f"no volume {it}" for it in kept - volumes]
        asked = (".argus/", "argus-report/") + (("environments/",) if self.case.get("init") else ())
        files = {name: it for name, it in files_of(self.folder).items() if not name.startswith(asked)}
        left += [f"file {name}" for name in files.keys() | self.files.keys() if files.get(name) != self.files.get(name)]
        left += [f"status {path.name}" for path in (self.folder / ".argus/environments").glob("*")]
        if left:
            raise Failed("\n".join(left))

    def round(self, number):
        """Runs the steps of a round. Returns false if the project cannot continue: after any failed step except an explanation."""
        work = []
        if self.case.get("init") and number == 1:
            work.append(("init", lambda: self.types("argus init", prints=["1 service", "argus run"])))
        work += [
            ("validate", self.validate),
            ("start", lambda: self.start(number)),
            ("ready", lambda: self.first_ready(number)),
            ("edit", lambda: (self.edit(self.case["edit"]), self.ready(self.case["edit"]))),
        ]
        for case in self.case["break"]:
            work.append((f"break: {case['name']}", lambda case=case: self.breaks(case)))
            work.append((f"fix: {case['name']}", lambda case=case: self.fix(case)))
        undo = {"file": self.case["edit"]["file"], "old": self.case["edit"]["new"], "new": self.case["edit"]["old"]}
        work += [
            ("ci", self.ci),
            ("down", lambda: self.down(number)),
            ("stop", self.stop),
            ("nothing is left", lambda: (self.edit(undo), self.nothing_left(number))),
        ]
        return all(self.step(f"{number} {name}", one) or name.startswith("break") for name, one in work)

    def run(self):
        start = time.monotonic()
        try:
            complete = self.round(1) and self.round(2)
            self.passed = complete and all(result != "FAILED" for _, result in self.steps)
        finally:
            self.end()
        self.seconds = time.monotonic() - start
        return self

    def end(self):
        """Ends what a failed round leaves."""
        shell(f"argus down {self.environment} --volumes; argus stop", self.folder)
        if self.controller is not None:
            self.controller.kill()
            self.controller.wait()


def left_on_engine(projects):
    """Names of everything but the images of the files and one image of the program of mocks."""
    left = [f"container {it}" for it in lines_of("docker ps --all --format '{{.Names}} {{.Image}}'")]
    left += [f"volume {it}" for it in lines_of("docker volume ls --format '{{.Name}}'")]
    networks = set(lines_of("docker network ls --format '{{.Name}}'")) - {"bridge", "host", "none"}
    left += [f"network {it}" for it in networks]
    asked = {"busybox:1", *IMAGES}
    for project in projects:
        asked |= set(project.case.get("images", []))
    programs = []
    for image in lines_of("docker image ls --format '{{.Repository}}:{{.Tag}} {{.ID}}'"):
        if image.startswith("argus/mock:"):
            programs.append(image)
        elif image.split()[0] not in asked:
            labels = lines_of(f"docker image inspect --format '{{{{json .Config.Labels}}}} {{{{.RepoTags}}}}' {image.split()[1]}")
            left.append(f"image {image} {labels[0]}")
    if len(programs) > 1:
        left += [f"image {image}" for image in programs]
    return left


def shared_ports(names):
    """The ports that two projects have in their files. All projects run in one network."""
    owners = {}
    for name in names:
        for path in files_of(HERE / name):
            if path != "case.toml":
                for port in re.findall(r"\b184\d\d\b", (HERE / name / path).read_text(errors="replace")):
                    owners.setdefault(port, set()).add(name)
    return [f"{port}: {', '.join(sorted(owner))}" for port, owner in owners.items() if len(owner) > 1]


def main():
    names = sorted(path.parent.name for path in HERE.glob("*/case.toml"))
    wanted = sys.argv[1:] or names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        sys.exit(f"unknown project {unknown[0]}; available: {', '.join(names)}")
    if shared := shared_ports(names):
        sys.exit("projects with the same port: " + "; ".join(shared))
    for tag, stage in IMAGES.items():
        lines_of(f"docker build --quiet --target {stage} --tag {tag} {HERE / 'images'}")
    # Layers of the stages are no images of Argus.
    lines_of("docker image prune --force")
    projects = [Project(name) for name in wanted]
    with ThreadPoolExecutor(PARALLEL) as pool:
        ended = list(pool.map(Project.run, projects))
    passed = all(project.passed for project in ended)
    lines_of(f"cd {projects[0].folder} && argus prune --yes")
    left = left_on_engine(projects)
    empty = "FAILED" if left else "ok"
    passed = passed and not left
    for line in left:
        print(f"left on the engine: {line}")
    print(f"\n{'project':17} {'kind':62} {'steps':>7} {'time':>7}  result")
    for project in ended:
        count = sum(result != "FAILED" for _, result in project.steps)
        failed = [name for name, result in project.steps if result == "FAILED"]
        result = "ok" if project.passed else "FAILED: " + ", ".join(failed)
        print(f"{project.name:17} {project.case['kind']:62} {count:3}/{len(project.steps):3} {project.seconds:5.0f} s  {result}")
    print(f"{'engine':17} {'nothing is left after `argus prune --yes`':62} {'':7} {'':7}  {empty}")
    sys.exit(0 if passed else 1)


main()
