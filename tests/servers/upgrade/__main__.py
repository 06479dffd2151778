#!/usr/bin/env python3
"""Writes the upgrade fixture of one version of Tenure, by driving that version over HTTP.

python3 tests/servers/upgrade TENURE WORLD FOLDER

TENURE is the program of the version (a release build), WORLD the simulated platform of the same version
(`cargo build -p tests --bin world`), FOLDER the new folder, such as tests/golden/upgrade/0.2. Needs tar, xz and the
programs of a PostgreSQL server. The scenes are played twice: once on the embedded store, once on PostgreSQL. The fixture
of a version is never changed: write it once, before the version is released.

FOLDER receives `manifest.json`, `embedded.tar.xz` (a whole data folder), `postgres.tar.xz` (the data folder beside the
database) and `postgres.sql.xz` (pg_dump). No server runs while a folder is packed; each is killed, not stopped, so that
actions are under way.
"""

import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import scenes
from served import Postgres, Tenure, World


def seats(*roles):
    return "[" + ", ".join(f"{{any_of: [{role}], count: 1}}" for role in roles) + "]"


TWO = seats("platform_ops", "security")

# Every decision needs two users, so that one vote leaves it open.
POLICY = f"""\
policy: platform
version: VERSION
approvals:
  onboarding: {{within: 5d, seats: {TWO}}}
  quota_increase: {{within: 5d, seats: {TWO}}}
  quota_decrease: {{within: 5d, seats: {TWO}}}
  reclaim: {{within: 1h, seats: {TWO}}}
  offboard: {{within: 5d, seats: {seats("platform_ops", "dpo")}}}
  destroy: {{within: 10d, seats: {seats("compliance", "security")}}}
  sla_change: {{within: 5d, seats: {TWO}}}
  incident: {{within: 1h, seats: {TWO}}}
capacity:
  settle: SETTLE
reclaim:
  deadline: 4h
  grace: GRACE
  confirm: {{reads: 2, apart: 1s}}
  limits: {{evict: 30m}}
"""


def policy(version, grace, settle):
    text = POLICY.replace("VERSION", str(version)).replace("GRACE", grace)
    return text.replace("SETTLE", settle)


def nodes(prefix, count, model):
    rows = [f"{prefix}-{n},96000,786432,8,{model}" for n in range(1, count + 1)]
    return "\n".join(["sn,cpu_milli,memory_mib,gpu,model", *rows]) + "\n"


def play(tenure):
    """All scenes; what is short-lived comes last."""
    for prefix, count, model in [("h", 60, "H100"), ("a", 1, "A100"), ("t", 1, "T4"), ("p", 1, "P100"), ("l", 1, "L40S")]:
        tenure.post("/v1/fleet:import?cluster=eu-1&region=eu", nodes(prefix, count, model), "text/csv")
    tenure.post("/v1/policies", policy(3, "3s", "1s"), "application/yaml")
    tenure.tenant("on-l40s", model="L40S")
    scenes.shortages(tenure)
    scenes.increase_on_waitlist(tenure)
    scenes.quick_reclaims(tenure)
    tenure.post("/v1/policies", policy(4, "30m", "30m"), "application/yaml")
    scenes.offboardings(tenure)
    scenes.increases(tenure)
    scenes.decreases(tenure)
    scenes.terms(tenure)
    scenes.incidents(tenure)
    scenes.onboardings(tenure)
    scenes.open_shortages(tenure)
    scenes.patient_reclaims(tenure)
    tenure.post("/v1/policies", policy(5, "3s", "30m"), "application/yaml")
    scenes.clinging(tenure)


def manifest(tenure):
    """What is on the list, as the server tells of it, and whatever else is open."""
    listed = {entry["id"] for entry in tenure.entries}
    executions = []
    for entry in tenure.entries:
        shown = tenure.show(entry["id"])
        names = ["workflow", "tenant", "subject", "state", "phase", "reason", "open"]
        executions.append({"id": entry["id"], **{name: shown[name] for name in names}, **entry})
    others = [row for row in tenure.items("/v1/executions?open=true&limit=1000") if row["id"] not in listed]
    assert not others, others
    certificates = [row["id"] for row in tenure.items("/v1/certificates")]
    assert certificates
    return {
        "written_at_ms": int(time.time() * 1000),
        "tokens": tenure.tokens,
        "certificates": certificates,
        "executions": executions,
    }


def packed(data, file):
    options = ["--sort=name", "--owner=0", "--group=0", "--exclude=*.blank", "--exclude=LOCK"]
    subprocess.run(["tar", "-C", data, *options, "-cJf", file, "."], check=True, env={**os.environ, "XZ_OPT": "-9"})


def write(programs, folder, store):
    """Plays the scenes on one store and packs what they left; answers with its part of the manifest."""
    with tempfile.TemporaryDirectory(prefix="tenure-fixture-") as place:
        place = Path(place)
        data = place / "data"
        data.mkdir()
        database = Postgres(place) if store == "postgres" else None
        errors = None if os.environ.get("VERBOSE") else subprocess.DEVNULL
        world = World(programs[1], data / "world.log", errors)
        tenure = Tenure(programs[0], data, world, database, errors)
        try:
            play(tenure)
            told = manifest(tenure)
        finally:
            tenure.kill()
            if database and sys.exc_info()[0]:
                database.stop()
        if database:
            (folder / "postgres.sql.xz").write_bytes(lzma.compress(database.dump(), preset=9))
            database.stop()
        packed(data, folder / f"{store}.tar.xz")
        return told


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    programs, folder = [Path(program).resolve() for program in sys.argv[1:3]], Path(sys.argv[3])
    version = subprocess.run([programs[0], "--version"], check=True, capture_output=True, text=True).stdout.split()[1]
    if folder.exists():
        sys.exit(f"{folder} exists: the fixture of a version is never changed")
    folder.mkdir(parents=True)
    told = {"version": version, **{store: write(programs, folder, store) for store in ["embedded", "postgres"]}}
    (folder / "manifest.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
