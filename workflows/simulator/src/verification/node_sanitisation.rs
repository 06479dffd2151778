//! Scenarios for the sanitisation of a node: a node of a small tenant that is offboarded, with a drive that may fail.

use super::offboarding::{BEGIN, Ready, ready, snapshot, staged};
use backends::simulated::{Fault, FaultKind, LocalWorld, local_world, simulated_platform};
use engine::{
    ActionError, ChildEnd, DAY, Engine, Entity as _, Error, ManualClock, Outcome, Plan, Seat, Step, Subject,
    Undecided, View, Workflow, approval, children, end,
    testing::{Report, Scenario, World, verify_with_child},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use store::{ExecutionId, Key, Memory, Put, Store as _};
use workflows::{
    destruction::{Inventory, codes},
    offboarding::{LeavingTenant, OffboardingTerms, TakeInventory, node_sanitisation::NodeSanitisation},
    platform::Platform,
    signing::Moment,
    tenancy::{Node, TenantId},
};

/// Verifies the sanitisation of a node: without a fault, with a failing drive, and with a stalled drive.
///
/// # Errors
///
/// If the scenario cannot be created.
pub async fn node_sanitisation() -> Result<Report, Error> {
    let mut worlds = Vec::new();
    for (name, what) in [
        ("its drive makes no progress", Some(FaultKind::DriveStalls)),
        ("its drive fails", Some(FaultKind::DriveFails)),
        ("all goes well", None),
    ] {
        worlds.push(NodeScene::set(name, what).await?);
    }
    let scenes: Vec<&dyn Scenario<SanitisationParent>> =
        worlds.iter().map(|world| world as &dyn Scenario<SanitisationParent>).collect();
    Ok(verify_with_child::<SanitisationParent, NodeSanitisation>(&scenes).await?.1)
}

/// Only an approval and the sanitisation of one node, because a child workflow needs a parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SanitisationParent {
    node: NodeSanitisation,
    clean: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
enum State {
    AwaitingParent,
    ParentCleaning,
    ParentDone,
    ParentDeclined,
}

impl Workflow for SanitisationParent {
    const NAME: &'static str = "sanitisation_proof";
    const SCHEMA: u32 = 1;
    const INITIAL: State = State::AwaitingParent;
    type State = State;
    type Platform = Platform;

    fn step(&self, state: State) -> Step<Self> {
        match state {
            State::AwaitingParent => approval([Seat::new("security", 1)])
                .within(DAY)
                .granted(State::ParentCleaning)
                .refused(State::ParentDeclined)
                .expired(State::ParentDeclined),
            State::ParentCleaning => children([self.node.clone()])
                .accept_any_outcome()
                .map_result(NodeSanitisation::is_clean)
                .forward_only()
                .record(|me: &mut Self, node: ChildEnd<bool>| me.clean = Some(node.data))
                .within(14 * DAY)
                .then(State::ParentDone),
            State::ParentDone => end(Outcome::Completed),
            State::ParentDeclined => end(Outcome::Refused),
        }
    }

    fn subject(&self) -> Subject {
        Subject { tenant: "acme".into(), name: "proof".into(), guard: None }
    }

    fn plan(&self) -> Plan {
        Plan { decides: json!({ "nodes": [self.node.decides()] }), ..Plan::default() }
    }

    fn examples() -> Vec<Self> {
        NodeSanitisation::examples().into_iter().map(|node| Self { node, clean: None }).collect()
    }
}

struct NodeScene {
    name: &'static str,
    ready: Ready,
    node: NodeSanitisation,
    what: Option<FaultKind>,
}

impl NodeScene {
    async fn set(name: &'static str, what: Option<FaultKind>) -> Result<Self, Error> {
        let mut ready = ready("A100", 1).await?;
        let run = ExecutionId::from_bytes([7; 16]);
        let store = Arc::new(Memory::new());
        let commit = store::Commit { documents: ready.documents.clone(), ..store::Commit::default() };
        store.commit(commit).await?;
        let clock = Arc::new(ManualClock::starting_at(BEGIN));
        let platform = simulated_platform(Arc::new(ready.world.fork()));
        let engine = Engine::new(store.clone(), clock, platform);
        let devices = engine.platform().machines.devices("slurm-1", "s-0000", 1, &stamp()).await;
        let devices = devices.map_err(Error::Undecided)?;
        let (node, documents) = engine.transact(false, |view| inventoried(view, &devices, run)).await?;
        ready.documents.extend(documents);
        Ok(Self { name, ready, node, what })
    }
}

pub(super) fn stamp() -> workflows::platform::CallMetadata {
    workflows::platform::CallMetadata {
        action: "proof",
        step: "proof".into(),
        key: "proof".into(),
        epoch: store::Epoch(0),
        undo: false,
        deadline: engine::MINUTE,
        dry_run: false,
    }
}

/// Returns the node's sanitisation, and the inventory of its parts as an offboarding records it.
fn inventoried(
    view: &mut View,
    devices: &workflows::platform::Devices,
    run: ExecutionId,
) -> Result<(NodeSanitisation, Vec<Put>), Undecided> {
    let tenant: TenantId = "acme".parse().map_err(|e| ActionError::permanent("name.invalid", e))?;
    let checked = workflows::offboarding::survey_records(view, &tenant)?;
    let (leaver, terms): (LeavingTenant, OffboardingTerms) = (checked.leaver, checked.terms);
    let assets = TakeInventory::parts_of(&leaver, "s-0000", devices, Moment::from(BEGIN));
    let inventory = Inventory::from_scans(assets)
        .map_err(|differ| ActionError::permanent(codes::INVENTORY_OPEN, format!("{differ:?}")))?;
    let (head, pages) = inventory.documents(&tenant, run);
    let json = |value: Result<Vec<u8>, serde_json::Error>| value.ok();
    let mut documents =
        vec![Put { key: Key::new("inventories", head.id()), body: json(serde_json::to_vec(&head)) }];
    for page in &pages {
        documents
            .push(Put { key: Key::new("inventory-pages", page.id()), body: json(serde_json::to_vec(page)) });
    }
    let node = view.require::<Node>("s-0000")?;
    let node = NodeSanitisation::new(&leaver, &terms.demands, run, &node.id, node.owner_epoch, 1);
    Ok((node, documents))
}

impl Scenario<SanitisationParent> for NodeScene {
    fn name(&self) -> String {
        self.name.into()
    }

    fn data(&self) -> SanitisationParent {
        SanitisationParent { node: self.node.clone(), clean: None }
    }

    fn world(&self) -> World<Platform> {
        staged(&self.ready, self.what.map(|what| Fault::on("BeginSanitise", what).times(0)))
    }

    fn snapshot(&self, platform: &Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        snapshot(platform, documents)
    }

    fn violations(&self, platform: &Platform) -> Vec<String> {
        local_world(platform).map(LocalWorld::violations).unwrap_or_default()
    }
}
