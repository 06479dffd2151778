//! The class by which pods of a service level are ranked. It belongs to no tenant: whoever comes first makes it, and nobody
//! takes it away.

use crate::platform::{Kind, Manifest, Place, Stamp};
use crate::{platform::Platform, tenancy::Tier};
use engine::ActionError;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The rank of a service level in a cluster, as pods name it.
///
/// The API server never changes a class's value, so the value is part of the name: a policy that ranks a level otherwise has
/// another class, and pods that were placed by the old one keep theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityClass {
    /// Its name: `tenure-research-100`.
    pub name: String,
    /// Its value: higher goes first.
    pub value: u32,
}

impl PriorityClass {
    /// The class of a service level to which policy gives this value.
    #[must_use]
    pub fn of(tier: Tier, value: u32) -> Self {
        Self { name: format!("tenure-{}-{value}", <&str>::from(tier)), value }
    }

    /// Makes the class where there is none.
    ///
    /// Safe to run twice, and at once for many tenants: an equal class is left, whoever made it. It has no undo, since others
    /// may use it by then. It is made in the name of no tenant, so that none takes it along. It ranks who is placed first and
    /// ends nobody's work (`Never`): that takes a reclaim, with its notice.
    pub(in crate::platform) async fn made(
        &self,
        on: &Platform,
        cluster: &str,
        stamp: &Stamp,
    ) -> Result<(), ActionError> {
        let manifest = Manifest {
            place: Place::new(cluster, Kind::PriorityClass, &self.name),
            tenant: String::new(),
            spec: json!({ "value": self.value, "preemption": "Never" }),
        };
        on.kubernetes.apply(&manifest, &stamp.part("class")).await.map(drop)
    }
}
