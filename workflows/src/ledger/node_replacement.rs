//! Nodes that prove unfit: kept apart, and replaced.

use crate::{
    ledger::node_claim::{NodeClaim, changed, chosen, claim_of, held, nodes, take},
    placement::{Constraints, NodeRequest},
    tenancy::{ClusterId, NodeId, TenantId},
};
use engine::{Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};

/// Keeps unfit nodes apart. They stay their owner's: what was wrong with them may concern the owner's data.
///
/// Safe to run twice. Not undone: a node that proved unfit is not free again because its tenant gave up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QuarantineNodes {
    /// Whose they are.
    pub tenant: TenantId,
    /// Which ones.
    pub unfit: Vec<NodeId>,
}

impl LedgerAction for QuarantineNodes {
    const NAME: &'static str = "QuarantineNodes";
    type Output = Vec<NodeId>;

    fn decide(&self, view: &mut View, call: &Call) -> Result<Vec<NodeId>, Undecided> {
        let mut holding = held(view, &self.tenant, call)?;
        let unfit: Vec<_> = self.unfit.iter().filter(|node| holding.nodes.contains_key(*node)).collect();
        for node in nodes(view, unfit.into_iter())? {
            view.put(&node.quarantine(node.owner_epoch).map_err(changed)?)?;
            holding.nodes.remove(&node.id);
            holding.quarantined.insert(node.id);
        }
        view.put(&holding)?;
        Ok(holding.quarantined.into_iter().collect())
    }
}

/// Claims nodes in place of those quarantined, in the same cluster; answers the whole claim.
///
/// Safe to decide again: what the claim lacks is counted anew. The undo of the first claim covers it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimReplacements {
    /// For whom.
    pub tenant: TenantId,
    /// How many of what the whole claim is for.
    pub ask: NodeRequest,
    /// Within what was approved.
    pub constraints: Constraints,
}

impl LedgerAction for ClaimReplacements {
    const NAME: &'static str = "ClaimReplacements";
    type Output = NodeClaim;

    fn decide(&self, view: &mut View, call: &Call) -> Result<NodeClaim, Undecided> {
        let mut holding = held(view, &self.tenant, call)?;
        let lacking = self.ask.gpus.saturating_sub(holding.owned());
        if lacking.0 == 0 {
            return Ok(claim_of(&holding));
        }
        let ask = NodeRequest { gpus: lacking, ..self.ask.clone() };
        let placement = only_in(view, &holding.cluster, &ask, &self.constraints)?;
        holding.nodes.extend(take(view, &placement, &self.tenant, call)?);
        view.put(&holding)?;
        Ok(claim_of(&holding))
    }
}

fn only_in(
    view: &mut View,
    cluster: &ClusterId,
    ask: &NodeRequest,
    constraints: &Constraints,
) -> Result<crate::placement::Placement, Undecided> {
    let constraints = Constraints { cluster: Some(cluster.clone()), ..constraints.clone() };
    chosen(view, ask, &constraints)
}
