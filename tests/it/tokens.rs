//! Services and tokens: several for each user, with expiry; and the limits of a service.

use crate::served::{Answer, Served, large, small};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

async fn add(served: &Served, body: Value) -> Answer {
    let added = served.json_as(&served.admin, "/v1/users", body).await;
    assert_eq!(added.status, 201, "{}", added.body);
    added
}

fn token(answer: &Answer) -> String {
    answer.body["token"].as_str().unwrap_or_else(|| panic!("{}", answer.body)).to_owned()
}

async fn listed(served: &Served, user: &str) -> Vec<Value> {
    let answer = served.get(&format!("/v1/users/{user}/tokens")).await;
    answer.body["items"].as_array().unwrap_or_else(|| panic!("{}", answer.body)).clone()
}

async fn lets_in(served: &Served, token: &str) -> bool {
    let answer = served.get_as(token, "/v1/me").await;
    assert!([200, 401].contains(&answer.status.as_u16()), "{}", answer.body);
    answer.status == 200
}

#[tokio::test]
async fn a_user_can_have_several_tokens_and_revoking_one_leaves_the_others() {
    let served = Served::start();
    let first = served.user("robot", &["platform_ops"], None).await;
    let ran = served.run(&["user", "token", "add", "robot", "ci", "--expires", "P90D"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let second = ran.out.trim().to_owned();
    assert!(second.starts_with("tn_") && second.lines().count() == 1, "only the token: {ran:?}");
    assert!(lets_in(&served, &first).await && lets_in(&served, &second).await);
    let me = served.get_as(&second, "/v1/me").await.body;
    let tokens = served.run(&["user", "token", "list", "robot", "-o", "json"]).json();
    let items = tokens.as_array().or(tokens["items"].as_array()).unwrap_or_else(|| panic!("{tokens}"));
    assert_eq!((&items[0]["name"], &items[1]["name"]), (&json!("first"), &json!("ci")), "{tokens}");
    assert_eq!((&items[0]["ends_at"], &items[1]["ends_at"]), (&json!(null), &me["ends_at"]), "{tokens}");
    assert!(me["ends_at"].is_string(), "the caller's own expiry is shown: {me}");
    assert!(!tokens.to_string().contains("hash"), "{tokens}");

    let again = served.json_as(&served.admin, "/v1/users/robot:token", json!({ "name": "ci" })).await;
    assert_eq!((again.status.as_u16(), again.code()), (409, "token.exists"), "{}", again.body);
    let once = || {
        let asked = served.ask(Method::POST, "/v1/users/robot:token").bearer_auth(&served.admin);
        asked.header("idempotency-key", "k").json(&json!({ "name": "cron" }))
    };
    assert_eq!(served.send(once()).await.status, 201);
    let repeated = served.send(once()).await;
    assert_eq!((repeated.status.as_u16(), repeated.code()), (409, "idempotency.secret_shown"));

    let ran = served.run(&["user", "token", "remove", "robot", "ci"]);
    assert_eq!((ran.exit, ran.out.as_str()), (0, "ci removed\n"), "{ran:?}");
    assert!(lets_in(&served, &first).await && !lets_in(&served, &second).await);
    let names: Vec<_> = listed(&served, "robot").await.iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, [json!("first"), json!("cron")]);
    let gone = served.ask(Method::DELETE, "/v1/users/robot/tokens/first").bearer_auth(&served.admin);
    assert_eq!(served.send(gone).await.status, 204);
    assert!(!lets_in(&served, &first).await, "the first token is like the others");
    let mine = served.ask(Method::DELETE, "/v1/users/admin/tokens/first").bearer_auth(&served.admin);
    assert_eq!(served.send(mine).await.code(), "user.is_admin", "administrators cannot remove themselves");

    let third = served.json_as(&served.admin, "/v1/users/robot:token", json!({ "name": "third" })).await;
    assert!(lets_in(&served, &token(&third)).await);
    let removed = served.ask(Method::DELETE, "/v1/users/robot").bearer_auth(&served.admin);
    assert_eq!(served.send(removed).await.status, 204);
    served.user("robot", &["platform_ops"], None).await;
    assert!(!lets_in(&served, &token(&third)).await, "a new user of the same name is another user");
}

#[tokio::test]
async fn an_expired_token_is_refused_and_the_last_use_of_a_token_is_recorded_hourly() {
    let served = Served::start();
    for wrong in ["P1M", "soon", "2020-01-01T00:00:00Z"] {
        let body = json!({ "name": "late", "roles": ["auditor"], "expires": wrong });
        let refused = served.json_as(&served.admin, "/v1/users", body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (422, "token.invalid"), "{}", refused.body);
    }
    let added =
        add(&served, json!({ "name": "robot", "roles": ["auditor"], "kind": "service", "expires": "PT3S" }))
            .await;
    let short = token(&added);
    assert!(lets_in(&served, &short).await);
    let mut told = Value::Null;
    for _ in 0..100 {
        told = listed(&served, "robot").await.remove(0);
        if !told["last_used_at"].is_null() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(told["last_used_at"].as_str().is_some_and(|at| at.ends_with(":00:00.000Z")), "{told}");
    tokio::time::sleep(Duration::from_millis(3_000)).await;
    assert!(!lets_in(&served, &short).await);
    assert_eq!(listed(&served, "robot").await[0]["state"], "over");
}

#[tokio::test]
async fn a_service_account_can_submit_requests_but_not_decide() {
    let served = Served::with_nodes().await;
    let every = ["platform_ops", "security", "finance", "capacity_manager", "compliance", "dpo", "admin"];
    let robot = token(&add(&served, json!({ "name": "robot", "roles": every, "kind": "service" })).await);
    let ada = served.user("ada", &["platform_ops", "security", "finance"], None).await;
    let asked = served.post_as(&robot, "/v1/tenants", "application/yaml", &small("quick")).await;
    assert_eq!(asked.status, 202, "it may send requests: {}", asked.body);
    served.ended(&asked.id()).await;
    let id = served.onboard(&large("acme")).await;
    let digest = served.asked(&id).await["waiting_for"]["approval"]["digest"].clone();
    let me = served.get_as(&robot, "/v1/me").await.body;
    assert_eq!(me["seats"], json!([]), "it fills no seat: {me}");

    for verb in ["approve", "refuse", "break-glass"] {
        let vote = json!({ "digest": digest, "reason": "because it can" });
        let refused = served.json_as(&robot, &format!("/v1/approvals/{id}:{verb}"), vote).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (403, "approval.not_a_person"), "{verb}");
    }
    let delegated =
        json!({ "from": "ada", "to": "robot", "until": crate::approvals::soon(), "reason": "leave" });
    let refused = served.json_as(&served.admin, "/v1/delegations", delegated).await;
    assert!(refused.code() == "delegation.invalid" && refused.body.to_string().contains("a service"));
    let group = json!({ "name": "night-watch", "members": ["robot"] });
    let refused = served.json_as(&served.admin, "/v1/groups", group).await;
    assert!(refused.code() == "group.invalid" && refused.body.to_string().contains("a service"));
    let hold = json!({ "tenant": "quick", "id": "h", "kind": "billing", "reason": "open bill" });
    assert_eq!(served.json_as(&served.admin, "/v1/holds", hold).await.status, 201);
    let released = served.json_as(&robot, "/v1/holds/quick/h:release", json!({ "reason": "paid" })).await;
    assert_eq!(released.code(), "approval.not_a_person", "the second person must be a person");

    let vote = json!({ "digest": digest, "reason": "looked at" });
    let agreed = served.json_as(&ada, &format!("/v1/approvals/{id}:approve"), vote).await;
    assert_eq!(agreed.status, 200, "a person may: {}", agreed.body);
    let users = served.get("/v1/users").await.body;
    let kinds: Vec<_> = users["items"].as_array().unwrap().iter().map(|user| &user["kind"]).collect();
    assert_eq!(kinds, ["person", "person", "service"], "{users}");
}

/// It is for set-up, and ends once another administrator uses a credential that only they know.
#[tokio::test]
async fn the_first_admins_token_ends_once_there_is_another_administrator() {
    let served = Served::start();
    let issued = served.user("root", &["admin"], None).await;
    assert!(
        lets_in(&served, &issued).await && lets_in(&served, &served.admin).await,
        "both tokens are valid"
    );
    let code = served.json_as(&served.admin, "/v1/users/root:enrol", json!({})).await.body["code"].clone();
    let own = served.json_as("", "/v1/enrolments:claim", json!({ "code": code })).await;
    let own = own.body["token"].as_str().unwrap().to_owned();
    assert!(lets_in(&served, &served.admin).await, "the admin token is valid until root signs in");
    assert!(lets_in(&served, &own).await);

    let ended = served.get("/v1/tenants").await;
    assert_eq!((ended.status.as_u16(), ended.code()), (401, "auth.bad_token"), "{}", ended.body);
    let told = ended.body["detail"].as_str().unwrap();
    assert!(told.contains("root is an administrator") && told.contains("admin.token"), "{told}");

    let last = served.send(served.ask(Method::DELETE, "/v1/users/root").bearer_auth(&own)).await;
    assert_eq!(last.code(), "user.is_admin", "the last administrator stays: {}", last.body);
    let only = served.ask(Method::DELETE, "/v1/users/root/tokens/enrolled").bearer_auth(&own);
    assert_eq!(served.send(only).await.code(), "user.is_admin");
    assert!(lets_in(&served, &own).await);
}

#[tokio::test]
async fn a_token_is_rotated_from_the_command_line_into_a_file_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let served = Served::start();
    let first = served.user("robot", &["platform_ops"], None).await;
    let file = served.dir.path().join("robot.token");
    let name = file.to_str().unwrap();
    let ran = served.run(&["user", "token", "rotate", "robot", "first", "--token-file", name]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let second = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    assert!(second.starts_with("tn_") && !ran.out.contains(&second) && !ran.err.contains(&second), "{ran:?}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!lets_in(&served, &first).await && lets_in(&served, &second).await);
    let again = served.run(&["user", "token", "rotate", "robot", "first", "--token-file", name]);
    assert!(
        again.exit != 0 && lets_in(&served, &second).await,
        "no token is made that cannot be stored: {again:?}"
    );

    let unused = served.dir.path().join("unused.token");
    let none = ["user", "token", "rotate", "robot", "nosuch", "--token-file", unused.to_str().unwrap()];
    assert!(served.run(&none).exit != 0 && !unused.exists(), "no token was made");
    for arguments in [
        &["user", "token", "add", "robot", "ci", "--token-file"][..],
        &["user", "add", "cron", "--role", "platform_ops", "--token-file"],
        &["user", "enrol", "robot", "--token-file"],
        &["agent", "key", "--token-file"],
    ] {
        let file = served.dir.path().join(format!("{}.secret", arguments[1..arguments.len() - 1].join("-")));
        let ran = served.run(&[arguments, &[file.to_str().unwrap()]].concat());
        assert_eq!(ran.exit, 0, "{arguments:?}: {ran:?}");
        let secret = std::fs::read_to_string(&file).unwrap();
        assert!(secret.len() > 20 && !ran.out.contains(secret.trim()), "{arguments:?}: {ran:?}");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{arguments:?}");
    }
}

/// The file that the next start reads is rotated too.
#[tokio::test]
async fn the_first_admins_token_is_rotated_with_its_file() {
    let served = Served::start();
    let rotated = served.json_as(&served.admin, "/v1/users/admin/tokens/first:rotate", json!({})).await;
    assert_eq!(rotated.status, 200, "{}", rotated.body);
    assert!(!lets_in(&served, &served.admin).await && lets_in(&served, &token(&rotated)).await);
    let listed = served.run(&["user", "list", "-o", "json"]);
    assert_eq!(listed.exit, 0, "the command line reads it from the file: {listed:?}");
}
