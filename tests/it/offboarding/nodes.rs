//! a node is free only when every one of its assets has a record that passes.

use super::stage::Stage;
use backends::simulated::{Fault, FaultKind};
use workflows::{
    platform::TenantResource,
    tenancy::{Node, NodeAllocation, NodeState},
};

/// Each kind of faulty hardware, and its record.
#[tokio::test]
async fn a_node_that_cannot_be_cleaned_stays_with_its_tenant_and_is_on_the_certificate() {
    for (action, what, reason) in [
        ("BeginSanitise", FaultKind::DriveFails, "erasing failed"),
        ("BeginSanitise", FaultKind::DriveStalls, "stands still"),
        ("BeginSanitise", FaultKind::DriveLies, "not as they should be"),
        ("ScrubGpu", FaultKind::Flawed, "the fill covered"),
        ("ResetMachine", FaultKind::Flawed, "PCR 0"),
        ("EnterScrub", FaultKind::Flawed, "did not enter"),
    ] {
        let stage = Stage::slurm(|_| {}).await;
        stage.script(Fault::on(action, what).times(0));

        let rest = stage.to_rest().await;

        assert_eq!(
            rest,
            ("ClosedWithExceptions".into(), "finished".into()),
            "{what:?}: {}",
            stage.trouble().await
        );
        let nodes: Vec<Node> = stage.all().await;
        let node = nodes.iter().find(|node| node.id.as_str() == "s-0000").unwrap();
        assert_eq!(node.state, NodeState::Quarantined, "{what:?}");
        assert_eq!(node.owner.as_ref().map(|owner| owner.as_str()), Some("acme"), "{what:?}");
        let holdings: Vec<NodeAllocation> = stage.all().await;
        assert!(holdings[0].quarantined.contains(&node.id), "{what:?}");
        assert_eq!(stage.world().owners().len(), 1, "its label stays as well");
        let why: Vec<_> = stage.records().await.iter().filter_map(|r| r.passes().err()).collect();
        assert!(why.iter().any(|why| why.to_string().contains(reason)), "{what:?}: {why:?}");
        assert!(stage.certificate().await.exceptions > 0);
    }
}

/// S-117.
#[tokio::test]
async fn a_node_is_not_wiped_while_workloads_run_on_it() {
    let stage = Stage::slurm(|world| {
        world.furnish(
            &TenantResource::new("machines", "slurm-1", "Machine", "s-0000"),
            "acme",
            serde_json::json!({ "workloads": 3 }),
        );
    })
    .await;

    let rest = stage.to_rest().await;

    assert_eq!(rest.0, "Closed", "{}", stage.trouble().await);
}
