//! Approvals by HTTP and command line: delegations, groups, withdrawals, break-glass, and attempts to bypass them.

mod no_way_around;

use crate::served::{Answer, Served, large};
use reqwest::Method;
use serde_json::{Value, json};

/// A policy that requires two platform approvers for an onboarding, of whom one may be of the night watch, and allows
/// break-glass.
const POLICY: &str = "\
policy: platform
version: 3
approvals:
  onboarding:
    within: 5d
    seats:
      - {any_of: [platform_ops], count: 1}
      - {any_of: [finance, 'group:night-watch'], count: 1}
    escalate:
      - {after: 2d, seats: [{any_of: [admin], count: 1}]}
    extend: 1d
    remind: {before: [12h], every: 1d}
    break_glass: {any_of: [breakglass], reason_at_least: 12}
";

async fn asked() -> (Served, String, Value) {
    let served = Served::with_nodes().await;
    let published = served.post("/v1/policies", "application/yaml", POLICY).await;
    assert!(published.status.is_success(), "{}", published.body);
    let id = served.onboard(&large("acme")).await;
    let digest = served.asked(&id).await["waiting_for"]["approval"]["digest"].clone();
    (served, id, digest)
}

impl Served {
    async fn decide(&self, token: &str, id: &str, verb: &str, body: Value) -> Answer {
        self.json_as(token, &format!("/v1/approvals/{id}:{verb}"), body).await
    }

    async fn delegate(&self, token: &str, body: Value) -> Answer {
        self.json_as(token, "/v1/delegations", body).await
    }
}

const LATER: &str = "2099-01-01T00:00:00Z";

/// Delegates vote in their own name for another user, and both names are recorded.
#[tokio::test]
async fn a_delegate_votes_for_another_until_the_delegation_ends() {
    let (served, id, digest) = asked().await;
    let ada = served.user("ada", &["platform_ops"], None).await;
    let dan = served.user("dan", &["dpo"], None).await;
    let far = served.delegate(&ada, json!({ "to": "dan", "until": LATER, "reason": "leave" })).await;
    assert!(far.code() == "delegation.invalid" && far.body.to_string().contains("366 days"), "{}", far.body);
    let vote = json!({ "digest": digest, "on_behalf_of": "ada" });
    let none = served.decide(&dan, &id, "approve", vote.clone()).await;
    assert_eq!((none.status.as_u16(), none.code()), (403, "approval.not_delegated"));
    let made = served.run(&[
        "--token",
        &ada,
        "delegations",
        "add",
        "dan",
        "--until",
        &soon(),
        "--reason",
        "on leave",
        "--role",
        "platform_ops",
        "-o",
        "json",
    ]);
    assert_eq!(made.exit, 0, "{made:?}");
    let delegation = made.json();
    assert_eq!(
        (delegation["state"].as_str(), delegation["created_by"].as_str()),
        (Some("in_force"), Some("ada"))
    );

    let own = served.decide(&dan, &id, "approve", json!({ "digest": digest })).await;
    assert_eq!(own.code(), "approval.not_entitled", "a delegation does not use the delegate's own role");
    assert_eq!(served.decide(&dan, &id, "approve", vote.clone()).await.status, 200);
    let shown = served.get(&format!("/v1/approvals/{id}")).await.body;
    assert_eq!(
        (shown["votes"][0]["person"].as_str(), shown["votes"][0]["on_behalf_of"].as_str()),
        (Some("dan"), Some("ada"))
    );
    let page = served.run(&["approvals", "show", &id]).out;
    assert!(page.contains("approve by dan for ada"), "{page}");
    let again = served.decide(&ada, &id, "approve", json!({ "digest": digest })).await;
    assert_eq!(again.code(), "approval.voted_before");

    let back =
        served.run(&["--token", &ada, "approvals", "withdraw", &id, "--reason", "let me read it first"]);
    assert_eq!(back.exit, 0, "{back:?}");
    let path = format!("/v1/delegations/{}", delegation["id"].as_str().unwrap());
    let stranger = served.user("eve", &["finance"], None).await;
    let foreign = served.send(served.ask(Method::DELETE, &path).bearer_auth(&stranger)).await;
    assert_eq!(foreign.code(), "delegation.not_yours");
    assert_eq!(served.send(served.ask(Method::DELETE, &path).bearer_auth(&ada)).await.status, 204);
    assert_eq!(served.decide(&dan, &id, "approve", vote).await.code(), "approval.not_delegated");
    assert_eq!(served.get(&path).await.body["state"], "over", "it stays on record");
    let history = served.get(&format!("/v1/approvals/{id}")).await.body["history"].clone();
    assert_eq!((history[0]["event"].as_str(), history[0]["by"].as_str()), (Some("withdrawn"), Some("ada")));
}

