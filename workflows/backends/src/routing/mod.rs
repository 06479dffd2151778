//! Routes each call of a capability to the backend of its cluster or region.

mod gpus;
mod kubernetes;
mod luks;
mod machines;
mod objects;
mod slurm;
mod tenant_resources;
mod workloads;

pub use crate::routing::luks::OnMachines;
pub use crate::routing::tenant_resources::Estates;
pub use gpus::LayoutsApart;
pub use workloads::OutOfReach;

use std::{collections::BTreeMap, fmt::Debug, sync::Arc};

/// Backends of a capability by place. `rest` serves all other places.
#[derive(Debug)]
pub struct ByPlace<T: ?Sized> {
    places: BTreeMap<String, Arc<T>>,
    rest: Arc<T>,
    said: &'static str,
}

impl<T: ?Sized + Debug> ByPlace<T> {
    /// Combines these backends with `rest`. `name` returns the display name of a backend.
    fn new(places: BTreeMap<String, Arc<T>>, rest: Arc<T>, name: fn(&T) -> &'static str) -> Self {
        let each = places.iter().map(|(place, backend)| format!("{place}: {}", name(backend)));
        let said = each.chain([format!("others: {}", name(&rest))]).collect::<Vec<_>>().join(", ");
        // Lives as long as the process; there is one per process.
        Self { places, rest, said: String::leak(said) }
    }

    /// Returns the backend for this place.
    fn at(&self, place: &str) -> &T {
        self.places.get(place).unwrap_or(&self.rest)
    }
}
