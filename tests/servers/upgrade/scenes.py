"""One function for each part of the product: puts executions into their conditions and on the list."""

import time

from served import PATIENCE, waiting

def onboardings(tenure):
    world = tenure.world
    world.fault("CreateBucket", "*on-undo*", "refuse_before")
    world.fault("DeleteQueue", "*on-undo*", "fail_before")
    world.fault("CreateBucket", "*on-blocked*", "refuse_before")
    world.fault("DeleteNamespace", "*on-blocked*", "refuse_before")
    world.fault("PublishCredentials", "*on-parked*", "refuse_before")
    world.fault("CreateBucket", "*on-way*", "hang")
    ids = {name: tenure.onboard(name) for name in ["on-done", "on-undo", "on-blocked", "on-parked", "on-way"]}
    tenure.finished(ids["on-done"])
    tenure.keep(ids["on-done"], "completed", "completed")
    tenure.undoing(ids["on-undo"])
    tenure.keep(ids["on-undo"], "undo pending", "rolled_back")
    tenure.phase(ids["on-blocked"], "parked")
    tenure.keep(ids["on-blocked"], "parked, undo refused", "rolled_back")
    tenure.phase(ids["on-parked"], "parked")
    tenure.keep(ids["on-parked"], "parked past the pivot", "completed")
    tenure.state(ids["on-way"], "CreatingBucket")
    tenure.keep(ids["on-way"], "action under way", "completed")

    vote = tenure.onboard("on-vote", tier="enterprise", gpus=16)
    tenure.asked(vote)
    tenure.vote(vote, "olga")
    tenure.keep(vote, "approval with one vote", "completed")
    wait = tenure.onboard("on-wait", model="L40S")
    tenure.state(wait, "Waitlisted")
    tenure.keep(wait, "waits for capacity", "completed")


# -------------------------------------------------------------------- quotas


def quota(tenure, tenant, **change):
    body = {"tenant": tenant, "workspace": "research", "resource": "gpu/H100", "reason": "fixture", **change}
    return tenure.start("/v1/quota-requests", body)


def increases(tenure):
    world = tenure.world
    for name in ["qi-done", "qi-vote", "qi-undo", "qi-parked"]:
        tenure.tenant(name, quota=2)
    done = quota(tenure, "qi-done", by=1)
    tenure.finished(done)
    tenure.keep(done, "completed", "completed")
    vote = quota(tenure, "qi-vote", by=3)
    tenure.asked(vote)
    tenure.vote(vote, "sven")
    tenure.keep(vote, "approval with one vote", "completed")
    world.fault("ChangeQueueQuota", "*qi-undo*", "refuse_before")
    world.fault("RestoreCohortQuota", "*qi-undo*", "fail_before")
    undo = quota(tenure, "qi-undo", by=1)
    tenure.undoing(undo)
    tenure.keep(undo, "undo pending", "rolled_back")
    world.fault("KeepLimits", "*qi-parked*", "refuse_before", "read")
    parked = quota(tenure, "qi-parked", by=1)
    tenure.phase(parked, "parked")
    tenure.keep(parked, "parked past the pivot", "completed")


def increase_on_waitlist(tenure):
    """All nodes of the model are the tenant's own; more was asked for than it has."""
    tenure.tenant("qi-wait", model="A100")
    change = {"by": 8, "resource": "gpu/A100", "until": "2099-01-01T00:00:00Z", "exception": True}
    wait = quota(tenure, "qi-wait", **change)
    tenure.asked(wait)
    tenure.vote(wait, "olga", "sven", "cora", "fina")
    tenure.state(wait, "WaitingForCapacity")
    tenure.keep(wait, "waits for capacity", "completed")