/// Returns a time within the year, by the machine's clock.
pub(crate) fn soon() -> String {
    let now = engine::Clock::now(&engine::SystemClock);
    workflows::signing::Moment::from(now.after(30 * engine::DAY)).to_string()
}

/// Neither the requester through a delegate, nor a delegate of the requester.
#[tokio::test]
async fn a_delegate_of_the_requester_cannot_decide_over_http() {
    let (served, id, digest) = asked().await;
    let ada = served.user("ada", &["platform_ops"], None).await;
    let made =
        served.delegate(&served.admin, json!({ "to": "ada", "until": soon(), "reason": "leave" })).await;
    assert_eq!(made.status, 201, "{}", made.body);

    for body in [json!({ "digest": digest }), json!({ "digest": digest, "on_behalf_of": "admin" })] {
        let refused = served.decide(&ada, &id, "approve", body).await;
        assert_eq!(
            (refused.status.as_u16(), refused.code()),
            (403, "approval.for_requester"),
            "{}",
            refused.body
        );
    }
    let path = format!("/v1/delegations/{}", made.id());
    assert_eq!(served.send(served.ask(Method::DELETE, &path).bearer_auth(&ada)).await.status, 204);
    let late = served.decide(&ada, &id, "approve", json!({ "digest": digest })).await;
    assert_eq!(late.code(), "approval.for_requester", "an earlier revocation does not help");
}

#[tokio::test]
async fn a_delegation_is_refused_with_the_field_and_the_remedy() {
    let served = Served::start();
    let ada = served.user("ada", &["finance"], None).await;
    served.user("dan", &["dpo"], None).await;
    served.user("otto", &["auditor"], None).await;
    served.user("tess", &["tenant_owner"], Some("acme")).await;
    let cases = [
        (json!({ "to": "ada" }), "to: a user cannot delegate to themselves"),
        (json!({ "to": "nobody" }), "to: there is no user nobody"),
        (json!({ "to": "otto" }), "to: otto has no role that votes"),
        (json!({ "to": "tess" }), "to: the delegate must be bound to the same tenant"),
        (json!({ "to": "dan", "roles": ["security"] }), "roles: ada does not have security"),
        (json!({ "to": "dan", "until": "2020-01-01T00:00:00Z" }), "until: "),
        (json!({ "to": "dan", "until": "soon" }), "until: "),
        (json!({ "to": "dan", "reason": " " }), "reason: give a reason"),
    ];
    for (mut body, wanted) in cases {
        let fields = body.as_object_mut().unwrap();
        fields.entry("until").or_insert(json!(soon()));
        fields.entry("reason").or_insert(json!("leave"));
        let refused = served.delegate(&ada, body).await;
        assert_eq!(refused.status, 422, "{}", refused.body);
        assert!(refused.body["detail"].as_str().unwrap().contains(wanted), "{wanted}: {}", refused.body);
    }
    let until = soon();
    let once = json!({ "to": "dan", "until": until, "reason": "leave" });
    assert_eq!(served.delegate(&ada, once.clone()).await.status, 201);
    let again = served.delegate(&ada, once).await;
    assert!(
        again.status == 422 && again.body.to_string().contains("already has this delegation"),
        "{}",
        again.body
    );
    assert!(
        served.run(&["delegations", "list"]).out.contains("all held at the time"),
        "no roles are all of them"
    );
    let others = json!({ "from": "dan", "to": "ada", "until": soon(), "reason": "leave" });
    assert_eq!(served.delegate(&ada, others.clone()).await.code(), "auth.forbidden");
    assert_eq!(served.delegate(&served.admin, others).await.status, 201, "an admin may");
}

