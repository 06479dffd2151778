//! Probes without pods, and clear answers where a probe needs pods.

use super::{
    server::{PATIENCE, differences, world},
    steps::{CLUSTER, Stage, WORKSPACE, namespace, onboarding},
};
use serde_json::json;
use workflows::platform::*;

/// S135. Probes detect protections that hold and protections that do not, and an impossible probe does not pass.
#[tokio::test(flavor = "multi_thread")]
async fn probes_report_the_actual_state_and_never_pass_untested() {
    let Some(world) = world().await else { return };
    let (stage, before) = (Stage::new(&world).await, world.snapshot().await);
    let steps = ["namespace", "quota", "isolation"];
    let pairs: Vec<_> =
        onboarding("probed", 1).into_iter().filter(|pair| steps.contains(&pair.step)).collect();
    stage.onboard(&pairs).await;
    let probe = |kind| {
        let on = stage.on.kubernetes.clone();
        let stamp = stage.stamp("probe", 1);
        async move {
            let began = std::time::Instant::now();
            while began.elapsed() < PATIENCE {
                match on.probe_isolation(CLUSTER, "probed", WORKSPACE, kind, &stamp).await {
                    Err(error) if error.code == codes::UNAVAILABLE => {
                        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    }
                    other => return other,
                }
            }
            panic!("the namespace does not come to be ready")
        }
    };

    let credentials = probe(IsolationKind::ForeignCredentials).await.unwrap();
    assert!(credentials.held, "{}", credentials.transcript);
    assert!(credentials.transcript.contains("by probed-admins: allowed"), "{}", credentials.transcript);
    // A quota that is not yet enforced does not count as a broken one.
    let quota = probe(IsolationKind::OverQuota).await.unwrap();
    assert!(quota.held && quota.transcript.contains("exceeded quota: tenure"), "{}", quota.transcript);
    // There is no webhook here, so the image is admitted: the probe must not pass.
    let image = probe(IsolationKind::ForeignImage).await.unwrap();
    assert!(!image.held, "{}", image.transcript);
    for kind in [IsolationKind::CrossTenantTraffic, IsolationKind::ForeignPod] {
        let error = probe(kind).await.unwrap_err();
        assert!(error.code == codes::UNSUPPORTED && error.message.starts_with("not supported"), "{error}");
    }

    // An added network policy that opens access is found.
    let name = namespace("probed");
    let door = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": { "name": "door" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view" },
        "subjects": [{ "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:authenticated" }],
    });
    world.post(&format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{name}/rolebindings"), door).await;
    for _ in 0..50 {
        if !probe(IsolationKind::ForeignCredentials).await.unwrap().held {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(!probe(IsolationKind::ForeignCredentials).await.unwrap().held, "the open access is not detected");
    world.delete(&format!("/api/v1/namespaces/{name}/resourcequotas/tenure")).await;
    assert!(!probe(IsolationKind::OverQuota).await.unwrap().held, "without a quota the probe fails");
    stage.roll_back(&pairs).await;
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0], "a probe leaves no objects");
}
