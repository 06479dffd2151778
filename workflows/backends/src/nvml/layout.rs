//! How a GPU is partitioned, and how to get from one partition to another: planned whole, before anything is touched.
//!
//! Pure. Invariant of every plan: instances do not overlap, each lies where its profile may lie, no profile has more than
//! the GPU allows, and what need not go stays.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Memory slices `start .. start + size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placement {
    /// The first.
    pub start: u32,
    /// How many.
    pub size: u32,
}

impl Placement {
    /// Whether both want a slice.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.start + other.size && other.start < self.start + self.size
    }
}

/// A kind of GPU instance that a GPU can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The driver's number for it.
    pub id: u32,
    /// As people name it: `1g.10gb`.
    pub name: String,
    /// Compute slices.
    pub slices: u32,
    /// How many there can be at once.
    pub instances: u32,
    /// Where one may lie.
    pub placements: Vec<Placement>,
}

/// A compute instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeInstance {
    /// The driver's number for it, within its GPU instance.
    pub id: u32,
    /// Its compute slices.
    pub slices: u32,
}

/// A GPU instance with what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInstance {
    /// The driver's number for it, within its GPU.
    pub id: u32,
    /// Its profile, by the driver's number.
    pub profile: u32,
    /// Where it lies.
    pub placement: Placement,
    /// What is in it.
    pub compute: Vec<ComputeInstance>,
}

/// A GPU as it is partitioned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// Whether it can have instances at all.
    pub enabled: bool,
    /// What it has.
    pub instances: Vec<GpuInstance>,
}

/// An instance that is to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Goal {
    /// Its profile, by the driver's number.
    pub profile: u32,
    /// Where it lies.
    pub placement: Placement,
    /// The compute slices of each compute instance in it.
    pub compute: Vec<u32>,
}

/// One thing to do. What is created is known by its place, since the driver numbers it only then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Destroys a compute instance.
    DestroyCompute {
        /// In which GPU instance.
        instance: u32,
        /// Which.
        compute: u32,
    },
    /// Destroys an empty GPU instance.
    DestroyInstance {
        /// Which.
        instance: u32,
    },
    /// Creates a GPU instance.
    CreateInstance {
        /// Of which profile.
        profile: u32,
        /// Where.
        placement: Placement,
    },
    /// Creates a compute instance.
    CreateCompute {
        /// In the GPU instance that lies there.
        placement: Placement,
        /// Of so many compute slices.
        slices: u32,
    },
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The GPU has no such profile.
    #[error("profile {name} is not known to this GPU, which has {has}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        has: String,
    },
    /// They do not fit.
    #[error("{wanted} do not fit on this GPU at once")]
    NoFit {
        /// What was asked for.
        wanted: String,
    },
    /// They fit only if an instance goes that is at work.
    #[error("GPU instance {instance} would have to go, and a process works on it")]
    Busy {
        /// Which.
        instance: u32,
    },
}

/// The instances that are to be, for these profiles by name: those stay that can, and of the ways to keep as many as
/// possible the one that spares compute instances. One that is in `busy` never goes.
///
/// # Errors
/// [`PlanError`] when there is no way.
pub fn plan(
    profiles: &[Profile],
    now: &[GpuInstance],
    busy: &BTreeSet<u32>,
    wanted: &[String],
) -> Result<Vec<Goal>, PlanError> {
    let wanted = wanted.iter().map(|name| find(profiles, name)).collect::<Result<Vec<_>, _>>()?;
    let mut ways: Vec<u32> = (0..1_u32 << now.len().min(16)).collect();
    let kept = |way: u32| now.iter().enumerate().filter(move |(bit, _)| way & (1 << bit) != 0);
    ways.sort_by_key(|way| {
        let whole = kept(*way).filter(|(_, one)| is_whole(profiles, one)).count();
        std::cmp::Reverse((way.count_ones(), whole))
    });
    let mut in_the_way = None;
    for way in ways {
        let keep: Vec<&GpuInstance> = kept(way).map(|(_, one)| one).collect();
        let goes =
            now.iter().find(|one| busy.contains(&one.id) && !keep.iter().any(|kept| kept.id == one.id));
        let Some(goals) = fill(profiles, &keep, &wanted) else { continue };
        match goes {
            None => return Ok(goals),
            Some(one) => in_the_way = in_the_way.or(Some(one.id)),
        }
    }
    let names: Vec<&str> = wanted.iter().map(|profile| profile.name.as_str()).collect();
    Err(in_the_way.map_or_else(
        || PlanError::NoFit { wanted: names.join(", ") },
        |instance| PlanError::Busy { instance },
    ))
}

fn find<'a>(profiles: &'a [Profile], name: &str) -> Result<&'a Profile, PlanError> {
    let found = profiles.iter().find(|profile| profile.name == name);
    found.ok_or_else(|| {
        let has: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
        let has = if has.is_empty() { "none".to_owned() } else { has.join(", ") };
        PlanError::Unknown { name: name.to_owned(), has }
    })
}