/// A pause delays the effect of a decision and reports the delay: no reminder is sent, and no further vote is accepted.
#[tokio::test]
async fn a_decision_during_a_pause_says_that_it_takes_effect_on_resume() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    let digest = served.asked(&id).await["waiting_for"]["approval"]["digest"].clone();
    let ada = served.user("ada", &["platform_ops"], None).await;
    let eve = served.user("eve", &["platform_ops"], None).await;
    assert_eq!(served.run(&["executions", "pause", &id, "--reason", "a look"]).exit, 0);

    let voted = served.run(&["--token", &ada, "approvals", "approve", &id]);
    let held = "granted; takes effect when it is resumed";
    assert!(voted.exit == 0 && voted.err.contains(held), "{voted:?}");
    let item = served.get(&format!("/v1/executions/{id}")).await.body;
    let approval = &item["waiting_for"]["approval"];
    assert_eq!((&item["phase"], &approval["ruling"]), (&json!("paused"), &json!("granted")), "{item}");
    let shown = served.run(&["executions", "show", &id]);
    assert!(shown.err.contains(held) && !shown.err.contains("another person"), "{shown:?}");
    assert!(served.run(&["approvals", "show", &id]).out.contains(held));
    assert!(served.run(&["approvals", "list"]).out.contains("granted"));
    let vote = json!({ "digest": digest, "reason": "too late" });
    for (token, verb) in [(&eve, "approve"), (&eve, "refuse"), (&ada, "withdraw")] {
        let body = if verb == "withdraw" { json!({ "reason": "no" }) } else { vote.clone() };
        let late = served.decide(token, &id, verb, body).await;
        assert_eq!((late.status.as_u16(), late.code()), (409, "approval.decided"), "{verb}: {}", late.body);
    }

    assert_eq!(served.run(&["executions", "resume", &id, "--reason", "seen"]).exit, 0);
    assert_eq!(served.ended(&id).await["reason"], "completed");
    let closed = served.run(&["approvals", "show", &id, "-o", "json"]).json();
    assert_eq!(
        (&closed["ruling"], &closed["takes_effect"]),
        (&json!("granted"), &json!(null)),
        "by its execution"
    );
    assert_eq!(served.decide(&eve, &id, "approve", vote).await.code(), "approval.not_waiting");
}

/// A seat may be reserved for a group; its members can fill it while they are members.
#[tokio::test]
async fn a_group_gives_its_members_a_seat_while_they_are_members() {
    let (served, id, digest) = asked().await;
    let nick = served.user("nick", &["capacity_manager"], None).await;
    served.user("tess", &["tenant_owner"], Some("acme")).await;
    let vote = json!({ "digest": digest });
    assert_eq!(served.decide(&nick, &id, "approve", vote.clone()).await.code(), "approval.not_entitled");

    assert_eq!(served.run(&["group", "add", "night-watch", "--member", "nick"]).exit, 0);
    let bound = served.json_as(&served.admin, "/v1/groups/night-watch:join", json!({ "user": "tess" })).await;
    assert_eq!(bound.code(), "group.invalid", "a tenant's own user never fills a platform seat");
    assert_eq!(served.run(&["group", "leave", "night-watch", "nick"]).exit, 0);
    assert_eq!(served.decide(&nick, &id, "approve", vote.clone()).await.code(), "approval.not_entitled");
    assert_eq!(served.run(&["group", "join", "night-watch", "nick"]).exit, 0);
    assert_eq!(served.decide(&nick, &id, "approve", vote.clone()).await.status, 200);

    let removed = served.send(served.ask(Method::DELETE, "/v1/users/nick").bearer_auth(&served.admin)).await;
    assert_eq!(removed.status, 204);
    let group = served.get("/v1/groups/night-watch").await.body;
    assert_eq!(group["members"], json!([]), "a new group of the same name gets no members");
}

/// Policy's rules for an approval apply to it and are shown with it.
#[tokio::test]
async fn an_approval_follows_the_procedure_that_policy_names() {
    let (served, id, _) = asked().await;
    let shown = served.get(&format!("/v1/approvals/{id}")).await.body;
    let procedure = &shown["procedure"];
    assert_eq!(procedure["escalate"][0]["after"], "2d", "{shown}");
    assert_eq!(
        (procedure["extend"].as_str(), procedure["remind"]["every"].as_str()),
        (Some("1d"), Some("1d"))
    );
    assert_eq!(procedure["break_glass"]["any_of"], json!(["breakglass"]));
    let journal = served.get(&format!("/v1/executions/{id}")).await.body;
    let next = journal["waiting_for"]["next_action_at"].as_str().unwrap();
    assert!(next < shown["deadline"].as_str().unwrap(), "a reminder is sent before the deadline: {next}");
}

