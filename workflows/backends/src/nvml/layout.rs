//! Plans the change from one partition of a GPU to another. The plan is complete before the first change.
//!
//! Pure. Invariants of every plan: instances do not overlap, each placement is one that its profile allows, no profile
//! exceeds its instance limit, and instances are kept where possible.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Memory slices `start .. start + size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placement {
    /// The first slice.
    pub start: u32,
    /// The number of slices.
    pub size: u32,
}

impl Placement {
    /// Returns true if both placements share a slice.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.start < other.start + other.size && other.start < self.start + self.size
    }
}

/// A GPU instance profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The driver's id.
    pub id: u32,
    /// The name, such as `1g.10gb`.
    pub name: String,
    /// Compute slices.
    pub slices: u32,
    /// The largest number of instances at once.
    pub instances: u32,
    /// The allowed placements.
    pub placements: Vec<Placement>,
}

/// A compute instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeInstance {
    /// The driver's id within the GPU instance.
    pub id: u32,
    /// Number of compute slices.
    pub slices: u32,
}

/// A GPU instance and its compute instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInstance {
    /// The driver's id within the GPU.
    pub id: u32,
    /// The driver's id of the profile.
    pub profile: u32,
    /// The placement.
    pub placement: Placement,
    /// The compute instances.
    pub compute: Vec<ComputeInstance>,
}

/// The partition of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partition {
    /// True if MIG is on.
    pub enabled: bool,
    /// The GPU instances.
    pub instances: Vec<GpuInstance>,
}

/// A wanted GPU instance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Goal {
    /// The driver's id of the profile.
    pub profile: u32,
    /// The placement.
    pub placement: Placement,
    /// The slices of each wanted compute instance.
    pub compute: Vec<u32>,
}

/// One step of a plan. New instances are named by their placement, because the driver assigns ids only on creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Destroys a compute instance.
    DestroyCompute {
        /// The GPU instance.
        instance: u32,
        /// The compute instance.
        compute: u32,
    },
    /// Destroys an empty GPU instance.
    DestroyInstance {
        /// The GPU instance.
        instance: u32,
    },
    /// Creates a GPU instance.
    CreateInstance {
        /// The driver's id of the profile.
        profile: u32,
        /// The placement.
        placement: Placement,
    },
    /// Creates a compute instance.
    CreateCompute {
        /// The placement of the GPU instance.
        placement: Placement,
        /// Number of compute slices.
        slices: u32,
    },
}

/// The reason why no plan exists.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The GPU has no such profile.
    #[error("this GPU has no profile {name}; it has {has}")]
    Unknown {
        /// The requested profile.
        name: String,
        /// The profiles of the GPU.
        has: String,
    },
    /// The instances do not fit.
    #[error("{wanted} do not fit on this GPU together")]
    NoFit {
        /// The requested profiles.
        wanted: String,
    },
    /// The instances fit only if an instance in use is destroyed.
    #[error("GPU instance {instance} must be removed, but a process uses it")]
    Busy {
        /// The instance in use.
        instance: u32,
    },
}

/// Returns the goals for these profiles. Keeps as many existing instances as possible, preferring those with a full
/// compute instance. Instances in `busy` are always kept.
///
/// # Errors
///
/// [`PlanError`] if no plan exists.
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

/// Returns true if the instance has one compute instance of full size, as users expect.
fn is_whole(profiles: &[Profile], one: &GpuInstance) -> bool {
    let slices = profiles.iter().find(|profile| profile.id == one.profile).map(|profile| profile.slices);
    matches!(one.compute.as_slice(), [only] if Some(only.slices) == slices)
}

/// Returns goals that keep these instances and place the remaining profiles, or `None` if they do not fit.
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
    // Places large profiles first, because they have the fewest placements.
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

/// Returns goals that describe the current instances.
#[must_use]
pub fn as_it_is(instances: &[GpuInstance]) -> Vec<Goal> {
    let goal = |one: &GpuInstance| Goal {
        profile: one.profile,
        placement: one.placement,
        compute: one.compute.iter().map(|compute| compute.slices).collect(),
    };
    instances.iter().map(goal).collect()
}

/// Returns true if the instances match the goals.
#[must_use]
pub fn is_reached(instances: &[GpuInstance], goals: &[Goal]) -> bool {
    let sorted = |mut goals: Vec<Goal>| {
        goals.iter_mut().for_each(|goal| goal.compute.sort_unstable());
        goals.sort();
        goals
    };
    sorted(as_it_is(instances)) == sorted(goals.to_vec())
}

/// Returns the steps from the current instances to the goals. Deletions come before creations.
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

/// The wanted partition of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// MIG off.
    Off,
    /// The largest possible number of instances of this profile.
    Full(String),
    /// Instances of these profiles.
    These(Vec<String>),
}

impl Wanted {
    /// Returns the profile names of the wanted instances.
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
