//! Separation of persons: one administrator counts as one person, whatever users they create.

use crate::served::{Answer, NODES, Served, files_with, large, shared};
use reqwest::StatusCode;
use serde_json::{Value, json};

/// The approvers before a tenant is frozen, and before its data is destroyed.
const VOTERS: [(&str, &str); 4] =
    [("d1", "dpo"), ("o2", "platform_ops"), ("c1", "compliance"), ("s1", "security")];

/// A tenant whose administrator requests offboarding, and the execution that waits for approval.
async fn leaving(trial: &str) -> (Served, String) {
    let served = Served::start_with(&[("TENURE_TRIAL", trial)]);
    let answer = served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let onboarding = served.onboard(&shared("acme")).await;
    served.ended(&onboarding).await;
    let leave =
        json!({ "tenant": "acme", "basis": "tenant_request", "reference": "mail 7", "reason": "moves" });
    let started = served.json_as(&served.admin, "/v1/offboardings", leave).await;
    assert_eq!(started.status, 202, "{}", started.body);
    let id = started.id();
    (served, id)
}

impl Served {
    async fn agree(&self, token: &str, id: &str) -> Answer {
        let digest = self.asked(id).await["waiting_for"]["approval"]["digest"].clone();
        let body = json!({ "digest": digest, "reason": "the very order 4711" });
        self.json_as(token, &format!("/v1/approvals/{id}:approve"), body).await
    }

    /// Returns an enrolment code for a user, made by the administrator.
    async fn code(&self, name: &str) -> String {
        let made = self.json_as(&self.admin, &format!("/v1/users/{name}:enrol"), json!({})).await;
        assert_eq!(made.status, 201, "{}", made.body);
        made.body["code"].as_str().unwrap().to_owned()
    }

    /// Returns the token that a user claims with a code.
    fn claimed(&self, code: &str) -> String {
        let ran = self.run(&["login", "--enrol", code]);
        assert_eq!(ran.exit, 0, "{ran:?}");
        ran.out.trim().to_owned()
    }

    /// Completes the export, until the destruction waits for approval.
    async fn exported(&self, id: &str) {
        self.until(id, |item| item["state"] == "ExportWindow").await;
        let signal = format!("/v1/executions/{id}:signal");
        let said = self.json_as(&self.admin, &signal, json!({ "signal": "export.confirmed" })).await;
        assert!(said.status.is_success(), "{}", said.body);
        self.until(id, |item| item["state"] == "AwaitingDestruction").await;
    }

    /// Returns what the certificate of the tenant proves, in words.
    async fn certified(&self, id: &str) -> String {
        let item = self.ended(id).await;
        assert_eq!(item["reason"], "completed", "{item}");
        let certificates = self.run(&["certificates", "list", "-o", "json"]).json();
        let certificate = certificates[0]["id"].as_str().unwrap().to_owned();
        let downloaded = self.run(&["certificate", "download", &certificate, "--to", "acme.json"]);
        assert_eq!(downloaded.exit, 0, "{downloaded:?}");
        let verified = self.run(&["certificate", "verify", "acme.json"]);
        assert_eq!(verified.exit, 0, "{verified:?}");
        verified.out
    }

    async fn votes(&self, approval: &str) -> Value {
        self.get(&format!("/v1/approvals/{approval}")).await.body["votes"].clone()
    }
}

fn refused(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.code()), (403, "approval.not_separate"), "{}", answer.body);
    assert!(answer.body["detail"].as_str().unwrap().contains("tenure user enrol"), "{}", answer.body);
}

