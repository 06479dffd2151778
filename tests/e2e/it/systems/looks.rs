//! The observations and removals of each recipe, on its real server.

use super::{
    servers::{Dns, Registry, Scim},
    stamp, system,
};
use backends::hooks::System;
use engine::Class;
use workflows::platform::{AccessMode, Identity, Observer, TenantResource, TenantResources, codes};

const GROUPS: [&str; 2] = ["acme-admins", "acme-members"];

fn groups() -> Vec<String> {
    GROUPS.map(str::to_owned).to_vec()
}

fn scim(server: &Scim) -> System {
    let (token, owners, reader) = (server.file("platform"), server.file("owners"), server.file("verifier"));
    system("identity", "scim", &[&server.url, &token, &owners], &[&server.url, &reader])
}

fn registry(server: &Registry) -> System {
    let (user, reader, collect) = (server.file("tenure"), server.file("reader"), server.file("collect.sh"));
    system("registry", "registry", &[&server.url, &user, &collect], &[&server.url, &reader])
}

fn dns(server: &Dns) -> System {
    let (update, transfer) = (server.file("update.key"), server.file("transfer.key"));
    let with = |key: &str| ["127.0.0.1", &server.port, "gpus.example", key].map(str::to_owned);
    let (hook, verifier) = (with(&update), with(&transfer));
    system("network", "dns", &hook.each_ref().map(String::as_str), &verifier.each_ref().map(String::as_str))
}

/// Returns the names that the verifier sees of a tenant.
async fn seen(system: &System, tenant: &str) -> Vec<String> {
    let all = system.survey(system.name(), tenant, Observer::Verifier, &stamp("look")).await.unwrap();
    let mut names: Vec<_> =
        all.iter().map(|seen| format!("{}/{}", seen.thing.kind, seen.thing.name)).collect();
    names.sort();
    names
}

