//! Refused sign-ins: forged or changed tokens, codes without their tab, and no provider.

use super::{House, challenge, fragment};
use reqwest::{Client, Url, redirect::Policy};
use serde_json::json;
use tests::servers::identity::now;

/// The address that a browser returns to is useless without the tab that started the sign-in. A tab that is led to another
/// tab's address also gets nothing.
#[tokio::test]
async fn the_answer_of_the_provider_works_only_in_the_tab_that_started_the_sign_in() {
    let house = House::start().await;
    let came = house.by_browser("of the first tab").await;
    for verifier in ["of the second tab", "", &challenge("of the first tab")] {
        let proof = json!({ "code": came[0].1, "verifier": verifier });
        assert_eq!(house.prove(proof).await.1["code"], "login.refused");
    }
    // The tab that started the sign-in still succeeds.
    let proof = json!({ "code": came[0].1, "verifier": "of the first tab" });
    assert_eq!(house.prove(proof).await.0, 201);
}

/// A changed state, a state of another server, or no state; a used code; refusals of the provider itself.
#[tokio::test]
async fn a_sign_in_that_was_not_started_is_refused() {
    let house = House::start().await;
    let back = house.through(&challenge("mine")).await;
    let state = back.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    let other = House::start().await;
    for (wrong, why) in [
        (back.as_str().replace("state=", "state=1"), "no sign-in attempt"),
        (back.as_str().replace(&state, ""), "no sign-in attempt"),
        (back.as_str().replace(&house.url, &other.url), "no sign-in attempt"),
        (format!("{}/login/callback?state={state}&error=access_denied", house.url), "access_denied"),
        (format!("{}/login/callback?state={state}&code=never", house.url), "invalid_grant"),
        (format!("{}/login/callback?state={state}", house.url), "neither"),
        (format!("{}/login/callback", house.url), "no sign-in attempt"),
    ] {
        let wrong = Url::parse(&wrong).unwrap();
        let came = fragment(&house.follow(&wrong).await);
        assert!(came[0].0 == "problem" && came[0].1.contains(why), "{wrong}: {came:?}");
    }
    assert_eq!(fragment(&house.follow(&back).await)[0].0, "code");
    let again = fragment(&house.follow(&back).await);
    assert!(again[0].0 == "problem" && again[0].1.contains("invalid_grant"), "{again:?}");
    let entry = house.refused("unknown", "GET /login/callback", "login.refused").await;
    assert!(!entry.to_string().contains(&state) && entry["subject"] == "/login/callback", "{entry}");
}

/// Each possible error of an ID token.
#[tokio::test]
async fn an_invalid_id_token_is_refused_with_the_reason() {
    let house = House::start().await;
    let identity = &house.identity;
    let header = |alg: &str| json!({ "alg": alg, "typ": "JWT", "kid": "first" });
    let good = identity.token(&json!({}));
    let (front, _) = good.rsplit_once('.').unwrap();
    let swapped = identity.token(&json!({ "sub": "mallory" }));
    for (token, why) in [
        (identity.token(&json!({ "aud": "another" })), "not issued for the client"),
        (identity.token(&json!({ "iss": "http://127.0.0.1:9" })), "another issuer"),
        (identity.token(&json!({ "exp": now() - 120 })), "has expired"),
        (identity.token(&json!({ "nbf": now() + 600 })), "not valid yet"),
        (identity.token(&json!({ "exp": null })), "is not accepted"),
        (identity.token(&json!({ "aud": null })), "is not accepted"),
        (identity.token(&json!({ "aud": ["tenure", "another"] })), "another client"),
        (identity.token(&json!({ "azp": "another" })), "another client"),
        (identity.token_under(&header("none"), &json!({})), "cannot be parsed"),
        (identity.token_under(&header("HS256"), &json!({})), "is not accepted"),
        (identity.token_under(&header("RS256"), &json!({})), "is not accepted"),
        (identity.token_under(&json!({ "alg": "ES256", "kid": "another" }), &json!({})), "does not publish"),
        (format!("{front}.{}", swapped.rsplit_once('.').unwrap().1), "invalid signature"),
        (format!("{front}."), "invalid signature"),
        ("a.b.c".into(), "cannot be parsed"),
        (String::new(), "cannot be parsed"),
        ("x".repeat(100_000), "longer"),
    ] {
        let (status, problem) = house.with(token).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert_eq!((status, problem["code"].as_str()), (401, Some("login.refused")), "{why}: {problem}");
        assert!(detail.contains(why), "{why}: {detail}");
    }
    assert_eq!(house.with(good).await.0, 201);
    assert_eq!(house.with(identity.token(&json!({ "aud": ["tenure", "b"], "azp": "tenure" }))).await.0, 201);
    for (proof, status) in [
        (json!({}), 422),
        (json!({ "code": "a" }), 422),
        (json!({ "id_token": "a", "code": "b" }), 422),
        (json!({ "tokn": "a" }), 400),
    ] {
        assert_eq!(house.prove(proof).await.0, status);
    }
}

/// Without a provider sign-in is impossible, and the answer names the reason.
#[tokio::test]
async fn a_server_without_a_provider_explains_that_sign_in_is_unavailable() {
    let served = crate::served::Served::start();
    let offered = served.get("/v1/login").await;
    assert_eq!(offered.body, json!({ "token": true, "oidc": null }));
    let http = Client::builder().redirect(Policy::none()).build().unwrap();
    let challenge = challenge("x");
    let left = http.get(format!("{}/login?challenge={challenge}", served.url)).send().await.unwrap();
    assert_eq!(left.status(), 404);
    let odd = http.get(format!("{}/login?challenge=short", served.url)).send().await.unwrap();
    assert_eq!(odd.status(), 400);
}

/// Any change in any place of a token: it is refused.
#[tokio::test]
async fn a_token_with_any_changed_character_is_refused() {
    let house = House::start().await;
    let good = house.identity.token(&json!({}));
    // Not the last character: two of its bits are unused.
    for at in 0..good.len() - 1 {
        let mut changed = good.clone().into_bytes();
        changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(changed).unwrap();
        let (status, answer) = house.with(changed).await;
        assert_eq!(status, 401, "{at}: {answer}");
    }
    assert_eq!(house.with(good).await.0, 201);
}
