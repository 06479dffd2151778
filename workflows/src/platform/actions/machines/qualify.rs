//! Whether a node may serve tenants, as a finding instead of a failure.

use crate::platform::{DiagnoseNode, DiagnosisLevel, Platform, codes};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};

/// Diagnoses a node. An unfit one is a result and not an error, since its siblings' results count too and the next
/// step must know which node it was.
///
/// Safe to run twice, as [`DiagnoseNode`] is. It has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct QualifyNode {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// How deep.
    pub level: DiagnosisLevel,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QualifyFinding {
    /// Which node.
    pub node: String,
    /// Whether it may serve tenants.
    pub fit: bool,
    /// What was tested and measured, as evidence.
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
