"""The programs of one version, run as processes: the simulated platform, a database, and the server."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

PATIENCE = 60

PEOPLE = {
    "olga": ["platform_ops"],
    "cora": ["capacity_manager"],
    "fina": ["finance"],
    "sven": ["security"],
    "carl": ["compliance"],
    "dora": ["dpo"],
}



def request(name, tier="research", gpus=8, model="H100", quota=4):
    return f"""\
name: {name}
tenant:
  tier: {tier}
  isolation: dedicated
  data_residency: eu-only
  allow_preemption: true
  allow_gpu_sharing: false
entitlement: {{gpu_model: {model}, gpus: {gpus}}}
workspaces:
  - {{name: serving, class: production, quotas: {{gpus: {quota}}}}}
  - {{name: research, class: research, quotas: {{gpus: {quota}}}}}
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def call(url, method="GET", body=None, media="application/json", token=None):
    """The status and the body of an answer, decoded if it is JSON."""
    if body is not None and not isinstance(body, str):
        body = json.dumps(body)
    data = body.encode() if body is not None else None
    headers = {"content-type": media}
    if token:
        headers["authorization"] = f"Bearer {token}"
    asked = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            status, text = answer.status, answer.read().decode()
    except urllib.error.HTTPError as answer:
        status, text = answer.code, answer.read().decode()
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text