#[tokio::test]
async fn one_administrator_cannot_vote_as_users_that_they_created_directly_or_indirectly() {
    let (served, id) = leaving("false").await;
    for (name, role) in VOTERS {
        let first = served.user(name, &[role], None).await;
        let path = format!("/v1/users/{name}:token");
        let drawn = served.json_as(&served.admin, &path, json!({ "name": "ci" })).await;
        let drawn = drawn.body["token"].as_str().unwrap().to_owned();
        for token in [first, drawn] {
            refused(&served.agree(&token, &id).await);
        }
    }
    let puppet = served.user("a2", &["admin"], None).await;
    let made = served.json_as(&puppet, "/v1/users", json!({ "name": "d2", "roles": ["dpo"] })).await;
    refused(&served.agree(made.body["token"].as_str().unwrap(), &id).await);

    let approval = served.get(&format!("/v1/approvals/{id}")).await.body;
    assert_eq!((&approval["votes"], &approval["separation"]), (&json!([]), &json!("enforced")));
}

#[tokio::test]
async fn an_administrator_cannot_vote_on_the_request_of_a_user_that_they_created() {
    let served = Served::start_with(&[("TENURE_TRIAL", "false")]);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let puppet = served.user("a2", &["admin"], None).await;
    let document = large("acme");
    let started = served.post_as(&puppet, "/v1/tenants", "application/yaml", &document).await;
    assert_eq!(started.status, 202, "{}", started.body);

    refused(&served.agree(&served.admin, &started.id()).await);
}

#[tokio::test]
async fn votes_with_a_claimed_credential_count_and_are_certified_without_a_mark() {
    let (served, id) = leaving("false").await;
    let mut tokens = Vec::new();
    for (name, role) in VOTERS {
        let first = served.user(name, &[role], None).await;
        let code = served.code(name).await;
        tokens.push(served.claimed(&code));
        assert_eq!(served.get_as(&first, "/v1/me").await.status, StatusCode::UNAUTHORIZED, "it was revoked");
        let again = served.json_as("", "/v1/enrolments:claim", json!({ "code": code })).await;
        assert_eq!((again.status.as_u16(), again.code()), (401, "login.refused"), "{}", again.body);
    }

    for token in &tokens[..2] {
        let agreed = served.agree(token, &id).await;
        assert_eq!(agreed.status, 200, "{}", agreed.body);
    }
    served.exported(&id).await;
    let approval = served.asked(&id).await["waiting_for"]["approval"]["id"].as_str().unwrap().to_owned();
    for token in &tokens[2..] {
        let agreed = served.agree(token, &id).await;
        assert_eq!(agreed.status, 200, "{}", agreed.body);
    }
    let proves = served.certified(&id).await;

    assert!(proves.contains("c1 and s1 agreed") && !proves.contains("Separation not enforced"), "{proves}");
    assert!(
        proves.contains("c1 voted in AwaitingDestruction by a credential claimed with a code that admin"),
        "{proves}"
    );
    assert_eq!(served.run(&["user", "remove", "c1"]).exit, 0);
    let votes = served.votes(&approval).await;
    let told = |vote: usize| {
        let vote = &votes[vote];
        [&vote["person"], &vote["claim"], &vote["created_by"], &vote["issued_by"], &vote["removed"]]
            .map(Clone::clone)
    };
    assert_eq!(told(0), [json!("c1"), json!("enrolled"), json!("admin"), json!("admin"), json!(true)]);
    assert_eq!(told(1), [json!("s1"), json!("enrolled"), json!("admin"), json!("admin"), json!(false)]);
    let page = served.run(&["approvals", "show", &approval]).out;
    assert!(page.contains("the user was removed after the vote"), "{page}");
}

#[tokio::test]
async fn a_reset_credential_counts_as_the_administrators_own_and_a_claimed_one_does_not() {
    let (served, id) = leaving("false").await;
    served.user("d1", &["dpo"], None).await;
    let own = served.claimed(&served.code("d1").await);
    let reset = served.json_as(&served.admin, "/v1/users/d1:token", json!({ "name": "new" })).await;

    refused(&served.agree(reset.body["token"].as_str().unwrap(), &id).await);
    assert_eq!(served.agree(&own, &id).await.status, 200);
}

