//! A node: an engine that runs until it dies, and is restarted later, under the same name or a new one.

use crate::{
    AWAY,
    cast::{Demolition, Errand},
    clock::NodeClock,
    dice::Dice,
    wire::{Shared, Wire},
    world::World,
};
use engine::{Engine, Options};
use std::sync::{Arc, Mutex};

/// A node of the simulation.
pub struct Node {
    /// Its name.
    pub name: String,
    engine: Mutex<Option<Engine<Arc<World>>>>,
}

impl Node {
    /// Starts it.
    #[must_use]
    pub fn start(number: u8, seed: u64, shared: Arc<Shared>, world: Arc<World>) -> Arc<Self> {
        let name = format!("n{number}");
        let node = Arc::new(Self { name: name.clone(), engine: Mutex::default() });
        let dice = Dice::new(seed, &name);
        // One clock for all restarts of the node: it belongs to the machine.
        let clock = Arc::new(NodeClock::new(number, shared.began));
        let living = node.clone();
        tokio::spawn(async move {
            for life in 0_u32.. {
                let wire = Arc::new(Wire::new(&name, shared.clone(), clock.clone()));
                // A rolling restart keeps the name; a new machine has another one.
                let holder = if dice.below(2) == 0 { name.clone() } else { format!("{name}.{life}") };
                let engine = Engine::new(wire.clone(), clock.clone(), Arc::new(world.clone()))
                    .with_workflow::<Errand>()
                    .and_then(Engine::with_workflow::<Demolition>)
                    .unwrap()
                    .with_options(Options { holder, concurrency: 4, ..Options::default() });
                *living.engine.lock().unwrap() = Some(engine.clone());
                let work = tokio::spawn(async move { engine.run(std::future::pending()).await });
                wire.died.notified().await;
                work.abort();
                *living.engine.lock().unwrap() = None;
                tokio::time::sleep(dice.span(AWAY.0, AWAY.1)).await;
                shared.laws.note(format_args!("{name}: starts"));
            }
        });
        node
    }

    /// Returns its engine, while it is alive.
    #[must_use]
    pub fn engine(&self) -> Option<Engine<Arc<World>>> {
        self.engine.lock().unwrap().clone()
    }
}
