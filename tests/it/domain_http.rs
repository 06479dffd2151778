//! HTTP: workloads, loans and reclaims, holds, reservations, sweeps, a cluster's own key, and offboarding. Against a real
//! server.

mod facts;
mod workloads;

use crate::served::{Answer, Served, shared, small};
use api::{Access, rules};
use reqwest::Method;
use serde_json::{Value, json};

pub(crate) const ACME: &str = "acme";

/// A server with one tenant in service: a serving and an exploring workspace, four GPUs each.
pub(crate) async fn with_acme() -> Served {
    let served = Served::unobserved().await;
    let id = served.onboard(&shared(ACME)).await;
    assert_eq!(served.ended(&id).await["reason"], "completed");
    served
}

pub(crate) async fn submit(served: &Served, workspace: &str, name: &str, gpus: u64) -> Answer {
    let body = json!({
        "tenant": ACME, "workspace": workspace, "name": name, "requests": { "gpu/H100": gpus }
    });
    served.json_as(&served.admin, "/v1/workloads", body).await
}

pub(crate) fn items(answer: &Answer) -> &Vec<Value> {
    answer.body["items"].as_array().unwrap_or_else(|| panic!("{}", answer.body))
}

#[tokio::test]
async fn a_hold_is_released_only_by_another_person_and_stays_on_record() {
    let served = with_acme().await;
    let dpo = served.user("dora", &["dpo"], None).await;
    let hold = json!({ "tenant": ACME, "id": "case-17", "kind": "legal", "reason": "a claim" });
    let placed = served.json_as(&dpo, "/v1/holds", hold.clone()).await;
    assert_eq!((placed.status.as_u16(), placed.id()), (201, "acme/case-17".to_owned()), "{}", placed.body);
    assert_eq!(served.json_as(&dpo, "/v1/holds", hold).await.status, 201, "an equal hold is stored once");
    let other = json!({ "tenant": ACME, "id": "case-17", "kind": "billing", "reason": "a bill" });
    assert_eq!(served.json_as(&dpo, "/v1/holds", other).await.code(), "hold.refused");
    let unknown = json!({ "tenant": "nobody", "id": "x", "kind": "legal", "reason": "a claim" });
    assert_eq!(served.json_as(&dpo, "/v1/holds", unknown).await.status, 404);

    let release = "/v1/holds/acme/case-17:release";
    let own = served.json_as(&dpo, release, json!({ "reason": "settled" })).await;
    assert_eq!((own.status.as_u16(), own.code()), (403, "hold.own"), "{}", own.body);
    let done = served.json_as(&served.admin, release, json!({ "reason": "settled" })).await;
    assert_eq!((done.status.as_u16(), &done.body["released_by"]), (200, &json!("admin")), "{}", done.body);
    assert!(items(&served.get("/v1/holds?tenant=acme").await).is_empty());
    let before = served.get("/v1/holds?state=released").await;
    assert_eq!(items(&before)[0]["released_because"], "settled");
    assert_eq!(served.get("/v1/holds/acme/case-17").await.body["state"], "released");
}

/// A second hold of the same name must not replace the record of the first, and the reasons are audited.
#[tokio::test]
async fn every_released_hold_stays_on_record_with_its_reasons() {
    let served = with_acme().await;
    let dora = served.user("dora", &["dpo"], None).await;
    for case in ["A", "B"] {
        let reason = format!("litigation {case}");
        let hold = json!({ "tenant": ACME, "id": "case-1", "kind": "legal", "reason": reason });
        assert_eq!(served.json_as(&served.admin, "/v1/holds", hold).await.status, 201);
        let settled = json!({ "reason": format!("settled {case}") });
        assert_eq!(served.json_as(&dora, "/v1/holds/acme/case-1:release", settled).await.status, 200);
    }

    let shown = served.get("/v1/holds/acme/case-1").await.body;
    assert_eq!((&shown["reason"], &shown["number"]), (&json!("litigation B"), &json!(2)), "{shown}");
    assert_eq!(shown["earlier"][0]["reason"], "litigation A");
    assert_eq!(shown["earlier"][0]["released_because"], "settled A");
    let released = served.get("/v1/holds?state=released&tenant=acme").await;
    assert_eq!(items(&released).len(), 2, "{}", released.body);
    let file = served.dir.path().join("acme.jsonl");
    let exported = served.run(&["audit", "export", file.to_str().unwrap(), "--tenant", ACME]);
    assert_eq!(exported.exit, 0, "{exported:?}");
    let audit = std::fs::read_to_string(file).unwrap();
    for reason in ["litigation A", "settled A", "litigation B", "settled B"] {
        assert!(audit.contains(reason), "{reason}");
    }
}

