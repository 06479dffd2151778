//! Disturbance of a cluster: Tenure's server and the API server are killed at random moments of a seed, and restarted.

use super::house::House;
use crate::kubernetes::server::World;
use simulation::dice::Dice;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// The minimum time between two kills of the API server. A call whose every attempt fails needs an operator, which another test
/// covers.
const UP: Duration = Duration::from_secs(6);

/// Each pause between two kills of Tenure's server is longer than the one before by this amount.
const LULL: Duration = Duration::from_millis(400);

/// The schedule of kills.
pub struct Unrest<'a> {
    house: &'a House,
    world: &'a World,
    dice: Dice,
}

impl<'a> Unrest<'a> {
    /// The schedule of this seed.
    pub fn new(house: &'a House, world: &'a World, seed: u64) -> Self {
        Self { house, world, dice: Dice::new(seed, "unrest") }
    }

    /// Runs the work during the kills. Both servers are up at the end, and each was killed at least once.
    pub async fn about<T>(&self, work: impl Future<Output = T>) -> T {
        let over = AtomicBool::new(false);
        let working = async {
            let done = work.await;
            over.store(true, Ordering::SeqCst);
            done
        };
        let killing = async {
            // Both are killed first, and at once: no execution can end without a server, so each process dies at least
            // once.
            tokio::time::sleep(self.dice.span(100, 600)).await;
            self.world.kill().await;
            self.house.dies(self.dice.span(0, 500)).await;
            self.world.start().await;
            let (mut ours, mut theirs, mut since) = (1, 1, Instant::now());
            while !over.load(Ordering::SeqCst) {
                // Increasingly rare: a task whose worker died eight times is poison, and a step may take long here.
                tokio::time::sleep(self.dice.span(200, 2_500) + ours * LULL).await;
                if self.dice.one_in_thousand(250) && since.elapsed() > UP {
                    self.world.kill().await;
                    tokio::time::sleep(self.dice.span(100, 2_000)).await;
                    self.world.start().await;
                    (theirs, since) = (theirs + 1, Instant::now());
                } else {
                    self.house.dies(self.dice.span(0, 500)).await;
                    ours += 1;
                }
            }
            (ours, theirs)
        };
        let (done, (ours, theirs)) = tokio::join!(working, killing);
        println!("Tenure was killed {ours} times, and the API server {theirs} times");
        done
    }
}