def started(command, ready, log, **options):
    """A process that has said `ready`, and the line in which it did."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, **options)
    for line in process.stdout:
        if ready in line:
            return process, line.strip()
    raise SystemExit(f"{command} ended without saying {ready!r}")


class World:
    """The simulated platform, with the faults of all scenes so far."""

    def __init__(self, program, log, errors):
        command = [program, "--listen", "127.0.0.1:0", "--log", log]
        self.process, line = started(command, "listening on", errors)
        self.url = "http://" + line.rsplit(" ", 1)[1]
        self.faults = []

    def fault(self, action, name, what, verb=None):
        """Every later call of the action about a thing of this name goes wrong; of all but reads, or of one verb."""
        self.faults.append({"action": action, "name": name, "times": 0, "what": what, "verb": verb})
        status, said = call(f"{self.url}/script", "POST", {"faults": self.faults})
        assert status == 200, said

    def run(self, workload):
        """Starts an admitted workload, as its cluster does by itself."""
        name, tenant = f"{workload['tenant']}/{workload['name']}", workload["tenant"]
        gpus = {part["node"]: [int(gpu) for gpu in part["gpus"]] for part in workload["placed"]}
        spec = {"workspace": workload["workspace"], "active": True, "pods": True, "gpus": gpus}
        asked = {"action": "Cluster", "step": f"cluster: {name}", "key": f"cluster: {name}", "epoch": 0}
        asked |= {"deadline_ms": 10_000, "system": "kubernetes", "cluster": "eu-1", "verb": "run"}
        asked |= {"kind": "Workload", "name": name, "tenant": tenant, "spec": spec}
        status, said = call(f"{self.url}/call", "POST", asked)
        assert status == 200 and "Ok" in said, said


class Postgres:
    """A server of its own, with one database."""

    def __init__(self, folder):
        self.packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        beside = shutil.which("initdb")
        self.bin = Path(beside).parent if beside else self.packaged[0]
        self.port = free_port()
        self.data = folder / "postgres"
        folder.chmod(0o755)
        self.data.mkdir()
        self.options = {}
        if os.geteuid() == 0:
            os.chown(self.data, 65534, 65534)
            self.options = {"user": 65534, "group": 65534}
        quiet = {**self.options, "check": True, "stdout": subprocess.DEVNULL, "cwd": "/"}
        self.quiet = quiet
        initdb = ["initdb", "-D", self.data, "-U", "tenure", "-A", "trust", "--locale=C", "-E", "UTF8"]
        subprocess.run([self.bin / initdb[0], *initdb[1:]], **quiet)
        settings = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        log = self.data / "log"
        subprocess.run([self.bin / "pg_ctl", "-D", self.data, "-w", "-l", log, "-o", settings, "start"], **quiet)

    def url(self):
        return f"postgres://tenure@127.0.0.1:{self.port}/postgres?sslmode=disable"

    def dump(self):
        """The schema and its rows, as plain SQL that older and newer servers take."""
        beside = [place / "pg_dump" for place in [self.bin, *self.packaged]]
        program = next(path for path in beside if path.exists())
        command = [program, "-h", "127.0.0.1", "-p", str(self.port), "-U", "tenure"]
        command += ["--no-owner", "--no-privileges", "--schema", "tenure", "postgres"]
        lines = subprocess.run(command, check=True, capture_output=True, cwd="/").stdout.splitlines(True)
        mine = (b"\\restrict", b"\\unrestrict", b"SET transaction_timeout")
        return b"".join(line for line in lines if not line.startswith(mine))

    def stop(self):
        subprocess.run([self.bin / "pg_ctl", "-D", self.data, "-m", "immediate", "stop"], **self.quiet)


class Tenure:
    """A server of the version on a data folder, called as its admin."""

    def __init__(self, program, data, world, database, errors):
        self.world = world
        self.data = data
        self.entries = []
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        environment |= {"TENURE_HTTP_RATE": "0", "TENURE_LOG": "error", "TENURE_PLATFORM": world.url,
                        "TENURE_TRIAL": "true"}
        if database:
            environment |= {"TENURE_STORE_URL": database.url(), "TENURE_STORE_SCHEMA": "tenure"}
        command = [program, "serve", "--data", data, "--listen", "127.0.0.1:0"]
        self.process, line = started(command, "listens on", errors, env=environment)
        self.url = line.rsplit(" ", 1)[1]
        self.admin = (data / "admin.token").read_text().strip()
        self.tokens = {"admin": self.admin}
        for name, roles in PEOPLE.items():
            added = self.post("/v1/users", {"name": name, "roles": roles})
            self.tokens[name] = added["token"]

    def get(self, path):
        status, said = call(self.url + path, token=self.admin)
        assert status == 200, (path, said)
        return said

    def post(self, path, body, media="application/json", by="admin"):
        status, said = call(self.url + path, "POST", body, media, self.tokens[by])
        assert status < 300, (path, status, said, body)
        return said

    def items(self, path):
        return self.get(path)["items"]

    def start(self, path, body, media="application/json"):
        return self.post(path, body, media)["id"]

    def show(self, execution):
        return self.get(f"/v1/executions/{execution}")

    def until(self, execution, holds, what):
        """The execution once `holds` of it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            shown = self.show(execution)
            if holds(shown):
                return shown
            time.sleep(0.05)
        told = {name: value for name, value in shown.items() if name not in ("plan", "data", "trail")}
        raise SystemExit(f"{execution} does not come to {what}: {json.dumps(told)}")

    def phase(self, execution, phase):
        return self.until(execution, lambda shown: shown["phase"] == phase, phase)

    def state(self, execution, state):
        return self.until(execution, lambda shown: shown["state"] == state, state)

    def asked(self, execution, state=None):
        def waits(shown):
            return waiting(shown).get("approval") and state in (None, shown["state"])

        return self.until(execution, waits, state or "an approval")

    def finished(self, execution, reason="completed"):
        shown = self.phase(execution, "finished")
        assert shown["reason"] == reason, shown
        return shown

    def undoing(self, execution):
        """The execution once an undo has failed and is going to be tried again."""
        return self.until(
            execution,
            lambda shown: shown["phase"] == "compensating" and shown["attempts"],
            "a failed undo",
        )

    def vote(self, execution, *people):
        for person in people:
            digest = waiting(self.show(execution))["approval"]["digest"]
            body = {"digest": digest, "reason": "upgrade fixture"}
            self.post(f"/v1/approvals/{execution}:approve", body, by=person)

    def onboard(self, name, **more):
        return self.start("/v1/tenants", request(name, **more), "application/yaml")

    def tenant(self, name, **more):
        """A tenant in service."""
        execution = self.onboard(name, **more)
        self.finished(execution)
        return execution

    def keep(self, execution, condition, expected):
        """Puts an execution on the list, with its condition now and the reason with which it is to finish."""
        self.entries.append({"id": execution, "condition": condition, "expected": expected})

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.world.process.kill()
        self.world.process.wait()


def waiting(shown):
    return shown["waiting_for"] or {}