#[tokio::test]
async fn holds_of_many_tenants_come_in_pages() {
    let served = Served::with_nodes().await;
    for tenant in ["bravo", "alpha"] {
        let id = served.onboard(&small(tenant)).await;
        served.ended(&id).await;
        for name in ["a", "b", "c"] {
            let hold = json!({ "tenant": tenant, "id": name, "kind": "billing", "reason": "open bill" });
            assert_eq!(served.json_as(&served.admin, "/v1/holds", hold).await.status, 201);
        }
    }
    let (mut ids, mut path) = (Vec::new(), "/v1/holds?limit=2".to_owned());
    loop {
        let page = served.get(&path).await;
        assert!(items(&page).len() <= 2);
        ids.extend(items(&page).iter().map(|hold| hold["id"].as_str().unwrap().to_owned()));
        let Some(next) = page.body["next"].as_str() else { break };
        path = format!("/v1/holds?limit=2&cursor={next}");
    }
    assert_eq!(ids, ["alpha/a", "alpha/b", "alpha/c", "bravo/a", "bravo/b", "bravo/c"]);
}

#[tokio::test]
async fn no_more_is_reserved_than_the_quota_of_a_workspace() {
    let served = with_acme().await;
    let promise = |name: &str, count: u64, from: &str, to: &str| {
        json!({
            "tenant": ACME, "workspace": "serving", "name": name, "kind": "H100", "count": count,
            "from": from, "to": to, "reclaim_deadline": "10m"
        })
    };
    let (jan, feb, mar) = ("2027-01-01T00:00:00Z", "2027-02-01T00:00:00Z", "2027-03-01T00:00:00Z");
    let post = async |body: Value| served.json_as(&served.admin, "/v1/reservations", body).await;

    let first = post(promise("one", 3, jan, feb)).await;
    assert_eq!(first.status, 201, "{}", first.body);
    assert_eq!(first.body["reclaim_deadline"], "10m");
    assert_eq!(post(promise("one", 3, jan, feb)).await.status, 200, "an equal promise is stored once");
    assert_eq!(post(promise("one", 2, jan, feb)).await.code(), "reservation.differs");
    let beyond = post(promise("two", 2, jan, mar)).await;
    assert_eq!(
        (beyond.status.as_u16(), beyond.code()),
        (422, "reservation.beyond_nominal"),
        "{}",
        beyond.body
    );
    assert_eq!(post(promise("two", 4, feb, mar)).await.status, 201, "by then the first has ended");
    assert_eq!(
        post(json!({ "tenant": ACME, "workspace": "serving", "name": "x", "kind": "H100", "count": 1,
        "from": "tomorrow" }))
        .await
        .code(),
        "document.invalid"
    );

    let path = "/v1/reservations/acme/serving/one";
    let delete =
        async || served.send(served.ask(Method::DELETE, path).bearer_auth(&served.admin)).await.status;
    assert_eq!((delete().await.as_u16(), delete().await.as_u16()), (204, 404));
    assert_eq!(items(&served.get("/v1/reservations?workspace=serving").await).len(), 1);
    assert_eq!(
        post(promise("three", 4, jan, feb)).await.status,
        201,
        "a withdrawn entitlement can be promised again"
    );
}

pub(crate) const SITES: &str = "
regions: [{id: eu, jurisdiction: eu}]
clusters:
  - {id: eu-1, region: eu}
  - {id: own-1, region: eu, tenancy: dedicated}
  - {id: own-2, region: eu, tenancy: dedicated}
";

/// A server whose clusters push their own facts, with the clusters of [`SITES`].
pub(crate) async fn with_sites() -> Served {
    let served = Served::start_with(&[("TENURE_SIMULATED_OBSERVE", "false")]);
    let sites = served.post("/v1/fleet:import", "application/yaml", SITES).await;
    assert_eq!(sites.status, 200, "{}", sites.body);
    served
}