/// Removes every object of a tenant, one after the other.
async fn cleared(system: &System, tenant: &str) {
    for seen in system.survey(system.name(), tenant, Observer::Platform, &stamp("clear")).await.unwrap() {
        system.remove(&seen.thing, &seen.uid, &stamp("clear")).await.unwrap();
        assert_eq!(
            system.read_resource(&seen.thing, Observer::Verifier, &stamp("clear")).await.unwrap(),
            None
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_members_of_a_tenant_are_added_suspended_restored_and_removed() {
    let Some(server) = Scim::start() else { return };
    let (identity, made) = (scim(&server), stamp("e/CreatingIdentity/1/0"));
    server.owner("acme", "ada@acme.example").await;
    server.plant("globex-admins").await;

    let found = identity.create("t-acme", "acme", &groups(), &made).await.unwrap();
    assert_eq!((found.tenant.as_str(), found.step.as_str()), ("acme", made.step.as_str()));
    assert_eq!(identity.published("t-acme", &made).await.unwrap(), None, "no owner has signed in yet");
    identity.publish("t-acme", "acme", &made).await.unwrap();
    identity.publish("t-acme", "acme", &made).await.unwrap();
    assert!(identity.published("t-acme", &made).await.unwrap().is_some());
    assert_eq!(seen(&identity, "acme").await, ["Credentials/t-acme", "Groups/t-acme"]);

    let door = TenantResource::new("identity", "", "Groups", "t-acme");
    for (admits, members) in
        [(AccessMode::ReadOnly, 1), (AccessMode::Nothing, 0), (AccessMode::Nothing, 0), (AccessMode::All, 1)]
    {
        identity.set_admission(&door, "acme", admits, &stamp("door")).await.unwrap();
        let groups = server.groups().await;
        let admins = groups.iter().find(|(name, ..)| name == GROUPS[0]).unwrap();
        assert_eq!(admins.1, members, "{admits:?}: {groups:?}");
        assert_eq!(seen(&identity, "acme").await.len(), 2, "the group is still found: {admits:?}");
    }
    identity.set_admission(&door, "acme", AccessMode::Nothing, &stamp("door")).await.unwrap();
    let all = identity.survey("identity", "acme", Observer::Platform, &made).await.unwrap();
    let order =
        ["Credentials", "Groups"].map(|kind| all.iter().find(|seen| seen.thing.kind == kind).unwrap());
    for seen in order {
        identity.remove(&seen.thing, &seen.uid, &stamp("clear")).await.unwrap();
    }

    assert_eq!(seen(&identity, "acme").await, [""; 0]);
    let left: Vec<_> = server.groups().await.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(left, ["globex-admins"], "groups of other owners stay");
}

/// The first owner of a name keeps it: groups of another owner are neither adopted nor removed.
#[tokio::test(flavor = "multi_thread")]
async fn groups_of_another_owner_are_not_changed() {
    let Some(server) = Scim::start() else { return };
    let identity = scim(&server);
    server.plant("acme-members").await;

    let error = identity.create("t-acme", "acme", &groups(), &stamp("one")).await.unwrap_err();

    assert_eq!((error.class, error.code.as_str()), (Class::Permanent, codes::OBJECT_FOREIGN), "{error}");
    let left: Vec<_> = server.groups().await.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(left, ["acme-members"], "the groups made so far are removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_repository_leaves_no_layer_on_the_disk_of_the_registry() {
    let Some(server) = Registry::start() else { return };
    let registry = registry(&server);
    server.push("acme/trainer", "v1", "the weights of acme").await;
    server.push("acme/trainer", "v2", "the weights of acme, again").await;
    server.push("acme/deep/er", "latest", "deeper weights of acme").await;
    server.push("acme2/trainer", "v1", "the weights of another").await;
    assert_eq!(seen(&registry, "acme").await, ["Repository/acme/deep/er", "Repository/acme/trainer"]);
    assert_eq!(server.files_with("weights of acme").len(), 3);

    cleared(&registry, "acme").await;

    assert_eq!(seen(&registry, "acme").await, [""; 0]);
    assert_eq!(server.files_with("weights of acme"), [""; 0]);
    assert_eq!(seen(&registry, "acme2").await, ["Repository/acme2/trainer"]);
    assert_eq!(server.files_with("the weights of another").len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_name_is_unknown_to_the_name_server() {
    let records = [
        "acme.gpus.example. 60 A 10.0.0.1",
        "acme.gpus.example. 60 A 10.0.0.2",
        "*.acme.gpus.example. 60 TXT all",
        "api.acme.gpus.example. 60 CNAME acme.gpus.example.",
        "notacme.gpus.example. 60 A 10.0.0.3",
    ];
    let Some(server) = Dns::start(&records) else { return };
    let network = dns(&server);
    let names = ["*.acme.gpus.example./TXT", "acme.gpus.example./A", "api.acme.gpus.example./CNAME"];
    assert_eq!(seen(&network, "acme").await, names.map(|name| format!("Record/{name}")));

    cleared(&network, "acme").await;

    assert_eq!(seen(&network, "acme").await, [""; 0]);
    assert_eq!(server.answer("acme.gpus.example", "A"), "");
    assert_eq!(server.answer("notacme.gpus.example", "A"), "10.0.0.3");
    let late = network
        .remove(&TenantResource::new("network", "", "Record", names[1]), names[1], &stamp("late"))
        .await;
    late.unwrap();
}

/// A failed observation says nothing about absence: neither with refused credentials nor with a server that is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_survey_never_counts_as_an_absence() {
    let (Some(scim), Some(registry)) = (Scim::start(), Registry::start()) else { return };
    let Some(dns) = Dns::start(&[]) else { return };
    for file in [scim.file("wrong"), registry.file("wrong")] {
        std::fs::write(file, "wrong:wrong\n").unwrap();
    }
    let key = std::fs::read_to_string(dns.file("transfer.key")).unwrap();
    std::fs::write(dns.file("wrong.key"), key.replace("transfer", "nobody")).unwrap();
    let (transfer, wrong) = (dns.file("transfer.key"), dns.file("wrong.key"));
    let away = "http://127.0.0.1:1";
    let looks = [
        ("identity", "scim", vec![scim.url.clone(), scim.file("wrong")], codes::DENIED),
        ("identity", "scim", vec![away.into(), scim.file("platform")], codes::UNAVAILABLE),
        (
            "identity",
            "scim",
            vec![format!("{}/elsewhere", scim.url), scim.file("platform")],
            codes::UNSUPPORTED,
        ),
        ("registry", "registry", vec![registry.url.clone(), registry.file("wrong")], codes::DENIED),
        ("registry", "registry", vec![away.into(), registry.file("tenure")], codes::UNAVAILABLE),
        (
            "registry",
            "registry",
            vec![format!("{}/elsewhere", registry.url), registry.file("tenure")],
            codes::UNSUPPORTED,
        ),
        (
            "network",
            "dns",
            vec!["127.0.0.1".into(), dns.port.clone(), "gpus.example".into(), wrong],
            codes::UNAVAILABLE,
        ),
        (
            "network",
            "dns",
            vec!["127.0.0.1".into(), "1".into(), "gpus.example".into(), transfer.clone()],
            codes::UNAVAILABLE,
        ),
        (
            "network",
            "dns",
            vec!["127.0.0.1".into(), dns.port.clone(), "elsewhere.example".into(), transfer],
            codes::UNAVAILABLE,
        ),
    ];
    for (name, recipe, arguments, code) in looks {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let one = system(name, recipe, &arguments, &arguments);
        for eyes in [Observer::Platform, Observer::Verifier] {
            let error = one.survey(name, "acme", eyes, &stamp("look")).await.unwrap_err();
            assert_eq!(error.code, code, "{recipe} {arguments:?}: {error}");
        }
    }
}
