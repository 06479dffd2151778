//! The shipped rights are sufficient (every test here has exactly these), and each one is necessary.

use super::{
    objects::free_epoch,
    server::{CLASSES, World, differences, world},
    steps::{CLASS, NODE, Pair, Stage, onboarding},
};
use engine::{ActionError, Class};
use serde_json::{Value, json};
use workflows::platform::codes;

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tenure";

/// The role without one verb on one resource.
fn without(rules: &Value, resource: &str, verb: &str) -> Value {
    let mut kept = Vec::new();
    for rule in rules.as_array().unwrap() {
        let resources = rule["resources"].as_array().unwrap().clone();
        let (hit, others): (Vec<Value>, Vec<Value>) = resources.into_iter().partition(|one| one == resource);
        for (resources, taken) in [(others, None), (hit, Some(verb))] {
            let verbs = rule["verbs"].as_array().unwrap().iter().filter(|one| taken != one.as_str()).cloned();
            let verbs: Vec<Value> = verbs.collect();
            if !resources.is_empty() && !verbs.is_empty() {
                let mut rule = rule.clone();
                (rule["resources"], rule["verbs"]) = (json!(resources), json!(verbs));
                kept.push(rule);
            }
        }
    }
    json!(kept)
}

/// Returns the first refusal over all steps and back.
async fn refusal(stage: &Stage, pairs: &[Pair]) -> Option<ActionError> {
    let acts = pairs.iter().map(|pair| (pair.step, pair.act.as_ref(), false));
    let undos = pairs.iter().rev().map(|pair| (pair.step, pair.undo.as_ref(), true));
    for (step, deed, undo) in acts.chain(undos) {
        for _ in 0..200 {
            match stage.once(deed, step, undo).await {
                Ok(()) => break,
                Err(error) if error.class == Class::Permanent => return Some(error),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    }
    None
}

async fn settle(world: &World, stage: &Stage, pairs: &[Pair], rules: &Value) {
    world.merge(ROLE, json!({ "rules": rules })).await;
    // The server caches rights, and updates them with a delay.
    for _ in 0..100 {
        let undone = pairs.iter().rev().map(|pair| stage.once(pair.undo.as_ref(), pair.step, true));
        let mut denied = false;
        for undo in undone {
            denied |= undo.await.is_err_and(|error| error.code == codes::DENIED);
        }
        if !denied {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    stage.roll_back(pairs).await;
}

/// S48. One missing verb is `platform.denied`, permanent, and names the verb and the resource; no partial work stays once the
/// right is restored.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_permission_is_denied_and_names_the_verb() {
    let Some(world) = world().await else { return };
    world.node(NODE).await;
    let stage = Stage::new(&world).await;
    let rules = world.get(ROLE).await.unwrap()["rules"].clone();
    let before = world.snapshot().await;

    for (n, (resource, verb)) in [
        ("namespaces", "create"),
        ("namespaces", "delete"),
        ("resourcequotas", "get"),
        ("nodes", "patch"),
        ("networkpolicies", "create"),
        ("clusterroles", "bind"),
        ("clusterqueues", "patch"),
        ("localqueues", "delete"),
        ("limitranges", "create"),
        ("limitranges", "delete"),
        ("priorityclasses", "get"),
        ("priorityclasses", "create"),
    ]
    .into_iter()
    .enumerate()
    {
        // The class already exists from another tenant.
        world.delete(&format!("{CLASSES}/{CLASS}")).await;
        let pairs = onboarding(&format!("denied{n}"), free_epoch(&world).await);
        world.merge(ROLE, json!({ "rules": without(&rules, resource, verb) })).await;
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;

        let error =
            refusal(&stage, &pairs).await.unwrap_or_else(|| panic!("{verb} {resource} is not needed"));
        assert_eq!(
            (error.code.as_str(), error.class),
            (codes::DENIED, Class::Permanent),
            "{verb} {resource}: {error}"
        );
        let names = if resource == "clusterroles" { "attempting to grant" } else { resource };
        assert!(error.message.contains(names), "{verb} {resource}: {error}");
        settle(&world, &stage, &pairs, &rules).await;
    }

    let left = differences(&before, &world.snapshot().await);
    assert!(left.iter().all(|line| line.contains("spent-epoch")), "{left:#?}");
}

/// Invalid credentials are denied too, and no message contains a secret.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_denied_and_never_shown() {
    let Some(world) = world().await else { return };
    let text = std::fs::read_to_string(world.kubeconfig("tenure")).unwrap();
    let (path, token) = (world.dir().join("wrong.kubeconfig"), world.dir().join("wrong.token"));
    std::fs::write(&token, "s3cret-and-wrong").unwrap();
    std::fs::write(&path, text.replace("tenure.token", "wrong.token")).unwrap();
    let mut target = world.target();
    target.kubeconfig = Some(path);
    let stage = Stage::with(&target).await;

    let error = stage.once(onboarding("nobody", 1)[0].act.as_ref(), "namespace", false).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::DENIED, Class::Permanent));
    let shown = format!("{error} {:?}", stage.on.kubernetes);
    assert!(!shown.contains("s3cret"), "{shown}");
}