/// Adds a node to `cluster` and a tenant in service that owns it. Returns the cluster and its key.
pub(crate) async fn with_its_own(served: &Served, cluster: &str, tenant: &str) -> (String, String) {
    let node = format!("sn,cpu_milli,memory_mib,gpu,model\n{cluster}-n,96000,786432,8,H100\n");
    served.post(&format!("/v1/fleet:import?cluster={cluster}&region=eu"), "text/csv", &node).await;
    let document = small(tenant).replace("isolation: dedicated", "isolation: dedicated_cluster");
    let started = served.post("/v1/tenants", "application/yaml", &document).await;
    assert_eq!(started.status, 202, "{}", started.body);
    let key = started.headers["tenure-cluster-key"].to_str().unwrap().to_owned();
    let id = started.id();
    let asked = served.until(&id, |item| item["open"] == false || !item["waiting_for"]["approval"].is_null());
    if asked.await["open"] == true {
        let ada = served.user(&format!("ada-{tenant}"), &["platform_ops", "security", "finance"], None).await;
        let digest = served.get(&format!("/v1/executions/{id}")).await.body["digest"].clone();
        let approve = format!("/v1/approvals/{id}:approve");
        let agreed = served.json_as(&ada, &approve, json!({ "digest": digest, "reason": "ok" })).await;
        assert_eq!(agreed.status, 200, "{}", agreed.body);
    }
    assert_eq!(served.ended(&id).await["reason"], "completed");
    let holding = served.get(&format!("/v1/tenants/{tenant}")).await.body["cluster"].clone();
    (holding.as_str().unwrap().to_owned(), key)
}

/// Returns the observation of the one node of `cluster`.
pub(crate) fn facts(cluster: &str) -> Value {
    json!({ "nodes": { format!("{cluster}-n"): { "H100": { "usable": 8, "busy": 0 } } } })
}

#[tokio::test]
async fn the_key_of_a_cluster_can_push_facts_of_that_cluster_and_nothing_else() {
    let served = with_sites().await;
    let mut keys = Vec::new();
    for (cluster, tenant) in [("own-1", "uno"), ("own-2", "duo")] {
        let (holding, key) = with_its_own(&served, cluster, tenant).await;
        keys.push((holding, tenant, key));
    }
    let (one, two) = (&keys[0], &keys[1]);

    let own = served.json_as(&one.2, &format!("/v1/clusters/{}/facts", one.0), facts(&one.0)).await;
    assert_eq!((own.status.as_u16(), &own.body["nodes"]), (200, &json!(1)), "{}", own.body);
    let foreign = served.json_as(&one.2, &format!("/v1/clusters/{}/facts", two.0), facts(&two.0)).await;
    assert_eq!(
        (foreign.status.as_u16(), foreign.code()),
        (403, "auth.cross_cluster_attempt"),
        "{}",
        foreign.body
    );
    let stranger = served.json_as(&one.2, &format!("/v1/clusters/{}/facts", one.0), facts(&two.0)).await;
    assert_eq!((stranger.status.as_u16(), stranger.code()), (422, "document.invalid"), "{}", stranger.body);
    for rule in rules() {
        if matches!(rule.access, Access::Open) {
            continue;
        }
        let path = rule.path.replace("{id}", "own-x").replace(['{', '}'], "");
        let asked = served.ask(rule.method.parse().unwrap(), &path).bearer_auth(&one.2);
        let answer = served.send(asked.header("x-forwarded-for", "192.0.2.7")).await;
        assert_eq!(answer.status, 403, "{rule:?}: {}", answer.body);
    }
    let unseen =
        json!({ "tenant": two.1, "workspace": "default", "name": "w", "requests": { "gpu/H100": 1 } });
    let waits = served.json_as(&served.admin, "/v1/workloads", unseen).await;
    assert_eq!(waits.status, 202, "nothing of the other facts was stored: {}", waits.body);
}

#[tokio::test]
async fn sweeps_run_on_demand_and_are_recorded() {
    let served = with_acme().await;
    let schedules = served.get("/v1/schedules").await;
    let names: Vec<_> = items(&schedules).iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"reclaim") && names.contains(&"loan_expiry"), "{names:?}");
    assert!(items(&schedules)[0]["next"].is_string(), "{}", schedules.body);
    let ran = served.json_as(&served.admin, "/v1/sweeps/loan_expiry:run", json!({})).await;
    assert_eq!((ran.status.as_u16(), &ran.body["by"]), (200, &json!("admin")), "{}", ran.body);
    let kept = served.get("/v1/sweeps?sweep=loan_expiry&by=admin").await;
    assert_eq!(items(&kept).len(), 1, "{}", kept.body);
    assert_eq!(served.json_as(&served.admin, "/v1/sweeps/dust:run", json!({})).await.status, 404);
}

