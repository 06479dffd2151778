//! An external system: the output of its hook is accepted only if it is complete and names the requested object.

use super::{script, stamp};
use backends::{
    exec::{ExecTarget, Program},
    hooks::System,
};
use engine::Class;
use serde_json::json;
use std::{path::Path, sync::Arc};
use workflows::platform::{
    AccessMode, CallMetadata, Identity, Observer, TenantResource, TenantResources, codes,
};

/// Returns a system behind a script, which finds the request in `$request` and its folder in `$0`.
fn behind(folder: &Path, text: &str) -> System {
    let text = format!("request=$(cat)\ncd \"$(dirname \"$0\")\"\necho \"$request\" >> asked\n{text}");
    let hook = Arc::new(Program::connect(&ExecTarget::new(script(folder, &text))).unwrap());
    System::new("registry", hook.clone(), hook)
}

fn app() -> TenantResource {
    TenantResource::new("registry", "", "Repository", "acme/app")
}

/// Returns the requests in their order.
fn asked(folder: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(folder.join("asked")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_resource_without_an_identity_or_of_another_tenant_is_an_error_and_not_an_absence() {
    let folder = tempfile::tempdir().unwrap();
    let whole = json!({ "kind": "Repository", "name": "acme/app", "uid": "1", "tenant": "acme" });
    let with = |field: &str, value: serde_json::Value| {
        let mut thing = whole.clone();
        thing[field] = value;
        thing
    };
    let shown = [
        (json!([with("uid", json!(""))]), json!(with("uid", json!("")))),
        (json!([with("tenant", json!("globex"))]), json!(with("name", json!("acme/other")))),
        (json!([with("kind", json!(7))]), json!(with("kind", json!("Model")))),
        (json!(null), json!([])),
        (json!({}), json!("acme/app")),
    ];
    for (survey, look) in shown {
        for (output, is_survey) in [(&survey, true), (&look, false)] {
            let answer = json!({ "status": "done", "output": output });
            let system = behind(folder.path(), &format!("echo '{answer}'"));
            let error = if is_survey {
                system
                    .survey("registry", "acme", Observer::Platform, &stamp("e/S/1/0", false))
                    .await
                    .unwrap_err()
            } else {
                system.read_resource(&app(), Observer::Verifier, &stamp("e/S/1/0", false)).await.unwrap_err()
            };
            assert_eq!(
                (error.class, error.code.as_str()),
                (Class::Transient, codes::UNREADABLE),
                "{output}: {error}"
            );
        }
    }
    let empty = behind(folder.path(), r#"echo '{"status":"not_done"}'"#);
    let error = empty.read_resource(&app(), Observer::Platform, &stamp("e/S/1/0", false)).await.unwrap_err();
    assert_eq!(error.code, codes::UNREADABLE, "an answer to another request: {error}");
}

#[tokio::test]
async fn a_resource_is_returned_with_all_its_fields_and_a_read_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let thing =
        json!({ "kind": "Repository", "name": "acme/app", "uid": "1", "tenant": "acme", "class": "model" });
    let system = behind(folder.path(), &format!("echo '{}'", json!({ "status": "done", "output": [thing] })));

    let seen = system.survey("registry", "acme", Observer::Platform, &stamp("e/S/1/0", false)).await.unwrap();

    assert_eq!((seen[0].thing.clone(), seen[0].text("class")), (app(), Some("model")));
    let request = asked(folder.path()).remove(0);
    assert_eq!(
        (&request["verb"], &request["tenant"], &request["hook"]),
        (&json!("look"), &json!("acme"), &json!("registry"))
    );
}

/// A hook without dry runs gets no dry-run call; a real call names the object and the identity that was found.
#[tokio::test]
async fn a_change_names_the_found_resource_and_a_dry_run_calls_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let system = behind(folder.path(), r#"echo '{"status":"done"}'"#);
    let earnest = stamp("e/S/1/0", false);
    let dry = CallMetadata { dry_run: true, ..earnest.clone() };
    system.remove(&app(), "1", &dry).await.unwrap();
    system.set_admission(&app(), "acme", AccessMode::Nothing, &dry).await.unwrap();
    assert_eq!(asked(folder.path()), [json!(null); 0]);

    system.remove(&app(), "1", &earnest).await.unwrap();
    system.set_admission(&app(), "acme", AccessMode::ReadOnly, &earnest).await.unwrap();

    let asked: Vec<_> = asked(folder.path()).iter().map(|request| request["arguments"].clone()).collect();
    let named = |more: serde_json::Value| {
        let mut all = json!({ "place": "", "kind": "Repository", "name": "acme/app" });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    assert_eq!(
        asked,
        [
            named(json!({ "do": "remove", "uid": "1" })),
            named(json!({ "do": "admit", "admits": "read_only" }))
        ]
    );
}

/// Checked before the destruction of a key is approved: without a dry run the move counts as impossible.
#[tokio::test]
async fn a_hook_without_dry_runs_never_claims_to_move_data_to_another_key() {
    let folder = tempfile::tempdir().unwrap();
    let system = behind(folder.path(), r#"echo '{"status":"done"}'"#);
    let earnest = stamp("e/S/1/0", false);
    let dry = CallMetadata { dry_run: true, ..earnest.clone() };

    let error = system.rewrap(&app(), "acme", "provider-archive", &dry).await.unwrap_err();

    assert_eq!((error.class, error.code.as_str()), (Class::Permanent, codes::UNSUPPORTED), "{error}");
    assert!(error.message.contains("dry_runs: true"), "{error}");
    assert_eq!(asked(folder.path()), [json!(null); 0]);
    system.rewrap(&app(), "acme", "provider-archive", &earnest).await.unwrap();
}

/// The object that a hook reports as made is read again. An invisible object is an unknown outcome. An object of another tenant
/// is refused before any call.
#[tokio::test]
async fn created_resources_are_found_and_those_of_others_are_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let forgets = behind(folder.path(), r#"echo '{"status":"done"}'"#);
    let groups = ["acme-admins".to_owned()];
    let error = forgets.create("t-acme", "acme", &groups, &stamp("e/S/1/0", false)).await.unwrap_err();
    assert_eq!((error.class, error.code.as_str()), (Class::Unknown, codes::UNREADABLE), "{error}");

    std::fs::remove_file(folder.path().join("asked")).unwrap();
    let others = json!({ "kind": "Groups", "name": "t-acme", "uid": "1", "tenant": "acme", "step": "e/OTHER/1/0", "groups": ["x"] });
    let taken = behind(folder.path(), &format!("echo '{}'", json!({ "status": "done", "output": others })));
    let error = taken.create("t-acme", "acme", &groups, &stamp("e/S/1/0", false)).await.unwrap_err();
    assert_eq!((error.class, error.code.as_str()), (Class::Permanent, codes::OBJECT_FOREIGN), "{error}");
    assert!(asked(folder.path()).iter().all(|request| request["verb"] == "look"), "nothing is changed");
}