/// Break-glass needs a reason, is announced, and is reviewed by another person.
#[tokio::test]
async fn break_glass_is_reviewed_by_another_person() {
    let (served, id, digest) = asked().await;
    let bea = served.user("bea", &["breakglass"], None).await;
    let sam = served.user("sam", &["security"], None).await;
    let approval = served.get(&format!("/v1/approvals/{id}")).await.body["id"].as_str().unwrap().to_owned();
    let alone = |reason: &str| json!({ "digest": digest, "reason": reason });

    let plain = served.decide(&bea, &id, "approve", alone("a fire")).await;
    assert_eq!(plain.code(), "approval.not_entitled", "the role does not fill a seat");
    let own = served.decide(&served.admin, &id, "break-glass", alone("a fire in the hall")).await;
    assert_eq!(own.code(), "approval.own_request");
    let other = served.decide(&sam, &id, "break-glass", alone("a fire in the hall")).await;
    assert_eq!((other.status.as_u16(), other.code()), (403, "approval.no_break_glass"));
    let short = served.decide(&bea, &id, "break-glass", alone("fire")).await;
    assert_eq!((short.status.as_u16(), short.code()), (422, "approval.reason_missing"));
    let broken =
        served.run(&["--token", &bea, "approvals", "break-glass", &id, "--reason", "a fire in the hall"]);
    assert_eq!(broken.exit, 0, "{broken:?}");

    let item = served.ended(&id).await;
    assert_eq!(item["authorisation"]["by"]["break_glass"]["person"], "bea", "{item}");
    let shown = served.get(&format!("/v1/approvals/{approval}")).await.body;
    assert_eq!((shown["ruling"].as_str(), shown["broken_by"].as_str()), (Some("granted"), Some("bea")));
    assert!(served.run(&["approvals", "show", &approval]).out.contains("BREAK GLASS"));
    let metrics = served.get("/metrics").await.body;
    assert!(
        metrics.as_str().unwrap().contains("approvals_glass_broken_total{workflow=\"onboarding\"} 1"),
        "{metrics}"
    );

    let open = served.run(&["approvals", "reviews", "-o", "json"]).json();
    assert_eq!((open[0]["id"].as_str(), open[0]["by"].as_str()), (Some(&*approval), Some("bea")), "{open}");
    let review = |token: &str, note: &'static str| {
        let (served, token, approval) = (&served, token.to_owned(), approval.clone());
        async move { served.decide(&token, &approval, "review", json!({ "note": note })).await }
    };
    assert_eq!(review(&served.admin, "fine").await.code(), "review.own", "who asked");
    assert_eq!(review(&bea, "fine").await.code(), "auth.forbidden", "the user who did it");
    assert_eq!(review(&sam, " ").await.code(), "review.note_missing");
    let done = served.run(&["--token", &sam, "approvals", "review", &approval, "--note", "it did burn"]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert_eq!(served.run(&["approvals", "reviews", "-o", "json"]).json(), json!([]));
    let kept = served.run(&["approvals", "reviews", "--done", "-o", "json"]).json();
    assert_eq!(kept[0]["outcome"]["by"], "sam", "{kept}");
    assert_eq!(review(&sam, "again").await.status, 404);
}

/// A rejection without a reason does not help the requester.
#[tokio::test]
async fn a_refusal_without_a_reason_is_rejected() {
    let (served, id, digest) = asked().await;
    let ada = served.user("ada", &["platform_ops"], None).await;
    let silent = served.decide(&ada, &id, "refuse", json!({ "digest": digest })).await;
    assert_eq!((silent.status.as_u16(), silent.code()), (422, "approval.reason_missing"));
    let told = served.decide(&ada, &id, "refuse", json!({ "digest": digest, "reason": "too dear" })).await;
    assert_eq!(told.status, 200);
    assert_eq!(served.ended(&id).await["reason"], "refused");
}