#[tokio::test]
async fn an_offboarding_is_planned_approved_by_another_person_and_cancelled() {
    let served = with_acme().await;
    let leave =
        json!({ "tenant": ACME, "basis": "tenant_request", "reference": "mail 7", "reason": "moves" });
    let plan = served.json_as(&served.admin, "/v1/offboardings:plan", leave.clone()).await;
    assert_eq!(plan.status, 200, "{}", plan.body);
    assert_eq!(plan.body["nodes"].as_array().unwrap().len(), 1, "{}", plan.body);
    assert!(items(&served.get("/v1/executions?workflow=offboarding").await).is_empty());

    let started = served.json_as(&served.admin, "/v1/offboardings", leave.clone()).await;
    assert_eq!(started.status, 202, "{}", started.body);
    let id = started.id();
    let busy = served.json_as(&served.admin, "/v1/offboardings", leave).await;
    assert_eq!((busy.status.as_u16(), &busy.body["execution"]), (409, &json!(id)), "{}", busy.body);
    let digest = served.asked(&id).await["digest"].clone();
    assert_eq!(digest, plan.body["digest"], "the approvers decide on the previewed plan");
    let approve = format!("/v1/approvals/{id}:approve");
    let own = served.json_as(&served.admin, &approve, json!({ "digest": digest })).await;
    assert_eq!((own.status.as_u16(), own.code()), (403, "approval.own_request"));

    let nonsense = format!("/v1/executions/{id}:signal");
    let signal = served.json_as(&served.admin, &nonsense, json!({ "signal": "cake.baked" })).await;
    assert_eq!(signal.code(), "document.invalid", "{}", signal.body);
    assert!(signal.body["detail"].as_str().unwrap().contains("export.confirmed"), "{}", signal.body);
    let early = served.json_as(&served.admin, &nonsense, json!({ "signal": "export.confirmed" })).await;
    assert_eq!((early.status.as_u16(), early.code()), (409, "signal.not_awaited"), "{}", early.body);
    let told = served.run(&["executions", "signal", &id, "hold.released"]);
    assert_ne!(told.exit, 0, "{told:?}");
    let cancel = format!("/v1/executions/{id}:cancel");
    assert_eq!(served.json_as(&served.admin, &cancel, json!({})).await.status, 200);
    assert_eq!(served.ended(&id).await["reason"], "cancelled");
    assert_eq!(served.get("/v1/tenants/acme").await.body["state"], "active");
}

#[tokio::test]
async fn a_quota_increase_is_planned_requested_and_granted() {
    let served = with_acme().await;
    let fewer =
        json!({ "tenant": ACME, "workspace": "research", "resource": "gpu/H100", "to": 2, "reason": "done" });
    let plan = served.json_as(&served.admin, "/v1/quota-requests:plan", fewer.clone()).await;
    assert_eq!((plan.status.as_u16(), &plan.body["excess"]), (200, &json!(0)), "{}", plan.body);
    let before = served.get("/v1/quotas/acme/research").await.body;
    assert_eq!(before["use"]["gpu/H100"]["nominal"], 4, "a plan changes nothing: {before}");

    let asked = served.json_as(&served.admin, "/v1/quota-requests", fewer).await;
    assert_eq!(asked.status, 202, "{}", asked.body);
    assert_eq!(asked.body["workflow"], "quota_decrease", "a lower quota is a decrease");
    let id = asked.id();
    let item = served.until(&id, |item| item["open"] == false || !item["waiting_for"]["approval"].is_null());
    let item = item.await;
    assert_eq!(item["reason"], "completed", "{item}");
    let after = served.get("/v1/quotas/acme/research").await.body;
    assert_eq!(after["use"]["gpu/H100"]["nominal"], 2, "{after}");

    let wrong = json!({ "tenant": ACME, "workspace": "research", "resource": "gpu/H100", "reason": "x" });
    let wrong = served.json_as(&served.admin, "/v1/quota-requests", wrong).await;
    assert_eq!((wrong.status.as_u16(), wrong.code()), (422, "document.invalid"), "{}", wrong.body);
    let more = "tenant: acme\nworkspace: research\nresource: gpu/H100\nby: 1\nreason: back\n";
    let more = served.post("/v1/quota-requests:plan?direction=increase", "application/yaml", more).await;
    assert!(more.status == 200 && more.body["reasons"].is_array(), "{}", more.body);
    let sla = json!({ "tenant": ACME, "tier": "enterprise", "reason": "grows" });
    let sla = served.json_as(&served.admin, "/v1/sla-changes:plan", sla).await;
    assert_eq!(sla.status, 200, "{}", sla.body);
}

