//! One capability served by several backends: each call goes to the one that serves its cluster or region.

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

/// A capability, by place; every other place is served by `rest`.
#[derive(Debug)]
pub struct ByPlace<T: ?Sized> {
    places: BTreeMap<String, Arc<T>>,
    rest: Arc<T>,
    said: &'static str,
}

impl<T: ?Sized + Debug> ByPlace<T> {
    /// These backends and `rest`, of which `name` says what each is.
    fn new(places: BTreeMap<String, Arc<T>>, rest: Arc<T>, name: fn(&T) -> &'static str) -> Self {
        let each = places.iter().map(|(place, backend)| format!("{place}: {}", name(backend)));
        let said = each.chain([format!("others: {}", name(&rest))]).collect::<Vec<_>>().join(", ");
        // Said for as long as the process runs, once a process.
        Self { places, rest, said: String::leak(said) }
    }

    /// What serves this place.
    fn at(&self, place: &str) -> &T {
        self.places.get(place).unwrap_or(&self.rest)
    }
}
