//! Quarantines unfit nodes and replaces them.

use crate::{
    ledger::node_claim::{NodeClaim, changed, chosen, claim_of, held, nodes, take},
    placement::{Constraints, NodeRequest},
    tenancy::{ClusterId, NodeId, TenantId},
};
use engine::{Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};

/// Quarantines unfit nodes. They stay with their owner, because the fault may affect the owner's data.
///
/// Safe to run twice. It has no undo: an unfit node does not become free when its tenant is rolled back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QuarantineNodes {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The names of the unfit nodes.
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

/// Claims replacements for quarantined nodes in the same cluster, and returns the whole claim.
///
/// Safe to decide again: the missing nodes are counted each time. The undo of the first claim releases them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimReplacements {
    /// The tenant's id.
    pub tenant: TenantId,
    /// The requested nodes of the whole claim.
    pub ask: NodeRequest,
    /// The approved constraints.
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
