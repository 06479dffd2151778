//! The faults: one server at a time, and the database in parallel, at moments that a seed decides.

use super::watch::{Eyes, Struck, now};
use crate::{
    processes::{Server, World},
    proxies::tcp::Proxy,
    servers::postgres::Cluster,
};
use serde_json::{Value, json};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

pub(super) const STOOD_STILL: &str = "standing still";
const KILLED: &str = "killed";
const CUT_OFF: &str = "cut off";

/// A random generator with a seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit.max(1)
    }

    /// A span within `range`.
    pub(super) fn within(&mut self, range: &Range<Duration>) -> Duration {
        let wide = range.end.saturating_sub(range.start).as_millis();
        range.start + Duration::from_millis(self.below(u64::try_from(wide).unwrap_or(u64::MAX)))
    }
}

/// Makes platform calls slow at random, so that a fault meets active work. Some calls take effect and lose their answer,
/// including idempotent ones.
pub(super) fn slow(in_a_thousand: u16, ms: u64) -> Value {
    let lost = |nth: u32| json!({ "action": "ScrubGpus", "nth": nth, "what": "answer_lost" });
    json!({
        "faults": [lost(2), lost(5), lost(9)],
        "random": { "seed": 7, "slow": in_a_thousand, "slow_ms": ms, "answer_lost": 20 },
    })
}

/// Returns the platform's normal speed.
pub(super) fn usual() -> Value {
    slow(100, 300)
}

/// Disturbs one server after the other until `until`: killed, paused, or cut off from the database, in a varying order that
/// includes each of the three.
pub(super) async fn strike(
    servers: &mut [(String, Proxy, Server)],
    world: &World,
    eyes: &Eyes,
    (mut dice, every, lease): (Dice, Range<Duration>, Duration),
    over: impl Fn() -> bool,
) -> Vec<Struck> {
    let (mut struck, mut bag) = (Vec::new(), Vec::new());
    loop {
        tokio::time::sleep(dice.within(&every)).await;
        if over() {
            return struck;
        }
        if bag.is_empty() {
            bag.extend([KILLED, STOOD_STILL, CUT_OFF]);
        }
        let kind = bag.swap_remove(usize::try_from(dice.below(bag.len() as u64)).unwrap_or(0));
        let which = usize::try_from(dice.below(servers.len() as u64)).unwrap_or(0);
        let Some((name, wire, server)) = servers.get_mut(which) else { return struck };
        let length = lease * 2;
        if kind == STOOD_STILL {
            // With active work, whose result comes late.
            world.script(&slow(400, 1_500)).await;
        }
        let patience = Instant::now() + Duration::from_secs(2);
        while eyes.held(name).await.is_empty() && Instant::now() < patience {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let (at, held) = match kind {
            KILLED => {
                let at = now();
                server.kill();
                let held = eyes.held(name).await;
                tokio::time::sleep(dice.within(&(Duration::ZERO..length))).await;
                tokio::task::block_in_place(|| server.restart_until_it_listens());
                (at, held)
            }
            STOOD_STILL => {
                let at = now();
                server.stand_still(true);
                let held = eyes.held(name).await;
                tokio::time::sleep(length).await;
                server.stand_still(false);
                world.script(&usual()).await;
                (at, held)
            }
            _ => {
                let at = now();
                wire.cut(true);
                let held = eyes.held(name).await;
                tokio::time::sleep(length).await;
                wire.cut(false);
                (at, held)
            }
        };
        struck.push(Struck { kind, at, held });
    }
}

/// The times in which the database was away, in milliseconds since 1970.
pub(super) type Away = Vec<(u64, u64)>;

/// Kills and restarts the database until `stop` is set. Blocks.
pub(super) fn restart_again_and_again(
    cluster: &mut Cluster,
    mut dice: Dice,
    every: &Range<Duration>,
    stop: &Arc<AtomicBool>,
) -> Away {
    let mut away = Away::new();
    loop {
        let next = Instant::now() + dice.within(every);
        while Instant::now() < next {
            if stop.load(Ordering::Acquire) {
                return away;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let from = now();
        cluster.kill();
        std::thread::sleep(dice.within(&(Duration::from_millis(200)..Duration::from_millis(1_500))));
        // Remains of an earlier start may be in the way for a moment.
        let tries = (0..5).find_map(|_| {
            let up = cluster.up();
            if up.is_err() {
                std::thread::sleep(Duration::from_millis(500));
            }
            up.ok()
        });
        tries.expect("the database starts again");
        away.push((from, now()));
    }
}
