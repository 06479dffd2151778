//! A tenant is onboarded and offboarded with users, images and names in real external systems; everything else is simulated.

use super::{
    exec,
    servers::{Dns, Registry, Scim},
};
use crate::whole::house::House;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_offboarded_tenant_leaves_no_member_layer_or_name_in_other_systems() {
    let (Some(scim), Some(registry)) = (Scim::start(), Registry::start()) else { return };
    let records = ["acme.gpus.example. 60 A 10.0.0.1", "globex.gpus.example. 60 A 10.0.0.9"];
    let Some(dns) = Dns::start(&records) else { return };
    scim.owner("acme", "ada@acme.example").await;
    server_has_others(&scim, &registry).await;
    let (platform, owners, verifier) = (scim.file("platform"), scim.file("owners"), scim.file("verifier"));
    let (tenure, reader, collect) =
        (registry.file("tenure"), registry.file("reader"), registry.file("collect.sh"));
    let zone = |key: &str| exec("dns", &["127.0.0.1", &dns.port, "gpus.example", &dns.file(key)]);
    let targets = json!({ "systems": {
        "identity": { "hook": exec("scim", &[&scim.url, &platform, &owners]),
                      "verifier": exec("scim", &[&scim.url, &verifier]) },
        "registry": { "hook": exec("registry", &[&registry.url, &tenure, &collect]),
                      "verifier": exec("registry", &[&registry.url, &reader]) },
        "network": { "hook": zone("update.key"), "verifier": zone("transfer.key") },
    } });
    let sites = "regions: [{id: eu, jurisdiction: eu}]\nclusters: [{id: west, region: eu, kind: kubernetes, tenancy: shared}]\n";
    let rows: String = (1..=2).map(|node| format!("n-{node},96000,786432,8,H100\n")).collect();
    let house = House::open(&targets, sites, &[("west", "eu", &rows)]).await;
    let wish = json!({
        "name": "acme",
        "tenant": { "tier": "research", "isolation": "dedicated", "data_residency": "eu-only",
                    "allow_preemption": true, "allow_gpu_sharing": false },
        "entitlement": { "gpu_model": "H100", "gpus": 8, "region": "eu" },
    });

    house.done("/v1/tenants", wish).await;
    let admins = |groups: &[(String, usize, String)]| {
        groups.iter().find(|(name, ..)| name == "acme-admins").map(|(_, members, _)| *members)
    };
    assert_eq!(admins(&scim.groups().await), Some(1), "the administrator of acme is in its group");
    registry.push("acme/trainer", "v1", "the weights of acme").await;
    let leave =
        json!({ "tenant": "acme", "basis": "tenant_request", "reference": "mail 7", "reason": "moves" });
    house.leaves(leave).await;

    let groups: Vec<_> = scim.groups().await.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(groups, ["globex-admins"]);
    assert_eq!(registry.files_with("weights of acme"), [""; 0]);
    assert_eq!(registry.files_with("weights of globex").len(), 1);
    assert_eq!(
        (dns.answer("acme.gpus.example", "A"), dns.answer("globex.gpus.example", "A").as_str()),
        (String::new(), "10.0.0.9")
    );
    let certificate: Value = serde_json::from_slice(&house.certificate("acme").await).unwrap();
    let pages = certificate["pages"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let text: String = pages.map(|page| String::from_utf8(STANDARD.decode(page).unwrap()).unwrap()).collect();
    for asset in [
        "identity//Groups/t-acme",
        "registry//Repository/acme/trainer",
        "network//Record/acme.gpus.example./A",
    ] {
        assert!(text.contains(asset), "{asset} is on the certificate: {text}");
    }
}

async fn server_has_others(scim: &Scim, registry: &Registry) {
    scim.plant("globex-admins").await;
    registry.push("globex/trainer", "v1", "the weights of globex").await;
}
