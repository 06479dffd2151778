//! Demands drawn at random: a population fitted to what the public traces count, without a row of theirs.
//!
//! Sizes, lengths and rhythm are those of the Alibaba traces of 2023 and 2025 in round numbers: 97 of 100 pods ask for one
//! GPU; half of them end within 22 minutes and a few last for days; services come and go with the day.

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

/// Sizes of a demand, in GPUs, and how many of a thousand demands have them (counted in openb: 6,989, 16, 15, 44 of 7,064).
const SIZES: [(u64, u32); 4] = [(1, 989), (2, 2), (4, 2), (8, 7)];
/// Half of the batch work ends within this (openb, median of 7,064).
const MEDIAN: Duration = Duration::from_secs(1_305);
/// The spread of lengths, as the deviation of their logarithm (openb: a tenth lasts beyond 90 minutes).
const SPREAD: f64 = 1.4;
/// Nobody waits for work longer than this.
const LONGEST: Duration = Duration::from_secs(3 * 86_400);

/// A population to draw demands from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Population {
    /// How much is asked for, in hundredths of all nominal quotas, on average over a day.
    pub load_percent: u32,
    /// How much more is asked for at the height of the day than on average, in hundredths.
    pub rhythm_percent: u32,
    /// Of a hundred demands so many are services that may not be evicted, as far as quotas are their own.
    pub services_percent: u32,
    /// Of a hundred batch demands so many cannot save their work.
    pub unsaved_percent: u32,
}

impl Default for Population {
    fn default() -> Self {
        Self { load_percent: 110, rhythm_percent: 40, services_percent: 25, unsaved_percent: 20 }
    }
}

impl Population {
    /// The population that a scenario asks for.
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

    /// Draws the demands of `lasts`; the same seed draws the same ones.
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
            // One that owns nothing asks for a tenth of what all own: it lives on loans.
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

    /// Seconds to the next demand: by chance, more of them by day than by night.
    fn gap(&self, rng: &mut Rng, at: f64, level: f64) -> f64 {
        let day = (at % 86_400.0) / 86_400.0;
        // Highest at 10 in the morning.
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

/// A number of the standard normal distribution (Box and Muller).
fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (TAU * rng.f64()).cos()
}