def decreases(tenure):
    world = tenure.world
    for name in ["qd-done", "qd-vote", "qd-wait", "qd-undo", "qd-parked"]:
        tenure.tenant(name)
    done = quota(tenure, "qd-done", to=2)
    tenure.finished(done)
    tenure.keep(done, "completed", "completed")
    world.fault("ChangeCohortQuota", "*qd-undo*", "refuse_before")
    world.fault("RestoreQueueQuota", "*qd-undo*", "fail_before")
    undo = quota(tenure, "qd-undo", to=2)
    tenure.undoing(undo)
    tenure.keep(undo, "undo pending", "rolled_back")
    world.fault("ChangeCohortQuota", "*qd-parked*", "refuse_before")
    world.fault("RestoreQueueQuota", "*qd-parked*", "refuse_before")
    parked = quota(tenure, "qd-parked", to=2)
    tenure.phase(parked, "parked")
    tenure.keep(parked, "parked, undo refused", "rolled_back")
    for name in ["qd-vote", "qd-wait"]:
        runs(tenure, name, "research", "runs", 4)
        runs(tenure, name, "serving", "runs-too", 4)
        execution = quota(tenure, name, to=2)
        tenure.asked(execution)
        tenure.vote(execution, "olga")
        if name == "qd-vote":
            tenure.keep(execution, "approval with one vote", "completed")
        else:
            tenure.vote(execution, "sven")
            tenure.state(execution, "DrainingExcess")
            tenure.keep(execution, "waits for use to fall", "completed")


# -------------------------------------------------------------------- terms


def sla(tenure, tenant, **change):
    return tenure.start("/v1/sla-changes", {"tenant": tenant, "tier": "standard", "reason": "fixture", **change})


def terms(tenure):
    world = tenure.world
    names = ["sc-done", "sc-vote", "sc-wait", "sc-undo", "sc-parked"]
    for name in names:
        tenure.tenant(name)
    world.fault("ChangeNamespaceLabels", "*sc-undo--research", "refuse_before")
    world.fault("RestoreNamespaceLabels", "*sc-undo*", "fail_before")
    world.fault("ChangeNamespaceLabels", "*sc-parked--research", "refuse_before")
    world.fault("RestoreNamespaceLabels", "*sc-parked*", "refuse_before")
    ids = {}
    for name in names:
        more = {"not_before": "2098-01-01T00:00:00Z"} if name == "sc-wait" else {}
        ids[name] = sla(tenure, name, **more)
        tenure.asked(ids[name])
        tenure.vote(ids[name], *(["sven"] if name == "sc-vote" else ["sven", "olga"]))
    tenure.keep(ids["sc-vote"], "approval with one vote", "completed")
    tenure.finished(ids["sc-done"])
    tenure.keep(ids["sc-done"], "completed", "completed")
    tenure.state(ids["sc-wait"], "AwaitingWindow")
    tenure.keep(ids["sc-wait"], "waits for its window", "completed")
    tenure.undoing(ids["sc-undo"])
    tenure.keep(ids["sc-undo"], "undo pending", "rolled_back")
    tenure.phase(ids["sc-parked"], "parked")
    tenure.keep(ids["sc-parked"], "parked, undo refused", "rolled_back")


# -------------------------------------------------------------------- incidents and shortages


def node_of(tenure, tenant):
    return tenure.items(f"/v1/nodes?owner={tenant}")[0]["id"]


def fault_on(tenure, tenant):
    report = {"kind": "gpu_fault", "node": node_of(tenure, tenant), "evidence": "XID 79"}
    return tenure.start("/v1/incidents", report)


def incidents(tenure):
    world = tenure.world
    for name in ["in-done", "in-vote", "in-undo", "in-parked", "in-clear"]:
        tenure.tenant(name)
    done = tenure.start("/v1/incidents", {"kind": "isolation_breach", "tenants": ["in-done"], "evidence": "a packet"})
    tenure.asked(done, "AwaitingClearance")
    tenure.vote(done, "olga", "sven")
    tenure.asked(done, "AwaitingReview")
    tenure.vote(done, "olga")
    tenure.finished(done)
    tenure.keep(done, "completed", "completed")
    clear = tenure.start("/v1/incidents", {"kind": "isolation_breach", "tenants": ["in-clear"], "evidence": "a packet"})
    tenure.asked(clear, "AwaitingClearance")
    tenure.keep(clear, "approval open, tenant frozen", "completed")
    for name in ["in-vote", "in-parked", "in-undo"]:
        runs(tenure, name, "research", "runs", 4)
        world.fault("InspectGpus", node_of(tenure, name), "asks_reset")
    world.fault("EvictWorkload", "*in-parked*", "refuse_before")
    vote = fault_on(tenure, "in-vote")
    tenure.asked(vote, "AwaitingRemedy")
    tenure.vote(vote, "olga")
    tenure.keep(vote, "approval with one vote", "completed")
    parked = fault_on(tenure, "in-parked")
    tenure.asked(parked, "AwaitingRemedy")
    tenure.vote(parked, "olga", "sven")
    tenure.phase(parked, "parked")
    tenure.keep(parked, "parked past the pivot", "completed")
    undo = fault_on(tenure, "in-undo")
    tenure.asked(undo, "AwaitingRemedy")
    world.fault("UncordonNode", node_of(tenure, "in-undo"), "fail_before")
    tenure.post(f"/v1/executions/{undo}:cancel", {"reason": "fixture"})
    tenure.undoing(undo)
    tenure.keep(undo, "undo pending", "cancelled")


