#!/usr/bin/env python3
"""Compares the containers of Docker Compose with those of `argus up`; see scripts/compose-compare."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 180

# Programs of stand-in images, which succeed and do nothing. A shell of busybox runs its own `wget` instead.
TOOLS = "pg_isready curl redis-cli valkey-cli mysqladmin mc pip pip3 ollama n8n".split()
# Programs that behave as the main process of an image.
SERVERS = "nodemon memcached /usr/local/bin/docker-entrypoint.sh".split()
# Projects that mount a folder below one that their containers can write.
TRUSTED = ["superset"]
USERS = "root:0 node:1000 gotenberg:1001 temporal:5000 unit:999 nobody:65534".split()

# A main process: it ends after a migration, and otherwise serves HTTP on the ports in LISTEN.
STAND_IN = r"""#!/bin/sh
case "$*" in *migrate*|*collectstatic*) exit 0;; esac
for port in $LISTEN; do busybox httpd -p "$port" -h /www || exit 1; done
exec sleep 1000000
"""


def run(words, check=True, **options):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, **options)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: exit code {done.returncode}\n{done.stdout}")
    return done


def docker(*words, check=True, **options):
    environment = {**os.environ, "DOCKER_BUILDKIT": "0", "DOCKER_CLI_HINTS": "false"}
    return run(["docker", *words], check, env=environment, **options).stdout


def build_images():
    """Builds the images that the projects name, from busybox."""
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/stand-in", STAND_IN)
        write(f"{folder}/succeed", "#!/bin/sh\nexit 0\n")
        write(f"{folder}/passwd", "".join("%s:x:%s:0::/:/bin/sh\n" % tuple(user.split(":")) for user in USERS))
        write(f"{folder}/group", "root:x:0:\n")
        tools = "; ".join(f"busybox rm -f /bin/{name}; busybox ln -s succeed /bin/{name}" for name in TOOLS)
        paths = [name if name.startswith("/") else f"/bin/{name}" for name in SERVERS]
        servers = "; ".join(f"busybox mkdir -p {os.path.dirname(path)}; busybox ln -s /bin/stand-in {path}" for path in paths)
        write(
            f"{folder}/Dockerfile",
            "FROM busybox:local\n"
            "COPY stand-in succeed /bin/\nCOPY passwd group /etc/\n"
            f"RUN busybox chmod 755 /bin/stand-in /bin/succeed && mkdir -p /www /home/memcache && touch /www/ping && busybox chmod 777 /home/memcache; {tools}; {servers}\n"
            'ENV LISTEN=""\nENTRYPOINT ["/bin/stand-in"]\nCMD ["run"]\n',
        )
        docker("build", "--tag", "stand-in:local", folder)
        with open(f"{HERE}/images.json") as file:
            images = json.load(file)
        for name, image in images.items():
            lines = ["FROM stand-in:local", *image.get("lines", [])]
            if "listen" in image:
                lines.append('ENV LISTEN="%s"' % " ".join(map(str, image["listen"])))
            write(f"{folder}/image/Dockerfile", "\n".join(lines) + "\n")
            docker("build", "--tag", name, f"{folder}/image")


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def remove_all():
    """Removes all containers, networks and volumes of the engine, which belongs to this run."""
    for command, more in (("ps --all", "rm --force --volumes"), ("volume ls", "volume rm --force")):
        found = docker(*command.split(), "--quiet").split()
        if found:
            docker(*more.split(), *found)
    docker("network", "prune", "--force")


def inspect_all():
    found = docker("ps", "--all", "--quiet").split()
    return json.loads(docker("inspect", *found)) if found else []


def service_of(container):
    """Name of the service; a further replica of Compose has the name that Argus gives it."""
    labels = container["Config"]["Labels"] or {}
    # An image that Compose built has labels of Compose, which containers of Argus inherit.
    if "argusai.service" in labels:
        return labels["argusai.service"]
    number = labels.get("com.docker.compose.container-number", "1")
    service = labels.get("com.docker.compose.service")
    if service and number != "1":
        return f"{service}-{number}"
    return service


def dependencies(labels):
    compose = labels.get("com.docker.compose.depends_on")
    if compose is not None:
        return sorted(part.split(":")[0] for part in compose.split(",") if part)
    return sorted(part for part in re.split(r"[ ,]+", labels.get("argusai.depends-on", "")) if part)


def capabilities(names):
    """Both spellings mean the same capability."""
    return sorted(name.removeprefix("CAP_") for name in names or [])


def volume_name(name):
    if re.fullmatch("[0-9a-f]{64}", name):
        return "(anonymous)"
    return re.sub(r"^[a-z0-9-]+_", "", name)


def size_of(text):
    match = re.search(r"size=(\d+)([kmg]?)", text)
    return int(match[1]) << {"": 0, "k": 10, "m": 20, "g": 30}[match[2]] if match else 0


def closure(graph, name):
    """All direct and indirect dependencies, because the label of Argus has both."""
    found, rest = set(), list(graph.get(name, []))
    while rest:
        other = rest.pop()
        if other not in found:
            found.add(other)
            rest.extend(graph.get(other, []))
    # A dependency on a service is one on all its replicas.
    replicas = {other for other in found if re.sub(r"-\d+$", "", other) in graph.keys() - {other}}
    return sorted(found - replicas)


def facts_of(container, folder, peers):
    """The facts of a container that a user notices, without names that each program chooses."""
    config, host = container["Config"], container["HostConfig"]
    labels = config["Labels"] or {}
    own = {container["Name"].lstrip("/"), container["Id"][:12]}
    networks = container["NetworkSettings"]["Networks"]
    facts = {
        "command": config["Cmd"],
        "entrypoint": config["Entrypoint"],
        "user": config["User"],
        "workingDir": config["WorkingDir"],
        "state": [container["State"]["Status"], container["State"]["ExitCode"]],
        "stopSignal": config.get("StopSignal") or "SIGTERM",
        "stopTimeout": config.get("StopTimeout") or 10,
        "tty": config["Tty"],
        "stdin": config["OpenStdin"],
        # A container without an own network has the host name of another one.
        "hostname": "" if config["Hostname"] in own | {peer["Id"][:12] for peer in peers.values()} else config["Hostname"],
        "domainname": config["Domainname"],
        "healthcheck": (config.get("Healthcheck") or {}).get("Test"),
        "networks": sorted(re.sub("^argusai-.*-network$", "default", re.sub(r"^[a-z0-9-]+_", "", name)) for name in networks),
        "restart": host["RestartPolicy"]["Name"],
        "init": bool(host.get("Init")),
        "logging": [host["LogConfig"]["Type"], host["LogConfig"]["Config"]],
        "securityOpt": host.get("SecurityOpt") or [],
        "pidsLimit": host.get("PidsLimit") or 0,
        "memory": host["Memory"],
        "swap": host["MemorySwap"],
        "cpus": host["NanoCpus"],
        "privileged": host["Privileged"],
        "capAdd": capabilities(host.get("CapAdd")),
        "capDrop": capabilities(host.get("CapDrop")),
        "readOnly": host["ReadonlyRootfs"],
        "groups": host.get("GroupAdd") or [],
        "sysctls": host.get("Sysctls") or {},
        "dns": [host.get("Dns") or [], host.get("DnsSearch") or [], host.get("DnsOptions") or []],
        "ulimits": sorted((limit["Name"], limit["Soft"], limit["Hard"]) for limit in host.get("Ulimits") or []),
        "devices": host.get("Devices") or [],
        "sharedNetwork": next((name for name, peer in peers.items() if host["NetworkMode"] == "container:" + peer["Id"]), ""),
        "modes": [host["PidMode"], host["UTSMode"], host.get("UsernsMode", "")],
        "dependsOn": closure({name: dependencies(peer["Config"]["Labels"]) for name, peer in peers.items()}, service_of(container)),
    }
    aliases = {alias for network in networks.values() for alias in network["Aliases"] or []}
    aliases |= {service_of(container)}
    facts["aliases"] = sorted(aliases - own)
    for entry in config["Env"]:
        name, equals, value = entry.partition("=")
        # Without a value, the entry removes a variable of the image.
        if not equals:
            continue
        facts[f"environment.{name}"] = value
    for name, value in labels.items():
        if not name.startswith(("com.docker.compose.", "argusai.")):
            facts[f"labels.{name}"] = value
    for port, bindings in (host["PortBindings"] or {}).items():
        for binding in bindings:
            facts[f"ports.{binding['HostIp'] or '0.0.0.0'}:{binding['HostPort'] or 'any'}"] = port
    for entry in host.get("ExtraHosts") or []:
        name, _, address = entry.replace("=", ":", 1).partition(":")
        facts[f"extraHosts.{name}"] = address
    memory = {target: size_of(options) for target, options in (host.get("Tmpfs") or {}).items()}
    for mount in host.get("Mounts") or []:
        if mount["Type"] == "tmpfs":
            memory[mount["Target"]] = (mount.get("TmpfsOptions") or {}).get("SizeBytes", 0)
    if host["ShmSize"] != 64 << 20:
        memory["/dev/shm"] = host["ShmSize"]
    for target, size in memory.items():
        facts[f"tmpfs.{target}"] = size
    for mount in container["Mounts"]:
        if mount["Type"] == "bind":
            source = os.path.relpath(mount["Source"], folder)
        elif mount["Type"] == "volume":
            source = volume_name(mount["Name"])
        else:
            continue
        facts[f"mounts.{mount['Destination']}"] = [mount["Type"], source, "rw" if mount["RW"] else "ro"]
    started = container["State"]["StartedAt"]
    late = [name for name in facts["dependsOn"] if name in peers and peers[name]["State"]["StartedAt"] > started]
    facts["startedBefore"] = late
    return facts


def settled():
    """Inspects the containers once none has started or ended for three seconds: `up --detach` does not wait for jobs."""
    previous, since = None, time.monotonic()
    deadline = since + 30
    while True:
        containers = inspect_all()
        states = sorted((container["Id"], container["State"]["StartedAt"], container["State"]["Status"]) for container in containers)
        now = time.monotonic()
        if states == previous and now - since >= 3 or now > deadline:
            return containers
        if states != previous:
            previous, since = states, now
        time.sleep(0.5)


def all_facts(folder):
    containers = {service_of(container): container for container in settled()}
    return {name: facts_of(container, folder, containers) for name, container in containers.items()}


class Project:
    def __init__(self, name, options):
        self.name = name
        self.options = options
        self.base = tempfile.mkdtemp(prefix="compose-", dir="/tmp")
        self.folder = f"{self.base}/{name}"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": f"{self.base}/home",
            "LANG": "C.UTF-8",
            "DOCKER_HOST": os.environ["DOCKER_HOST"],
            "XDG_STATE_HOME": f"{self.base}/state",
            "ARGUS_LISTEN": "off",
            # By default, Argus publishes ports without an address on 127.0.0.1 only.
            "ARGUS_PUBLISH_ADDRESS": "0.0.0.0",
            "NO_COLOR": "1",
        }
        shutil.copytree(f"{HERE}/{name}", self.folder)
        os.makedirs(f"{self.folder}/.git")
        os.makedirs(f"{self.base}/home")
        self.file = next(
            file
            for file in ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
            if os.path.exists(f"{self.folder}/{file}")
        )

    def call(self, *words, check=True):
        return run(list(words), check, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL)

    def by_compose(self):
        self.call(self.options.compose, "--progress", "quiet", "up", "--detach")
        facts = all_facts(self.folder)
        remove_all()
        return facts

    def by_argus(self):
        """Returns the facts, and the notes about parts without a counterpart."""
        if self.name in TRUSTED:
            self.call(self.options.argus, "allow")
        validated = self.call(self.options.argus, "validate", self.file)
        self.call(self.options.argus, "up", "--keep", "--timeout", "100s", "--", "true")
        facts = all_facts(self.folder)
        remove_all()
        return facts, validated.stdout

    def remove(self):
        shutil.rmtree(self.base, ignore_errors=True)


def differences(ours, theirs):
    """Yields service, key, value of Compose, value of Argus."""
    for service in sorted(ours.keys() | theirs.keys()):
        if service not in ours or service not in theirs:
            yield service, "service", service in theirs, service in ours
            continue
        mine, other = ours[service], theirs[service]
        for key in sorted(mine.keys() | other.keys()):
            if mine.get(key) != other.get(key):
                yield service, key, other.get(key), mine.get(key)


class Allowed:
    """Differences by decision, with their reasons, and known faults."""

    def __init__(self):
        with open(f"{HERE}/allowed.json") as file:
            self.entries = json.load(file)
        self.used = set()

    def find(self, project, service, key, theirs, ours, notes):
        for index, entry in enumerate(self.entries):
            if not re.fullmatch(entry["key"], key):
                continue
            if entry.get("project", project) != project or entry.get("service", service) != service:
                continue
            if "argus" in entry and entry["argus"] != ours or "compose" in entry and entry["compose"] != theirs:
                continue
            # A part that Argus leaves out must be reported for this service.
            note = entry.get("note", "")
            if note and not re.search(f"left out of `{re.escape(service)}`: .*{re.escape(note)}", notes) and f"left out: {note}" not in notes:
                continue
            self.used.add(index)
            return entry
        return None


def compare(name, options, allowed, table):
    """Compares one project. Returns the number of differences that are not permitted."""
    project = Project(name, options)
    remove_all()
    try:
        theirs = project.by_compose()
        ours, notes = project.by_argus()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        entry = allowed.find(name, "", "start", None, str(error), "")
        kind = "known" if entry else "different"
        table.setdefault("start", {"different": 0, "known": 0, "allowed": 0})[kind] += 1
        print(f"{name}: start: {kind}: {entry['known'] if entry else error}", flush=True)
        return 0 if entry else 1
    finally:
        remove_all()
        project.remove()
    wrong = 0
    for service, key, other, mine in differences(ours, theirs):
        entry = allowed.find(name, service, key, other, mine, notes)
        kind = "different" if entry is None else "known" if "known" in entry else "allowed"
        table.setdefault(key.partition(".")[0], {"different": 0, "known": 0, "allowed": 0})[kind] += 1
        wrong += kind == "different"
        if kind != "allowed" or options.verbose:
            reason = entry and (entry.get("known") or entry["reason"])
            print(f"{name}/{service}: {key}: {kind}: Compose {json.dumps(other)}, Argus {json.dumps(mine)}" + (f" ({reason})" if reason else ""))
    left_out = notes.count("left out")
    print(f"{name}: {len(ours)} services, {wrong} differences, {left_out} notes", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--argus", required=True)
    parser.add_argument("--compose", required=True)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    every = sorted(name for name in os.listdir(HERE) if os.path.isdir(f"{HERE}/{name}"))
    unknown = set(options.names) - set(every)
    if unknown:
        sys.exit(f"unknown projects: {', '.join(sorted(unknown))}; known: {', '.join(every)}")
    names = options.names or every
    build_images()
    allowed, table = Allowed(), {}
    wrong = sum(compare(name, options, allowed, table) for name in names)
    print(f"\n{'key':20}{'different':>10}{'known':>10}{'allowed':>10}")
    for key, counts in sorted(table.items()):
        print(f"{key:20}{counts['different']:>10}{counts['known']:>10}{counts['allowed']:>10}")
    if names == every:
        for index, entry in enumerate(allowed.entries):
            if index not in allowed.used and "known" in entry:
                print(f"gone, so remove it from allowed.json: {json.dumps(entry)}")
                wrong += 1
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
