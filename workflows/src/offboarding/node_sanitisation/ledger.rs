//! The ledger actions of a sanitisation: the state of the node, and a record of each of its assets.

use super::{NodeSanitisation, records};
use crate::{
    destruction::{
        Asset, AssetId, NotClean, RecordedRepair, SanitisationRecord, assets_of_node, node_is_clean,
    },
    ledger::codes,
    offboarding::{assets::part_beginnings, node_sanitisation::record::NodeVerdict},
    signing::Moment,
    tenancy::{Node, NodeError, NodeId, NodeState, OwnerEpoch},
};
use engine::{ActionError, Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

fn changed(error: NodeError) -> Undecided {
    ActionError::permanent(codes::NODE_STATE, error).into()
}

/// Marks a node as draining. Safe to decide again. A quarantined node stays quarantined.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeginDraining {
    /// The node's name.
    pub node: NodeId,
    /// The epoch of the ownership that ends.
    pub epoch: OwnerEpoch,
}

impl LedgerAction for BeginDraining {
    const NAME: &'static str = "BeginDraining";
    type Output = ();

    fn decide(&self, view: &mut View, _: &Call) -> Result<(), Undecided> {
        let node = view.require::<Node>(self.node.as_str())?;
        if node.state == NodeState::Quarantined && node.owner_epoch == self.epoch {
            return Ok(());
        }
        view.put(&node.drain(self.epoch).map_err(changed)?)
    }
}

/// Marks a node as being wiped, with the time. Fails for a node that is not drained. Safe to decide again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeginCleaning {
    /// The node's name.
    pub node: NodeId,
    /// The epoch of the ownership that ends.
    pub epoch: OwnerEpoch,
}

impl LedgerAction for BeginCleaning {
    const NAME: &'static str = "BeginCleaning";
    type Output = Moment;

    fn decide(&self, view: &mut View, _: &Call) -> Result<Moment, Undecided> {
        let node = view.require::<Node>(self.node.as_str())?;
        view.put(&node.sanitize(self.epoch).map_err(changed)?)?;
        Ok(view.now().into())
    }
}

/// Records the observations of each asset of a node. Quarantines the node if an asset does not pass.
///
/// An asset without observations gets a record that says this. Safe to decide again. It has no undo, because a record describes a past event.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileNode {
    /// The sanitisation with its observations.
    pub of: Box<NodeSanitisation>,
}

impl LedgerAction for FileNode {
    const NAME: &'static str = "FileNode";
    type Output = NodeVerdict;

    fn decide(&self, view: &mut View, call: &Call) -> Result<NodeVerdict, Undecided> {
        let NodeSanitisation { tenant, node: id, owner_epoch, run, begun_at, .. } = &*self.of;
        let node = view.require::<Node>(id.as_str())?;
        let beginnings = part_beginnings(self.of.cluster.as_str(), id.as_str());
        let assets = assets_of_node(view, tenant, *run, id.as_str(), &beginnings)?;
        view.prefetch::<SanitisationRecord>(
            assets.iter().map(|asset| SanitisationRecord::key(*run, &asset.id)),
        )?;
        let now = Moment::from(view.now());
        let mut filed = BTreeMap::new();
        for asset in &assets {
            let record = records::of(&self.of, asset, call, now);
            let record = match self.statement_about(asset, call) {
                Some(repair) => record.stated_by(repair),
                None => record,
            };
            view.put(&record)?;
            filed.insert(asset.id.clone(), record);
        }
        let since = begun_at.unwrap_or(now);
        let mut dirty = node_is_clean(assets.iter(), &filed, since).err().unwrap_or_default();
        if begun_at.is_none() && dirty.is_empty() {
            dirty.insert(AssetId(format!("node:{id}")), NotClean::Unknown);
        }
        if !dirty.is_empty() {
            view.put(&node.quarantine(*owner_epoch).map_err(changed)?)?;
        }
        Ok(NodeVerdict { dirty, assets: assets.len() })
    }
}

impl FileNode {
    /// Returns the statement that the record of an asset rests on: one about the asset or about the whole node.
    fn statement_about(&self, asset: &Asset, call: &Call) -> Option<RecordedRepair> {
        let made = self.of.repairs.iter().rev().map(|made| RecordedRepair::new(made, call.execution));
        let mut stated = made.filter(RecordedRepair::is_statement);
        let is_about = |repair: &RecordedRepair| {
            repair.things.is_empty()
                || asset.serial.as_ref().is_some_and(|serial| repair.things.contains(serial))
        };
        stated.find(is_about)
    }
}
