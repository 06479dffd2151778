//! Random demands: a population fitted to statistics of the public traces, without their rows.
//!
//! Sizes, durations and rhythm follow the Alibaba traces of 2023 and 2025 in round numbers: 97 of 100 pods request one
//! GPU; half of them end within 22 minutes and a few last for days; services follow the time of day.

use crate::{
    scenario::WorkspaceSpec,
    trace::{BATCH, Demand, PRODUCTION, Treatment},
};
use fastrand::Rng;
use std::{collections::BTreeMap, f64::consts::TAU, time::Duration};
use workflows::{
    policy::{Item, Reader},
    tenancy::{Checkpoint, GpuKind, WorkloadClass, WorkspaceClass, WorkspaceName},
};

/// Sizes of demands in GPUs, with their number per thousand demands (openb: 6,989, 16, 15, 44 of 7,064).
const SIZES: [(u64, u32); 4] = [(1, 989), (2, 2), (4, 2), (8, 7)];
/// The median duration of batch work (openb, 7,064 demands).
const MEDIAN: Duration = Duration::from_secs(1_305);
/// The spread of durations, as the standard deviation of their logarithm (openb: a tenth lasts longer than 90 minutes).
const SPREAD: f64 = 1.4;
/// The longest duration of a demand.
const LONGEST: Duration = Duration::from_secs(3 * 86_400);

/// A population from which demands are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Population {
    /// The average demand over a day, in percent of all nominal quotas.
    pub load_percent: u32,
    /// The additional demand at the peak of the day, in percent of the average.
    pub rhythm_percent: u32,
    /// The percentage of demands that are services without preemption, in workspaces with quota.
    pub services_percent: u32,
    /// The percentage of batch demands without checkpoints.
    pub unsaved_percent: u32,
}

impl Default for Population {
    fn default() -> Self {
        Self { load_percent: 110, rhythm_percent: 40, services_percent: 25, unsaved_percent: 20 }
    }
}

impl Population {
    /// Reads the population of a scenario.
    pub(crate) fn read(reader: &Reader, item: &Item) -> Option<Self> {
        let fields = reader.fields(item, &["load", "rhythm", "services", "unsaved"])?;
        let usual = Self::default();
        let percent = |name: &str, usual: u32, most: u32| {
            fields.optional(name).map_or(Some(usual), |item| reader.whole(item, 0..=most))
        };
        Some(Self {
            load_percent: percent("load", usual.load_percent, 1_000)?,
            rhythm_percent: percent("rhythm", usual.rhythm_percent, 100)?,
            services_percent: percent("services", usual.services_percent, 100)?,
            unsaved_percent: percent("unsaved", usual.unsaved_percent, 100)?,
        })
    }

    /// Draws the demands of the period `lasts`. Equal seeds draw equal demands.
    #[must_use]
    pub fn draw(
        &self,
        workspaces: &BTreeMap<WorkspaceName, WorkspaceSpec>,
        kind: &GpuKind,
        lasts: Duration,
        seed: u64,
    ) -> Vec<Demand> {
        let mut rng = Rng::with_seed(seed);
        let nominal = |portion: &WorkspaceSpec| portion.reserved.get(kind).copied().unwrap_or(0);
        let whole: u64 = workspaces.values().map(nominal).sum();
        let largest = workspaces.values().map(nominal).max().unwrap_or(0).max(1);
        let mut demands = Vec::new();
        for (workspace, portion) in workspaces {
            let own = nominal(portion);
            // A workspace without quota demands a tenth of all quotas and only borrows.
            let level = if own == 0 { whole as f64 / 10.0 } else { own as f64 };
            let mut at = 0.0;
            let end = lasts.as_secs_f64();
            let mut number = 0_u32;
            loop {
                at += self.gap(&mut rng, at, level);
                if at >= end {
                    break;
                }
                number += 1;
                let size = size(&mut rng).min(if own == 0 { largest } else { own.max(1) });
                let moment = Duration::from_millis((at * 1_000.0) as u64);
                let demand = self.demand(&mut rng, workspace, portion.class, own, size, moment, number, kind);
                demands.push(demand);
            }
        }
        demands.sort_by(|a, b| a.at.cmp(&b.at).then_with(|| a.name.cmp(&b.name)));
        demands
    }

    /// Returns random seconds to the next demand, with shorter intervals by day than by night.
    fn gap(&self, rng: &mut Rng, at: f64, level: f64) -> f64 {
        let day = (at % 86_400.0) / 86_400.0;
        // The peak is at 10 in the morning.
        let rhythm = 1.0 + f64::from(self.rhythm_percent) / 100.0 * (TAU * (day - 10.0 / 24.0)).cos();
        let mean_length = MEDIAN.as_secs_f64() * (SPREAD * SPREAD / 2.0).exp();
        let per_second = level * f64::from(self.load_percent) / 100.0 * rhythm / mean_length;
        -(1.0 - rng.f64()).ln() / per_second.max(1e-9)
    }

    #[expect(clippy::too_many_arguments, reason = "everything that was drawn, once")]
    fn demand(
        &self,
        rng: &mut Rng,
        workspace: &WorkspaceName,
        class: WorkspaceClass,
        own: u64,
        size: u64,
        at: Duration,
        number: u32,
        kind: &GpuKind,
    ) -> Demand {
        let serves =
            own > 0 && class == WorkspaceClass::Production && rng.u32(0..100) < self.services_percent;
        let length = MEDIAN.as_secs_f64() * (SPREAD * normal(rng)).exp();
        let length = Duration::from_millis((length * 1_000.0) as u64).clamp(Duration::from_secs(30), LONGEST);
        let saves = serves || rng.u32(0..100) >= self.unsaved_percent;
        Demand {
            name: format!("{workspace}-{number:05}"),
            by: None,
            workspace: workspace.clone(),
            origin: workspace.to_string(),
            at,
            lasts: Some(length),
            left: Some(at + length),
            kind: kind.clone(),
            gpus: size,
            together: if size > 1 { size } else { 0 },
            standing: if serves {
                Treatment::Given { class: WorkloadClass::Service, preemptible: false, priority: PRODUCTION }
            } else {
                Treatment::Given { class: WorkloadClass::Batch, preemptible: true, priority: BATCH }
            },
            checkpoint: if saves { Checkpoint::Signal } else { Checkpoint::None },
        }
    }
}

fn size(rng: &mut Rng) -> u64 {
    let mut drawn = rng.u32(0..1_000);
    for (size, share) in SIZES {
        if drawn < share {
            return size;
        }
        drawn -= share;
    }
    1
}

/// Returns a number with standard normal distribution (Box-Muller).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}
