//! External text reaches no terminal unescaped: every listing command runs over reasons that would move the cursor, reverse the text, or
//! forge a line.

use crate::{
    domain_http::ACME,
    served::{Served, large, seen, shared},
};
use serde_json::{Value, json};
use workflows::foreign_text::is_unsafe;

/// A reason of a vote that tries to rewrite the plan that the next approver sees.
const FOREIGN: &str = "fine\u{1b}[1A\u{1b}[2K\u{202e}evil\u{2066}\nforged: 0 assets are destroyed\u{9b}2K";

const KINDS: [&str; 33] = [
    "access-policies",
    "agents",
    "approvals",
    "audit",
    "batches",
    "certificates",
    "channels",
    "clusters",
    "decisions",
    "delegations",
    "deliveries",
    "engines",
    "executions",
    "groups",
    "holds",
    "limits",
    "loans",
    "nodes",
    "occurrences",
    "policies",
    "proposals",
    "quotas",
    "regions",
    "reservations",
    "reviews",
    "schedules",
    "stuck",
    "sweeps",
    "tenants",
    "users",
    "workflows",
    "workloads",
    "workspaces",
];

/// Sends `FOREIGN` to every text field, and returns the execution and the approval that contain it.
async fn written_everywhere(served: &Served) -> (String, String) {
    let id = served.onboard(&shared(ACME)).await;
    served.ended(&id).await;
    seen(served, ACME).await;
    let quorum = served.onboard(&large("bigger")).await;
    let waits = served.asked(&quorum).await;
    let approval = waits["waiting_for"]["approval"]["id"].as_str().unwrap().to_owned();
    let olga = served.user("olga", &["platform_ops"], None).await;
    served.user("dora", &["platform_ops"], None).await;
    let requests = [
        (
            "/v1/holds".to_owned(),
            json!({ "tenant": ACME, "id": "case", "kind": "billing", "reason": FOREIGN }),
        ),
        (
            "/v1/delegations".to_owned(),
            json!({ "to": "dora", "until": crate::approvals::soon(), "reason": FOREIGN }),
        ),
        (format!("/v1/executions/{quorum}:pause"), json!({ "reason": FOREIGN })),
        (format!("/v1/executions/{quorum}:resume"), json!({ "reason": FOREIGN })),
    ];
    for (path, body) in requests {
        let taken = served.json_as(&served.admin, &path, body).await;
        assert!(taken.status.is_success(), "{path}: {}", taken.body);
    }
    let case = served.get(&format!("/v1/approvals/{approval}")).await.body;
    let vote = json!({ "digest": case["digest"], "reason": FOREIGN });
    let voted = served.json_as(&olga, &format!("/v1/approvals/{approval}:refuse"), vote).await;
    assert_eq!(voted.status, 200, "{}", voted.body);
    served.ended(&quorum).await;
    (quorum, approval)
}

#[tokio::test]
async fn no_command_prints_a_stored_control_or_bidi_character() {
    let served = Served::unobserved().await;
    let (execution, approval) = written_everywhere(&served).await;
    let mut lines: Vec<Vec<&str>> = KINDS.iter().map(|kind| vec!["get", kind]).collect();
    lines.extend([
        vec!["approvals", "show", &approval],
        vec!["executions", "show", &execution],
        vec!["executions", "journal", &execution],
        vec!["describe", "executions", &execution],
        vec!["describe", "approvals", &approval],
        vec!["holds", "show", "acme/case"],
        vec!["audit", "list"],
        vec!["stuck"],
    ]);
    let mut shown = 0;
    for line in &lines {
        for format in ["table", "wide", "json", "yaml"] {
            let ran = served.run(&[&line[..], &["-o", format]].concat());
            assert_eq!(ran.exit, 0, "{line:?}: {ran:?}");
            for text in [&ran.out, &ran.err] {
                let plain = text.replace(['\n', '\t'], "");
                assert!(!plain.contains(is_unsafe), "{line:?} -o {format}: {text:?}");
                assert!(
                    !text.lines().any(|line| line.trim_start().starts_with("forged")),
                    "{line:?}: {text}"
                );
                shown += usize::from(text.contains("forged"));
            }
            if format == "json" {
                serde_json::from_str::<Value>(&ran.out).unwrap();
            }
        }
    }
    assert!(shown > 8, "the texts are shown: {shown}");
    let exact = served.run(&["-o", "json", "approvals", "show", &approval]).json();
    assert_eq!(exact["votes"][0]["reason"], FOREIGN, "programs get the exact text");
}
