//! HTTP, route by route: access, isolation of tenants, and the complete list of routes in the pages.

use crate::{
    denied::{self, Met},
    http::{CREATE, YAML},
    served::{Answer, Served, generated, large, seen, small},
};
use api::{Access, Role, RouteInfo, Verb, codes, rules};
use reqwest::Method;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Returns an address with every placeholder filled.
pub(crate) fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match (part.find('{'), part.find('}')) {
        (Some(_), Some(end)) => format!("x{}", &part[end + 1..]),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

pub(crate) fn method(rule: &RouteInfo) -> Method {
    rule.method.parse().unwrap()
}

/// Routes that everyone may read: they contain nothing about a tenant or a user.
const OPEN: [&str; 12] = [
    "/",
    "/console/{file}",
    "/openapi.json",
    "/reference",
    "/problems/{code}",
    "/v1/login",
    "/login",
    "/login/callback",
    "/livez",
    "/readyz",
    "/version",
    "/metrics",
];

#[tokio::test]
async fn without_a_token_only_health_metrics_sign_in_and_descriptions_are_available() {
    let served = Served::start();
    let mut met = BTreeSet::new();
    for rule in rules() {
        let path = filled(rule.path);
        let answer = served.send(served.ask(method(&rule), &path)).await;
        let claims = ["/v1/sessions", "/v1/enrolments:claim"];
        let open = OPEN.contains(&rule.path) || (rule.method == "POST" && claims.contains(&rule.path));
        // This is the server's own machine; `edge` tests other addresses.
        assert_eq!(open, matches!(rule.access, Access::Open | Access::Near(_)), "{rule:?}");
        assert_eq!(answer.status == 401, !open, "{rule:?}: {}", answer.body);
        if !open {
            let asked = format!("{} {}", rule.method, rule.path);
            met.insert(("unknown".to_owned(), asked, "auth.no_token".to_owned()));
        }
    }
    denied::are_on_record(&served, met).await;
}

#[tokio::test]
async fn a_role_permits_exactly_the_routes_of_the_table() {
    let served = Served::start();
    let auditor = served.user("otto", &["auditor"], None).await;
    let finance = served.user("fritz", &["finance"], None).await;
    for rule in rules() {
        let (Access::Staff(verb) | Access::Tenant(verb) | Access::Cluster(verb, _)) = rule.access else {
            continue;
        };
        let path = filled(rule.path);
        for (token, role) in [(&auditor, Role::Auditor), (&finance, Role::Finance)] {
            let answer = served.send(served.ask(method(&rule), &path).bearer_auth(token)).await;
            let refused = answer.code() == "auth.forbidden";
            assert_eq!(refused, !verb.roles().contains(&role), "{role:?} {rule:?}: {}", answer.body);
        }
        // Signing out changes nothing of other users.
        if rule.method != "GET" && rule.path != "/v1/sessions/mine" {
            assert!(!verb.roles().contains(&Role::Auditor), "an auditor changes nothing: {rule:?}");
        }
    }
    assert_eq!(Verb::ManageUsers.roles(), [Role::Admin]);
}

/// Everything that one tenant has, by the word of its route; ids of several parts are joined by `/`.
struct Things {
    tenant: &'static str,
    ids: BTreeMap<&'static str, String>,
    /// The words of which the tenant has an object.
    real: BTreeSet<&'static str>,
}

fn word(rule: &RouteInfo) -> &'static str {
    rule.path.trim_start_matches("/v1/").split(['/', ':']).next().unwrap()
}

impl Things {
    /// Returns the route with its id filled in, or `None` for a list; an unknown route fails the test.
    fn address(&self, rule: &RouteInfo) -> Option<String> {
        if !rule.path.contains('{') {
            return None;
        }
        let id = self.ids.get(word(rule));
        let id = id.unwrap_or_else(|| panic!("say how tenants are kept apart at {}", rule.path));
        let mut parts = id.split('/');
        let fill = |part: &str| match (part.find('{'), part.find('}')) {
            (Some(_), Some(end)) => format!("{}{}", parts.next().unwrap_or("x"), &part[end + 1..]),
            _ => part.to_owned(),
        };
        Some(rule.path.split('/').map(fill).collect::<Vec<_>>().join("/"))
    }
}

