//! Diagnoses a node. An unfit node is a result here, not a failure.

use crate::platform::{DiagnoseNode, DiagnosisLevel, Platform, codes};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};

/// Diagnoses a node. Returns an unfit node as a result, because the diagnoses of the other nodes continue and the next step needs its name.
///
/// Safe to run twice, for the same reason as [`DiagnoseNode`]. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QualifyNode {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The depth of the diagnosis.
    pub level: DiagnosisLevel,
}

/// Result of [`QualifyNode`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QualifyFinding {
    /// The node's name.
    pub node: String,
    /// True if the node may serve tenants.
    pub fit: bool,
    /// The tests and their measurements, as evidence.
    pub report: String,
}

impl Action for QualifyNode {
    const NAME: &'static str = "QualifyNode";
    type Platform = Platform;
    type Output = QualifyFinding;

    async fn run(&self, on: &Platform, call: &Call) -> Result<QualifyFinding, ActionError> {
        let (cluster, node, level) = (self.cluster.clone(), self.node.clone(), self.level);
        match (DiagnoseNode { cluster, node, level }).run(on, call).await {
            Ok(found) => Ok(QualifyFinding { node: self.node.clone(), fit: found.fit, report: found.report }),
            Err(error) if error.code == codes::NODE_UNFIT => {
                Ok(QualifyFinding { node: self.node.clone(), fit: false, report: error.message })
            }
            Err(error) => Err(error),
        }
    }
}
