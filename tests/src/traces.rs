//! Small random worlds, to be replayed by the thousand: a few workspaces on a few GPUs, overloaded, with faults.

use backends::simulated::{Fault, FaultKind, Random, Script};
use simulator::{Baseline, Outcome, Scenario, Settings, Source, read, replay_all};
use std::fmt::Write as _;

/// A random generator that depends only on the seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % below
    }

    fn of(&mut self, from: u64, to: u64) -> u64 {
        from + self.next(to - from + 1)
    }
}

/// Returns a random scene and its scenario.
///
/// # Panics
/// If the generated scenario is invalid.
#[must_use]
pub fn scene(seed: u64) -> (String, Scenario) {
    let text = scenario(seed);
    match read(&text, seed) {
        Ok(Source::Scenario(scene)) => (text, *scene),
        other => panic!("{other:?}\n{text}"),
    }
}

fn scenario(seed: u64) -> String {
    let mut dice = Dice(seed);
    let (nodes, size) = (dice.of(1, 3), [2, 4, 8][dice.next(3) as usize]);
    let gpus = nodes * size;
    let workspaces = dice.of(2, 4).min(gpus);
    let minutes = dice.of(60, 180);
    let mut yaml = format!(
        "scenario: random-{seed}\nlasts: {minutes}m\nfleet: {{nodes: {nodes}, gpus: {size}}}\nreclaim: {{cooldown: {}m}}\nworkspaces:\n",
        dice.of(1, 20)
    );
    let mut left = gpus;
    for number in 0..workspaces {
        // Each gets a part of the rest, the last one any part; some have no quota and borrow.
        let nominal =
            if dice.next(5) == 0 { 0 } else { dice.of(1, (left / (workspaces - number)).max(1)) }.min(left);
        left -= nominal;
        let class = ["production", "research", "batch", "dev"][dice.next(4) as usize];
        let reserved = if dice.next(3) == 0 { dice.of(0, nominal) } else { nominal };
        write!(yaml, "  w{number}: {{class: {class}, nominal: {nominal}, reserved: {reserved}").unwrap();
        if dice.next(3) == 0 {
            write!(yaml, ", borrowing_limit: {}", dice.of(0, gpus)).unwrap();
        }
        if dice.next(3) == 0 {
            write!(yaml, ", lending_limit: {}", dice.of(0, nominal)).unwrap();
        }
        yaml.push_str("}\n");
    }
    yaml.push_str("workloads:\n");
    for number in 0..dice.of(5, 30) {
        let class = ["service", "batch", "batch", "interactive"][dice.next(4) as usize];
        let wanted = if dice.next(4) == 0 { dice.of(1, size) } else { 1 };
        let together = if wanted > 1 && dice.next(2) == 0 { wanted } else { 0 };
        let saves = ["signal", "signal", "none", "api"][dice.next(4) as usize];
        writeln!(
            yaml,
            "  - {{at: {}m, name: job-{number:02}, workspace: w{}, gpus: {wanted}, together: {together}, lasts: {}m, class: {class}, checkpoint: {saves}}}",
            dice.of(0, minutes),
            dice.next(workspaces),
            dice.of(1, minutes)
        )
        .unwrap();
    }
    yaml
}

/// Returns the faults of a random world: none in every third. In the others answers get lost and calls fail, and in half of
/// those an evicted workload does not end.
#[must_use]
pub fn faults(seed: u64) -> Script {
    let mut dice = Dice(seed ^ 0x5eed);
    if dice.next(3) == 0 {
        return Script::default();
    }
    let random = Random {
        seed,
        fail_before: dice.next(40) as u16,
        fail_after: dice.next(40) as u16,
        answer_lost: dice.next(40) as u16,
        slow: 0,
        slow_ms: 0,
    };
    let mut faults = Vec::new();
    if dice.next(2) == 0 {
        let name = format!("*job-{:02}", dice.next(30));
        let times = dice.of(1, 4) as u32;
        faults.push(Fault::on("EvictWorkload", FaultKind::WorkloadClings).named(&name).times(times));
    }
    if dice.next(4) == 0 {
        faults.push(Fault::on("ScrubGpus", FaultKind::ScrubFallsShort));
    }
    Script { faults, random: Some(random) }
}

/// Replays a random world.
///
/// # Panics
/// If the replay cannot continue.
#[must_use]
pub fn run(seed: u64) -> (String, Outcome) {
    let (text, scene) = scene(seed);
    let settings = Settings { faults: faults(seed), check_every: 50, ..Settings::of(Baseline::Lending) };
    let outcome = replay_all(&scene, &[settings], &|_, _| {}).remove(0);
    match outcome {
        Ok(outcome) => (text, outcome),
        Err(error) => panic!("seed {seed}: {error}\n{text}"),
    }
}
