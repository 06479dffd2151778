//! A workspace: the boundary of allocation inside a tenant.

use super::{TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::CompositeKey;

/// The class of a workspace.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WorkspaceClass {
    /// Serves users.
    Production,
    /// For experiments.
    Research,
    /// Runs queued batch work.
    Batch,
    /// For development.
    Dev,
}

/// A workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workspace {
    /// The tenant.
    pub tenant: TenantId,
    /// The name, unique within the tenant.
    pub name: WorkspaceName,
    /// The class.
    pub class: WorkspaceClass,
}

impl Workspace {
    /// The name of the only workspace of a tenant that requested none.
    pub const DEFAULT: &'static str = "default";
}

impl Entity for Workspace {
    const COLLECTION: &'static str = "workspaces";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        workspace_key(&self.tenant, &self.name)
    }
}

/// Returns the id of a workspace's documents: `acme/research`.
#[must_use]
pub fn workspace_key(tenant: &TenantId, workspace: &WorkspaceName) -> String {
    CompositeKey::of(&[&tenant, &workspace]).into()
}