#[tokio::test]
async fn shortages_and_incidents_are_planned_and_started_only_by_the_platform() {
    let served = with_acme().await;
    let short = json!({ "region": "eu", "model": "H100", "wanted": 8, "reason": "a large order" });
    let plan = served.json_as(&served.admin, "/v1/capacity-exhaustions:plan", short.clone()).await;
    assert_eq!(plan.status, 200, "{}", plan.body);
    assert!(plan.body["plan"]["placement"]["measured"]["total"].is_number(), "{}", plan.body);
    let begun = served.json_as(&served.admin, "/v1/capacity-exhaustions", short.clone()).await;
    assert_eq!(begun.status, 202, "{}", begun.body);
    let again = served.json_as(&served.admin, "/v1/capacity-exhaustions", short.clone()).await;
    assert!(again.status == 409 || again.status == 202, "{}", again.body);

    let nodes = served.get("/v1/nodes?owner=acme").await;
    let node = items(&nodes)[0]["id"].clone();
    let fault = json!({ "kind": "gpu_fault", "node": node, "evidence": "XID 79" });
    let plan = served.json_as(&served.admin, "/v1/incidents:plan", fault.clone()).await;
    assert_eq!((plan.status.as_u16(), &plan.body["running_there"]), (200, &json!([])), "{}", plan.body);
    let owner = served.user("olga", &["tenant_owner", "platform_ops"], Some(ACME)).await;
    assert_eq!(served.json_as(&owner, "/v1/incidents", fault.clone()).await.code(), "auth.foreign_tenant");
    let begun = served.json_as(&served.admin, "/v1/incidents", fault).await;
    assert_eq!((begun.status.as_u16(), &begun.body["tenant"]), (202, &json!(ACME)), "{}", begun.body);
    let nameless = served.json_as(&served.admin, "/v1/incidents", json!({ "kind": "key_leak" })).await;
    assert_eq!((nameless.status.as_u16(), nameless.code()), (422, "document.invalid"), "{}", nameless.body);
}

#[tokio::test]
async fn a_simulated_cluster_reports_its_own_facts() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&shared(ACME)).await;
    served.ended(&id).await;
    submit(&served, "research", "w", 1).await;
    for _ in 0..500 {
        if served.get("/v1/workloads/acme/w").await.body["state"] == "admitted" {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{}", served.get("/v1/workloads/acme/w").await.body);
}

/// A cluster's row may name a backend that this server has no target for: both commands report the same.
#[tokio::test]
async fn an_import_and_the_list_of_clusters_agree_on_what_is_simulated() {
    let served = with_sites().await;
    let sites = "regions: [{id: eu, jurisdiction: eu}]\nclusters:\n  - {id: named, region: eu, backend: metal}\n  - {id: plain, region: eu}\n";
    for _ in 0..2 {
        let imported = served.post("/v1/fleet:import", "application/yaml", sites).await;
        assert_eq!(imported.status, 200, "{}", imported.body);
        let listed = served.get("/v1/clusters").await;
        let simulated: Vec<_> = items(&listed)
            .iter()
            .filter(|cluster| {
                cluster["simulated"] == true && ["named", "plain"].contains(&cluster["id"].as_str().unwrap())
            })
            .map(|cluster| cluster["id"].clone())
            .collect();
        assert_eq!(imported.body["report"]["simulated"], json!(simulated), "{}", imported.body);
        assert_eq!(simulated, ["named", "plain"]);
    }
    let nodes = "sn,cpu_milli,memory_mib,gpu,model\nm-1,96000,786432,8,H100\n";
    let imported = served.post("/v1/fleet:import?cluster=named&region=eu", "text/csv", nodes).await;
    assert_eq!(imported.body["report"]["simulated"], true, "{}", imported.body);
}