def shortage(tenure, model, wanted):
    report = {"region": "eu", "model": model, "wanted": wanted, "reason": "fixture", "tenants": ["on-l40s"]}
    return tenure.start("/v1/capacity-exhaustions", report)


def shortages(tenure):
    done = shortage(tenure, "T4", 0)
    tenure.finished(done)
    tenure.keep(done, "completed", "completed")


def open_shortages(tenure):
    settles = shortage(tenure, "P100", 0)
    tenure.state(settles, "Settling")
    tenure.keep(settles, "waits on a timer", "completed")
    vote = shortage(tenure, "L40S", 64)
    # One user approves the first rungs, two the purchase.
    while "finance" not in waiting(tenure.asked(vote, "AwaitingRung"))["approval"]["wanted"]:
        tenure.vote(vote, "cora")
    tenure.vote(vote, "fina")
    tenure.keep(vote, "approval with one vote", "completed")


# -------------------------------------------------------------------- reclaims


def submit(tenure, tenant, workspace, name, gpus):
    body = {"tenant": tenant, "workspace": workspace, "name": name, "requests": {"gpu/H100": gpus}}
    return tenure.post("/v1/workloads", body)


def runs(tenure, tenant, workspace, name, gpus):
    """A workload that is admitted and runs in its cluster."""
    submit(tenure, tenant, workspace, name, gpus)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        shown = tenure.get(f"/v1/workloads/{tenant}/{name}")
        if shown["state"] == "admitted":
            return tenure.world.run(shown)
        time.sleep(0.1)
    raise SystemExit(f"{tenant}/{name} is not admitted: {shown}")


def reclaim(tenure, tenant):
    """One workspace runs on what the other now wants back."""
    runs(tenure, tenant, "research", "borrows", 8)
    submit(tenure, tenant, "serving", "peak", 4)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = tenure.items(f"/v1/executions?workflow=reclaim&tenant={tenant}")
        if found:
            tenure.asked(found[0]["id"])
            return found[0]["id"]
        time.sleep(0.05)
    raise SystemExit(f"no reclaim begins for {tenant}")


def children(tenure, execution):
    shown = tenure.until(execution, lambda shown: shown["children"], "children")
    return [child["execution"] for child in shown["children"]]


def quick_reclaims(tenure):
    """Those whose victims have little time."""
    world = tenure.world
    for name in ["rc-done", "rc-parked"]:
        tenure.tenant(name)
    world.fault("StartWorkload", "*rc-parked*peak*", "refuse_before")
    done = reclaim(tenure, "rc-done")
    parked = reclaim(tenure, "rc-parked")
    tenure.vote(done, "olga", "sven")
    tenure.vote(parked, "olga", "sven")
    tenure.finished(done)
    tenure.keep(done, "completed", "completed")
    tenure.phase(parked, "parked")
    tenure.keep(parked, "parked past the pivot", "completed")


def clinging(tenure):
    """A victim that was asked to end, and has not."""
    tenure.tenant("rc-way")
    tenure.world.fault("EvictWorkload", "*rc-way*", "hang")
    execution = reclaim(tenure, "rc-way")
    tenure.vote(execution, "olga", "sven")
    tenure.state(execution, "EvictingVictims")
    victim = children(tenure, execution)[0]
    tenure.state(victim, "Evicting")
    tenure.keep(execution, "waits for its child", "completed")
    tenure.keep(victim, "action under way past the pivot", "completed")