/// Whether an instance has the one compute instance over all of it that users expect.
fn is_whole(profiles: &[Profile], one: &GpuInstance) -> bool {
    let slices = profiles.iter().find(|profile| profile.id == one.profile).map(|profile| profile.slices);
    matches!(one.compute.as_slice(), [only] if Some(only.slices) == slices)
}

/// The goals that keep these instances and place the rest, if there is room.
fn fill(profiles: &[Profile], keep: &[&GpuInstance], wanted: &[&Profile]) -> Option<Vec<Goal>> {
    let mut rest: Vec<&Profile> = wanted.to_vec();
    let mut goals = Vec::new();
    for one in keep {
        let at = rest.iter().position(|profile| profile.id == one.profile)?;
        let profile = rest.remove(at);
        goals.push(Goal { profile: one.profile, placement: one.placement, compute: vec![profile.slices] });
    }
    let limit = profiles.iter().map(|profile| profile.slices).max().unwrap_or(0);
    let over = |profile: &&Profile| {
        wanted.iter().filter(|other| other.id == profile.id).count() > profile.instances as usize
    };
    if wanted.iter().map(|profile| profile.slices).sum::<u32>() > limit || wanted.iter().any(over) {
        return None;
    }
    // The big ones first: they have the fewest places.
    rest.sort_by_key(|profile| (profile.placements.len(), std::cmp::Reverse(profile.slices)));
    place(&rest, &mut goals).then_some(goals)
}

fn place(rest: &[&Profile], goals: &mut Vec<Goal>) -> bool {
    let Some((profile, others)) = rest.split_first() else { return true };
    for placement in &profile.placements {
        if goals.iter().any(|goal| goal.placement.overlaps(*placement)) {
            continue;
        }
        goals.push(Goal { profile: profile.id, placement: *placement, compute: vec![profile.slices] });
        if place(others, goals) {
            return true;
        }
        goals.pop();
    }
    false
}

/// The goals that are what stands.
#[must_use]
pub fn as_it_is(instances: &[GpuInstance]) -> Vec<Goal> {
    let goal = |one: &GpuInstance| Goal {
        profile: one.profile,
        placement: one.placement,
        compute: one.compute.iter().map(|compute| compute.slices).collect(),
    };
    instances.iter().map(goal).collect()
}

/// Whether what stands is what was to be.
#[must_use]
pub fn is_reached(instances: &[GpuInstance], goals: &[Goal]) -> bool {
    let sorted = |mut goals: Vec<Goal>| {
        goals.iter_mut().for_each(|goal| goal.compute.sort_unstable());
        goals.sort();
        goals
    };
    sorted(as_it_is(instances)) == sorted(goals.to_vec())
}

/// What to do, in order, to come from what stands to the goals: all that goes first, what comes after.
#[must_use]
pub fn steps(now: &[GpuInstance], goals: &[Goal]) -> Vec<Step> {
    let (mut go, mut come) = (Vec::new(), Vec::new());
    for one in now {
        let goal = goals.iter().find(|goal| goal.profile == one.profile && goal.placement == one.placement);
        let mut missing = goal.map(|goal| goal.compute.clone()).unwrap_or_default();
        for compute in &one.compute {
            if let Some(at) = missing.iter().position(|slices| *slices == compute.slices) {
                missing.remove(at);
            } else {
                go.push(Step::DestroyCompute { instance: one.id, compute: compute.id });
            }
        }
        if goal.is_none() {
            go.push(Step::DestroyInstance { instance: one.id });
        }
        let placement = one.placement;
        come.extend(missing.into_iter().map(|slices| Step::CreateCompute { placement, slices }));
    }
    for goal in goals {
        let (profile, placement) = (goal.profile, goal.placement);
        if now.iter().any(|one| one.profile == profile && one.placement == placement) {
            continue;
        }
        come.push(Step::CreateInstance { profile, placement });
        come.extend(goal.compute.iter().map(|slices| Step::CreateCompute { placement, slices: *slices }));
    }
    go.append(&mut come);
    go
}

/// What is asked of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// No partition.
    Off,
    /// As many instances of this profile as there can be.
    Full(String),
    /// These instances.
    These(Vec<String>),
}

impl Wanted {
    /// The profiles, by name, of a GPU that has these.
    #[must_use]
    pub fn names(&self, profiles: &[Profile]) -> Vec<String> {
        match self {
            Self::Off => Vec::new(),
            Self::Full(name) => {
                let profile = profiles.iter().find(|profile| profile.name == *name);
                vec![name.clone(); profile.map_or(1, |profile| profile.instances as usize)]
            }
            Self::These(names) => names.clone(),
        }
    }
}
