//! Every route accepts only the roles that its documentation names, and only votes decide an approval.

use super::asked;
use crate::{
    denied,
    served::{Served, page},
};
use api::{Access, Role, rules};
use reqwest::Method;
use serde_json::json;
use std::collections::BTreeSet;

/// The roles that may use a route, as the page lists them.
struct Row {
    method: Method,
    path: String,
    tenants: bool,
    roles: Vec<String>,
}

fn rows() -> Vec<Row> {
    let text = page("http-api.md");
    let table =
        text.split("<!-- routes:begin -->").nth(1).and_then(|rest| rest.split("<!-- routes:end -->").next());
    let every: Vec<String> =
        <Role as strum::VariantArray>::VARIANTS.iter().map(|role| role.name().to_owned()).collect();
    let rows = table.unwrap().lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (method, path) = cells[0].trim_matches('`').split_once(' ').unwrap();
        let roles =
            if cells[2] == "all" { every.clone() } else { cells[2].split(", ").map(Into::into).collect() };
        Row {
            method: method.parse().unwrap(),
            path: path.into(),
            tenants: cells[1].contains("tenants"),
            roles,
        }
    })
    .filter(|row| row.roles != ["no token needed"])
    .collect()
}

/// Sends the request as a proxy would: the server's own machine needs no token on some routes.
fn asked_for(served: &Served, row: &Row, path: &str, token: &str) -> reqwest::RequestBuilder {
    served.ask(row.method.clone(), path).bearer_auth(token).header("x-forwarded-for", "192.0.2.7")
}

/// Calls every route with every role, bound to a tenant and not. Exactly the documented roles are accepted, and each refusal is
/// audited.
#[tokio::test]
async fn every_route_permits_exactly_the_roles_of_its_documentation() {
    let served = Served::start();
    let rows = rows();
    let closed = rules().into_iter().filter(|rule| rule.access != Access::Open).count();
    assert_eq!(rows.len(), closed, "the page has every route");
    let mut met = BTreeSet::new();
    for role in <Role as strum::VariantArray>::VARIANTS {
        let name = role.name();
        let free = served.user(&format!("{name}-free"), &[name], None).await;
        let bound = served.user(&format!("{name}-bound"), &[name], Some("acme")).await;
        for row in &rows {
            let path = row.path.split('/').map(|part| match part.split_once('}') {
                Some((_, end)) => format!("x{end}"),
                None => part.to_owned(),
            });
            let path = path.collect::<Vec<_>>().join("/");
            let may = row.roles.iter().any(|named| named == name);
            let answer = served.send(asked_for(&served, row, &path, &free)).await;
            assert_eq!(answer.code() == "auth.forbidden", !may, "{name} at {path}: {}", answer.body);
            assert_ne!(answer.code(), "auth.foreign_tenant", "{name} at {path}");
            let asked = format!("{} {}", row.method, row.path);
            if !may {
                met.insert((format!("{name}-free"), asked.clone(), answer.code().to_owned()));
            }
            let answer = served.send(asked_for(&served, row, &path, &bound)).await;
            let (kept_out, code) = (!may || !row.tenants, answer.code());
            let refused = code == "auth.forbidden" || code == "auth.foreign_tenant";
            assert!(refused || !kept_out, "{name} of acme at {path}: {}", answer.body);
            if refused {
                met.insert((format!("{name}-bound"), asked, code.to_owned()));
            }
        }
    }
    denied::are_on_record(&served, met).await;
}

/// No command of any user lets an execution pass its approval; only votes do.
#[tokio::test]
async fn only_the_ballot_lets_an_execution_continue() {
    let (served, id, digest) = asked().await;
    let bodies = |path: &str| match path {
        path if path.ends_with(":signal") => json!({ "signal": "capacity.freed" }),
        path if path.contains("/approvals/") => {
            json!({ "reason": "because I say so", "digest": digest, "note": "x" })
        }
        _ => json!({ "reason": "because I say so" }),
    };
    let ends = [":cancel", ":terminate"];
    let steers: Vec<_> = rules()
        .into_iter()
        .filter(|rule| rule.method == "POST" && rule.path.contains("{id}"))
        .filter(|rule| rule.path.starts_with("/v1/executions") || rule.path.starts_with("/v1/approvals"))
        .filter(|rule| !ends.iter().any(|end| rule.path.ends_with(end)))
        .collect();
    assert!(steers.len() >= 8, "{steers:?}");
    // Roles that hold a seat or may use break-glass are left out: they may decide.
    let others = ["capacity_manager", "security", "compliance", "dpo", "tenant_owner", "auditor"];
    for role in others {
        let token = served.user(role, &[role], None).await;
        for rule in steers.iter().filter(|rule| !rule.path.ends_with(":refuse")) {
            let path = rule.path.replace("{id}", &id);
            served.json_as(&token, &path, bodies(rule.path)).await;
            let item = served.get(&format!("/v1/executions/{id}")).await.body;
            assert_eq!(item["state"], "AwaitingApproval", "{role} at {path}");
            assert!(item["authorisation"].is_null() && item["pivot"].is_null(), "{role} at {path}: {item}");
        }
    }
    // The requester has every role: rights on the execution are no rights on its approval.
    for rule in &steers {
        let path = rule.path.replace("{id}", &id);
        served.json_as(&served.admin, &path, bodies(rule.path)).await;
        let item = served.get(&format!("/v1/executions/{id}")).await.body;
        assert_eq!(item["state"], "AwaitingApproval", "the requester at {path}");
        assert!(item["authorisation"].is_null(), "the requester at {path}: {item}");
    }
    let votes = served.get(&format!("/v1/approvals/{id}")).await.body["votes"].clone();
    assert_eq!(votes, json!([]));
}

/// Every approval with seats from policy also has policy's procedure.
#[test]
fn every_approval_with_seats_in_policy_follows_its_procedure() {
    let mut seen = 0;
    let workflows = crate::layers::sources("workflows/src");
    for (path, text) in workflows.into_iter().filter(|(_, text)| text.contains("impl Workflow for")) {
        // Approvals that name their seats in code are independent of policy.
        for asked in text.split("=> approval(").skip(1) {
            let step = asked.split(".granted(").next().unwrap();
            assert!(step.contains(".with_procedure("), "{path}: approval({step}");
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen}");
}