def patient_reclaims(tenure):
    """Those whose victims have half an hour."""
    for name in ["rc-vote", "rc-wait", "rc-undo"]:
        tenure.tenant(name)
    vote = reclaim(tenure, "rc-vote")
    tenure.vote(vote, "olga")
    tenure.keep(vote, "approval with one vote", "completed")
    wait = reclaim(tenure, "rc-wait")
    tenure.vote(wait, "olga", "sven")
    tenure.state(wait, "EvictingVictims")
    victim = children(tenure, wait)[0]
    tenure.state(victim, "AwaitingExit")
    tenure.keep(wait, "waits for its child", "completed")
    tenure.keep(victim, "waits on a timer", "completed")
    tenure.world.fault("WithdrawNotice", "*rc-undo*", "fail_before")
    undo = reclaim(tenure, "rc-undo")
    tenure.vote(undo, "olga", "sven")
    tenure.state(undo, "EvictingVictims")
    victim = children(tenure, undo)[0]
    tenure.state(victim, "AwaitingExit")
    tenure.post(f"/v1/executions/{undo}:cancel", {"reason": "fixture"})
    tenure.undoing(victim)
    tenure.keep(undo, "waits for its child's undo", "cancelled")
    tenure.keep(victim, "undo pending", "cancelled")


# -------------------------------------------------------------------- offboardings


def leave(tenure, tenant):
    body = {"tenant": tenant, "basis": "contract_end", "reference": "contract 7", "reason": "fixture"}
    return tenure.start("/v1/offboardings", body)


def to_window(tenure, tenant):
    execution = leave(tenure, tenant)
    tenure.asked(execution, "AwaitingApproval")
    tenure.vote(execution, "olga", "dora")
    tenure.state(execution, "ExportWindow")
    return execution


def to_destruction(tenure, tenant):
    execution = to_window(tenure, tenant)
    tenure.post(f"/v1/executions/{execution}:signal", {"signal": "export.confirmed"})
    tenure.asked(execution, "AwaitingDestruction")
    return execution


def offboardings(tenure):
    world = tenure.world
    for name in ["off-done", "off-vote", "off-wait", "off-undo", "off-pivot", "off-parked", "off-way"]:
        tenure.tenant(name)
    done = to_destruction(tenure, "off-done")
    tenure.vote(done, "carl", "sven")
    tenure.finished(done)
    tenure.keep(done, "completed, certificate issued", "completed")
    for child in children(tenure, done):
        tenure.keep(child, "completed", "completed")
    vote = leave(tenure, "off-vote")
    tenure.asked(vote)
    tenure.vote(vote, "dora")
    tenure.keep(vote, "approval with one vote", "completed")
    tenure.keep(to_window(tenure, "off-wait"), "waits on a timer", "completed")
    pivot = to_destruction(tenure, "off-pivot")
    tenure.vote(pivot, "carl")
    tenure.keep(pivot, "approval of the pivot with one vote", "completed")
    undo = to_window(tenure, "off-undo")
    world.fault("SetAdmission", "*off-undo*", "fail_before")
    tenure.post(f"/v1/executions/{undo}:cancel", {"reason": "fixture"})
    tenure.undoing(undo)
    tenure.keep(undo, "undo pending", "cancelled")
    world.fault("RemoveThing", "*off-parked*", "refuse_before")
    parked = to_destruction(tenure, "off-parked")
    tenure.vote(parked, "carl", "sven")
    tenure.phase(parked, "parked")
    tenure.keep(parked, "parked past the pivot", "completed")
    world.fault("ReimageNode", node_of(tenure, "off-way"), "hang")
    way = to_destruction(tenure, "off-way")
    tenure.vote(way, "carl", "sven")
    tenure.state(way, "SanitisingNodes")
    node = children(tenure, way)[0]
    tenure.state(node, "Reimaging")
    tenure.keep(way, "waits for its child", "completed")
    tenure.keep(node, "action under way", "completed")