#[tokio::test]
async fn a_voter_added_to_a_group_by_the_requester_counts_only_after_another_claim() {
    let (served, id) = leaving("false").await;
    served.user("d1", &["dpo"], None).await;
    let own = served.claimed(&served.code("d1").await);
    let made =
        served.json_as(&served.admin, "/v1/groups", json!({ "name": "night", "members": ["d1"] })).await;
    assert_eq!(made.status, 201, "{}", made.body);

    let packed = served.agree(&own, &id).await;
    refused(&packed);
    assert!(
        packed.body["detail"].as_str().unwrap().contains("admin gave d1 a role or a group"),
        "{}",
        packed.body
    );
    let anew = served.claimed(&served.code("d1").await);
    assert_eq!(served.agree(&anew, &id).await.status, 200);
}

#[tokio::test]
async fn an_enrolment_code_works_once_and_not_for_services_or_the_first_administrator() {
    let served = Served::start_with(&[("TENURE_TRIAL", "false")]);
    served.user("ada", &["platform_ops"], None).await;
    let (before, code) = (served.code("ada").await, served.code("ada").await);
    let claim = async |code: &str| served.json_as("", "/v1/enrolments:claim", json!({ "code": code })).await;
    assert_eq!(claim(&before).await.status, 401, "another code was made since");
    assert_eq!(claim(&code).await.status, 201);

    let body = json!({ "name": "ci", "roles": ["platform_ops"], "kind": "service" });
    assert_eq!(served.json_as(&served.admin, "/v1/users", body).await.status, 201);
    for (name, refused) in
        [("ci", "token.invalid"), ("admin", "user.is_admin"), ("nobody", "resource.not_found")]
    {
        let made = served.json_as(&served.admin, &format!("/v1/users/{name}:enrol"), json!({})).await;
        assert_eq!(made.code(), refused, "{}", made.body);
    }
    assert_eq!(files_with(served.dir.path(), &code), Vec::<String>::new(), "the code is stored nowhere");
}

#[tokio::test]
async fn in_trial_mode_dependent_votes_count_and_are_marked_in_plan_vote_and_certificate() {
    let (served, id) = leaving("true").await;
    let leave =
        json!({ "tenant": "acme", "basis": "tenant_request", "reference": "mail 7", "reason": "moves" });
    let plan = served.json_as(&served.admin, "/v1/offboardings:plan", leave).await;
    assert_eq!(plan.body["separation"], "not_enforced", "{}", plan.body);
    let mut tokens = Vec::new();
    for (name, role) in VOTERS {
        tokens.push(served.user(name, &[role], None).await);
    }
    for token in &tokens[..2] {
        assert_eq!(served.agree(token, &id).await.status, 200);
    }
    served.exported(&id).await;
    let approval = served.asked(&id).await["waiting_for"]["approval"]["id"].as_str().unwrap().to_owned();
    for token in &tokens[2..] {
        assert_eq!(served.agree(token, &id).await.status, 200);
    }

    let proves = served.certified(&id).await;
    assert!(proves.contains("Separation not enforced in AwaitingDestruction: admin created"), "{proves}");
    let votes = served.votes(&approval).await;
    assert_eq!(votes[0]["not_separate"], "admin created, issued or reset the credential of c1", "{votes}");
    let page = served.run(&["approvals", "show", &approval]).out;
    assert!(page.contains("separation:   not enforced"), "{page}");
}

