//! The kinds of isolation probes.

use serde::{Deserialize, Serialize};

/// The six kinds of isolation probes.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum IsolationKind {
    /// Another tenant's credentials are refused.
    ForeignCredentials,
    /// Another tenant's pod gets no connection.
    CrossTenantTraffic,
    /// A pod without the tenant's toleration does not start on the tenant's nodes.
    ForeignPod,
    /// A pod beyond the quota is refused.
    OverQuota,
    /// An image from another registry is refused.
    ForeignImage,
    /// The tenant's key decrypts only for the tenant.
    ForeignKey,
}