/// Adds an object of every kind to a tenant in service.
async fn furnish(served: &Served, tenant: &'static str) -> BTreeSet<&'static str> {
    seen(served, tenant).await;
    let workload = json!({
        "tenant": tenant, "workspace": "default", "name": "w", "requests": { "gpu/H100": 8 }
    });
    let admitted = served.json_as(&served.admin, "/v1/workloads", workload).await;
    assert_eq!(admitted.status, 200, "{}", admitted.body);
    let promise = json!({
        "tenant": tenant, "workspace": "default", "name": "r", "kind": "H100", "count": 1
    });
    assert_eq!(served.json_as(&served.admin, "/v1/reservations", promise).await.status, 201);
    let hold = json!({ "tenant": tenant, "id": "h", "kind": "billing", "reason": "open bill" });
    let held = served.json_as(&served.admin, "/v1/holds", hold).await;
    assert_eq!(held.status, 201, "{}", held.body);
    BTreeSet::from([
        "tenants",
        "nodes",
        "workspaces",
        "quotas",
        "workloads",
        "decisions",
        "reservations",
        "holds",
        "usage",
    ])
}

/// Adds a delegation between two users of a tenant.
async fn delegated(served: &Served, tenant: &str) -> String {
    let (from, to) = (format!("{tenant}-a"), format!("{tenant}-b"));
    served.user(&from, &["tenant_owner"], Some(tenant)).await;
    served.user(&to, &["tenant_owner"], Some(tenant)).await;
    let until = crate::approvals::soon();
    let body = json!({ "from": from, "to": to, "until": until, "reason": "leave" });
    let made = served.json_as(&served.admin, "/v1/delegations", body).await;
    assert_eq!(made.status, 201, "{}", made.body);
    made.id()
}

async fn three_tenants(served: &Served) -> Vec<Things> {
    let mut all = Vec::new();
    // One tenant waits for approval, and two are in service.
    for (tenant, waits) in [("alpha", true), ("bravo", false), ("carol", false)] {
        let id = served.onboard(&if waits { large(tenant) } else { small(tenant) }).await;
        let item = if waits { served.asked(&id).await } else { served.ended(&id).await };
        let approval = item["waiting_for"]["approval"]["id"].as_str().unwrap_or(&id).to_owned();
        let mut real = if waits { BTreeSet::from(["approvals"]) } else { furnish(served, tenant).await };
        real.extend(["executions", "delegations"]);
        let nodes = served.get(&format!("/v1/nodes?owner={tenant}")).await.body;
        let node = nodes["items"][0]["id"].as_str().unwrap_or("n-8");
        let of = |part: &str| format!("{tenant}/{part}");
        let ids = BTreeMap::from([
            ("executions", id.clone()),
            // No execution was terminated.
            ("leftovers", id.clone()),
            ("approvals", approval),
            ("delegations", delegated(served, tenant).await),
            // No proposal waits for a second person: nothing has failed.
            ("proposals", format!("{id}.1")),
            ("batches", "00000000-0000-7000-8000-000000000000".to_owned()),
            ("tenants", tenant.to_owned()),
            ("nodes", node.to_owned()),
            ("workspaces", of("default")),
            ("quotas", of("default")),
            ("loans", of("1")),
            ("reservations", of("default/r")),
            ("workloads", of("w")),
            ("decisions", of("1")),
            ("usage", of("default/2026-01")),
            ("holds", of("h")),
            ("certificates", "00000000-0000-7000-8000-000000000000".to_owned()),
        ]);
        all.push(Things { tenant, ids, real });
    }
    all
}

/// Returns the request of a tenant's token in another tenant's name, at a collection.
fn request_for(rule: &RouteInfo, tenant: &str) -> (&'static str, String) {
    let body = match word(rule) {
        "tenants" | "events" => return (YAML, small(tenant)),
        "reservations" => {
            json!({ "tenant": tenant, "workspace": "default", "name": "x", "kind": "H100", "count": 1 })
        }
        "workloads" => {
            json!({ "tenant": tenant, "workspace": "default", "name": "x", "requests": { "gpu/H100": 1 } })
        }
        "reclaims" => json!({ "tenant": tenant, "overdue": true, "resource": "gpu/H100" }),
        "quota-requests" => json!({
            "tenant": tenant, "workspace": "default", "resource": "gpu/H100", "by": 1, "reason": "more"
        }),
        "sla-changes" => json!({ "tenant": tenant, "tier": "enterprise", "reason": "grows" }),
        "delegations" => json!({
            "from": format!("{tenant}-a"), "to": format!("{tenant}-b"), "until": "2027-01-01T00:00:00Z", "reason": "leave"
        }),
        "offboardings" => json!({ "tenant": tenant, "basis": "tenant_request" }),
        other => panic!("say what is asked for at {other}"),
    };
    ("application/json", body.to_string())
}

#[tokio::test]
async fn a_tenant_sees_only_its_own_resources_on_every_route() {
    let served = Served::with_nodes().await;
    let all = three_tenants(&served).await;
    let mut met = BTreeSet::new();
    let every_role: Vec<&str> =
        <Role as strum::VariantArray>::VARIANTS.iter().map(|role| role.name()).collect();
    for own in &all {
        let user = format!("{}-owner", own.tenant);
        let token = served.user(&user, &every_role, Some(own.tenant)).await;
        for rule in rules() {
            match rule.access {
                Access::Open | Access::Near(_) => {}
                Access::Agent => {
                    let path = filled(rule.path);
                    let answer = served.send(served.ask(method(&rule), &path).bearer_auth(&token)).await;
                    assert_eq!(answer.code(), "auth.forbidden", "{rule:?}");
                    met.insert(refused(&user, &rule, &answer));
                }
                Access::Staff(_) | Access::Cluster(..) => {
                    let path = filled(rule.path);
                    let answer = served.send(served.ask(method(&rule), &path).bearer_auth(&token)).await;
                    assert_eq!(answer.code(), "auth.foreign_tenant", "{rule:?}");
                    met.insert(refused(&user, &rule, &answer));
                }
                Access::Tenant(Verb::ReadWorkflows) => {}
                // Names no tenant, and finds what the caller may see: tests/it/search.rs.
                Access::Tenant(_) if rule.path == "/v1/executions:batch" => {}
                Access::Tenant(_) => keeps_apart(&served, (&user, &token), own, &all, &rule, &mut met).await,
            }
        }
    }
    denied::are_on_record(&served, met).await;
}

/// Returns the audit entry that a refusal must have.
fn refused(user: &str, rule: &RouteInfo, answer: &Answer) -> Met {
    (user.to_owned(), format!("{} {}", rule.method, rule.path), answer.code().to_owned())
}

async fn keeps_apart(
    served: &Served,
    (user, token): (&str, &str),
    own: &Things,
    all: &[Things],
    rule: &RouteInfo,
    met: &mut BTreeSet<Met>,
) {
    let others: Vec<&Things> = all.iter().filter(|things| things.tenant != own.tenant).collect();
    for other in &others {
        match other.address(rule) {
            Some(path) => {
                let answer = served.send(served.ask(method(rule), &path).bearer_auth(token)).await;
                assert_eq!(answer.status, 404, "{} at {path}: {}", own.tenant, answer.body);
                // There are no past months.
                if other.real.contains(word(rule)) && !rule.path.ends_with("{month}") {
                    met.insert(refused(user, rule, &answer));
                }
            }
            None if rule.method == "GET" => {
                let text = served.get_as(token, &format!("{}?limit=1000", rule.path)).await.body.to_string();
                assert!(!text.contains(other.tenant), "{} in {} of {}", other.tenant, rule.path, own.tenant);
                let asked = format!("{}?limit=1000&tenant={}", rule.path, other.tenant);
                assert!(!served.get_as(token, &asked).await.body.to_string().contains("\"id\""));
                let asked = format!("{}?limit=1000&owner={}", rule.path, other.tenant);
                assert!(!served.get_as(token, &asked).await.body.to_string().contains("\"id\""));
            }
            None => {
                let name = other.tenant;
                let (media, body) = request_for(rule, name);
                let request =
                    served.ask(method(rule), rule.path).bearer_auth(token).header("content-type", media);
                let attributes =
                    [("ce-specversion", "1.0"), ("ce-id", name), ("ce-source", "/s"), ("ce-type", CREATE)];
                let request = attributes.iter().fold(request, |r, (name, value)| r.header(*name, *value));
                let answer = served.send(request.body(body)).await;
                assert_eq!(answer.code(), "auth.foreign_tenant", "{rule:?}: {}", answer.body);
                met.insert(refused(user, rule, &answer));
            }
        }
    }
    // There are no past months yet; the current one has its own route.
    let exists = own.real.contains(word(rule)) && !rule.path.ends_with("{month}");
    if let (Some(path), "GET", true) = (own.address(rule), rule.method.as_str(), exists) {
        let answer = served.get_as(token, &path).await;
        assert_eq!(answer.status, 200, "the tenant's own {path}: {}", answer.body);
    }
}

/// Run with `BLESS=1` to write the codes into the page.
#[test]
fn the_documented_codes_match_the_program() {
    let row = |(code, status, title, remedy)| format!("| `{code}` | {status} | {title} | {remedy} |\n");
    let table: String = codes().into_iter().map(row).collect();
    generated(
        "http-api.md",
        "codes",
        &format!("| code | status | title | what to do |\n|---|---|---|---|\n{table}"),
    );
}

/// Run with `BLESS=1` to write the routes into the page.
#[test]
fn the_documented_routes_match_the_router() {
    let row = |rule: RouteInfo| {
        let (scope, roles) = match rule.access {
            Access::Open => ("everybody", "no token needed".to_owned()),
            Access::Near(verb) => ("everybody on the server's machine, and platform", names(verb)),
            Access::Agent => ("agents by a key of their cluster", "none".to_owned()),
            Access::Staff(verb) => ("platform", names(verb)),
            Access::Tenant(verb) => ("platform, and tenants for their own", names(verb)),
            Access::Cluster(verb, _) => ("the cluster by its own key, and platform", names(verb)),
        };
        format!("| `{} {}` | {scope} | {roles} |\n", rule.method, rule.path)
    };
    let table: String = rules().into_iter().map(row).collect();
    generated("http-api.md", "routes", &format!("| route | for | roles |\n|---|---|---|\n{table}"));
}

fn names(verb: Verb) -> String {
    let all = <Role as strum::VariantArray>::VARIANTS.len();
    match verb.roles() {
        roles if roles.len() == all => "all".into(),
        roles => roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(", "),
    }
}