/// The vote of a removed user is on the certificate with the day of their removal.
#[tokio::test]
async fn the_vote_of_a_removed_user_is_marked_in_the_approval_and_on_the_certificate() {
    let (served, id) = leaving("false").await;
    let mut tokens = Vec::new();
    for (name, role) in VOTERS {
        served.user(name, &[role], None).await;
        tokens.push(served.claimed(&served.code(name).await));
    }
    let approval = served.asked(&id).await["waiting_for"]["approval"]["id"].as_str().unwrap().to_owned();
    for token in &tokens[..2] {
        assert_eq!(served.agree(token, &id).await.status, 200);
    }
    assert_eq!(served.run(&["user", "remove", "d1"]).exit, 0);
    served.user("d1", &["dpo"], None).await;
    let votes = served.votes(&approval).await;
    let of =
        |name: &str| votes.as_array().unwrap().iter().find(|vote| vote["person"] == name).unwrap().clone();
    assert!(of("d1")["removed"] == true && of("d1")["removed_at"].is_string(), "{votes}");
    assert!(of("o2")["removed"] == false && of("o2")["removed_at"].is_null(), "{votes}");
    served.exported(&id).await;
    for token in &tokens[2..] {
        assert_eq!(served.agree(token, &id).await.status, 200);
    }

    let proves = served.certified(&id).await;

    assert!(
        proves.contains("d1 voted in AwaitingApproval at ") && proves.contains("was removed on "),
        "{proves}"
    );
    assert!(!proves.contains("o2 voted in AwaitingApproval at "), "{proves}");
    let shown = served.run(&["certificate", "show", "acme.json"]).out;
    assert!(shown.contains(", removed on 20"), "{shown}");
    assert!(shown.contains("Signed with the key of fingerprint sha256:"), "{shown}");
}

/// A tenant whose onboarding needs no approval.
async fn small_tenant(served: &Served) {
    let document = "name: lab\ntenant: {tier: research, isolation: dedicated, data_residency: any, allow_preemption: true, allow_gpu_sharing: false}\nentitlement: {gpu_model: H100, gpus: 2}\n";
    let id = served.onboard(document).await;
    assert_eq!(served.ended(&id).await["state"], "Active");
}

#[tokio::test]
async fn the_confirmation_of_a_command_or_hold_release_follows_the_rules_of_votes() {
    let served = Served::start_with(&[("TENURE_TRIAL", "false"), ("TENURE_ENGINE_SECOND_PERSON", "pause")]);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let id = served.onboard(&large("acme")).await;
    served.asked(&id).await;
    small_tenant(&served).await;
    let roles = ["platform_ops", "compliance", "dpo", "security"];
    let puppet = served.user("puppet", &roles, None).await;

    let hold = json!({ "tenant": "lab", "id": "case-9", "kind": "legal", "reason": "litigation" });
    let placed = served.json_as(&served.admin, "/v1/holds", hold).await;
    assert_eq!(placed.status, 201, "{}", placed.body);
    let release = json!({ "reason": "settled" });
    refused(&served.json_as(&puppet, "/v1/holds/lab/case-9:release", release.clone()).await);

    let pause = format!("/v1/executions/{id}:pause");
    let proposed = served.json_as(&served.admin, &pause, json!({ "reason": "look" })).await;
    assert_eq!(proposed.status, 202, "{}", proposed.body);
    let second = format!("/v1/proposals/{}:second", proposed.body["proposal"].as_str().unwrap());
    refused(&served.json_as(&puppet, &second, json!({})).await);

    let own = served.claimed(&served.code("puppet").await);
    assert_eq!(served.json_as(&own, &second, json!({})).await.status, 200);
    assert_eq!(served.json_as(&own, "/v1/holds/lab/case-9:release", release).await.status, 200);
}

/// The placer's user may be removed by then: the rights of their credential at the time count.
#[tokio::test]
async fn a_hold_placed_by_a_user_is_not_released_by_the_creator_of_that_user() {
    let served = Served::start_with(&[("TENURE_TRIAL", "false")]);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    small_tenant(&served).await;
    let puppet = served.user("puppet", &["compliance", "dpo", "security"], None).await;
    let hold = json!({ "tenant": "lab", "id": "case-9", "kind": "legal", "reason": "litigation" });
    let placed = served.json_as(&puppet, "/v1/holds", hold).await;
    assert_eq!(placed.status, 201, "{}", placed.body);
    assert_eq!(served.run(&["user", "remove", "puppet"]).exit, 0);

    let release = json!({ "reason": "settled" });
    refused(&served.json_as(&served.admin, "/v1/holds/lab/case-9:release", release).await);
}
