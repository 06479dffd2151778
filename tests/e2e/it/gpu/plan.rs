//! Plans of partitions, for every possible GPU state.

use backends::nvml::layout::{
    ComputeInstance, Goal, GpuInstance, Placement, PlanError, Profile, Step, is_reached, plan, steps,
};
use proptest::{collection::vec, prelude::*};
use std::collections::BTreeSet;
use tests::cases;

/// The profiles of a GPU of 80 GB.
fn profiles() -> Vec<Profile> {
    let of = |id, name: &str, slices, instances, size, starts: &[u32]| Profile {
        id,
        name: name.to_owned(),
        slices,
        instances,
        placements: starts.iter().map(|start| Placement { start: *start, size }).collect(),
    };
    vec![
        of(19, "1g.10gb", 1, 7, 1, &[0, 1, 2, 3, 4, 5, 6]),
        of(20, "1g.10gb+me", 1, 1, 1, &[0, 1, 2, 3, 4, 5, 6]),
        of(15, "1g.20gb", 1, 4, 2, &[0, 2, 4, 6]),
        of(14, "2g.20gb", 2, 3, 2, &[0, 2, 4]),
        of(9, "3g.40gb", 3, 2, 4, &[0, 4]),
        of(5, "4g.40gb", 4, 1, 4, &[0]),
        of(0, "7g.80gb", 7, 1, 8, &[0]),
    ]
}

/// Checks by the rules, without the planner, that instances can exist together.
fn fits(profiles: &[Profile], all: &[(u32, Placement)]) -> bool {
    let of = |id: u32| profiles.iter().find(|profile| profile.id == id).unwrap();
    let apart = all.iter().enumerate().all(|(number, (_, one))| {
        all[number + 1..]
            .iter()
            .all(|(_, other)| one.start + one.size <= other.start || other.start + other.size <= one.start)
    });
    let few = profiles
        .iter()
        .all(|profile| all.iter().filter(|(id, _)| *id == profile.id).count() <= profile.instances as usize);
    let slices: u32 = all.iter().map(|(id, _)| of(*id).slices).sum();
    apart && few && slices <= 7 && all.iter().all(|(id, at)| of(*id).placements.contains(at))
}

/// A random state of a GPU: instances placed one after the other where there is room, some with missing compute instances.
fn standing() -> impl Strategy<Value = Vec<GpuInstance>> {
    vec((0..7_usize, 0..7_usize, 0..5_u8), 0..8).prop_map(|picks| {
        let profiles = profiles();
        let mut all: Vec<GpuInstance> = Vec::new();
        for (which, place, inside) in picks {
            let profile = &profiles[which];
            let placement = profile.placements[place % profile.placements.len()];
            let mut then: Vec<_> = all.iter().map(|one| (one.profile, one.placement)).collect();
            then.push((profile.id, placement));
            if !fits(&profiles, &then) {
                continue;
            }
            let compute = match inside {
                0 => Vec::new(),
                1 => vec![ComputeInstance { id: 0, slices: 1 }],
                _ => vec![ComputeInstance { id: 0, slices: profile.slices }],
            };
            all.push(GpuInstance { id: all.len() as u32 + 1, profile: profile.id, placement, compute });
        }
        all
    })
}

fn wanted() -> impl Strategy<Value = Vec<String>> {
    vec(0..7_usize, 0..8)
        .prop_map(|picks| picks.into_iter().map(|which| profiles()[which].name.clone()).collect())
}

fn ids(names: &[String]) -> Vec<u32> {
    let mut ids: Vec<u32> = names
        .iter()
        .map(|name| profiles().iter().find(|profile| profile.name == *name).unwrap().id)
        .collect();
    ids.sort_unstable();
    ids
}

/// Tries if the sorted rest can be placed next to the existing instances. Two of one profile are interchangeable, so the second
/// is only tried after the first: `last` is the latest placement.
fn possible(
    profiles: &[Profile],
    there: &mut Vec<(u32, Placement)>,
    rest: &[u32],
    last: Option<(u32, u32)>,
) -> bool {
    let Some((next, others)) = rest.split_first() else { return fits(profiles, there) };
    let profile = profiles.iter().find(|profile| profile.id == *next).unwrap();
    let after = last.filter(|(id, _)| id == next).map_or(0, |(_, start)| start + 1);
    profile.placements.iter().filter(|placement| placement.start >= after).any(|placement| {
        there.push((*next, *placement));
        let can = fits(profiles, there) && possible(profiles, there, others, Some((*next, placement.start)));
        there.pop();
        can
    })
}

/// Returns the maximum number of kept instances, among the changes that remove no busy one.
fn most_kept(now: &[GpuInstance], busy: &BTreeSet<u32>, wanted: &[u32]) -> Option<u32> {
    let profiles = profiles();
    let ways = 0..1_u32 << now.len();
    let counts = ways.filter_map(|way| {
        let stays = |number: usize| way & (1 << number) != 0;
        let (mut kept, mut rest) = (Vec::new(), wanted.to_vec());
        for (number, one) in now.iter().enumerate() {
            if !stays(number) {
                if busy.contains(&one.id) {
                    return None;
                }
                continue;
            }
            rest.remove(rest.iter().position(|id| *id == one.profile)?);
            kept.push((one.profile, one.placement));
        }
        rest.sort_unstable();
        possible(&profiles, &mut kept, &rest, None).then_some(way.count_ones())
    });
    counts.max()
}

/// Runs the steps as a GPU would, and fails where it would refuse.
fn act(now: &[GpuInstance], steps: &[Step]) -> Vec<GpuInstance> {
    let mut all = now.to_vec();
    for step in steps {
        match step {
            Step::DestroyCompute { instance, compute } => {
                let one = all.iter_mut().find(|one| one.id == *instance).unwrap();
                one.compute.remove(one.compute.iter().position(|inside| inside.id == *compute).unwrap());
            }
            Step::DestroyInstance { instance } => {
                let at = all.iter().position(|one| one.id == *instance).unwrap();
                assert!(all.remove(at).compute.is_empty(), "only an empty instance is removed");
            }
            Step::CreateInstance { profile, placement } => {
                assert!(!all.iter().any(|one| one.placement.overlaps(*placement)), "there is room for it");
                all.push(GpuInstance {
                    id: 100 + placement.start,
                    profile: *profile,
                    placement: *placement,
                    compute: Vec::new(),
                });
            }
            Step::CreateCompute { placement, slices } => {
                let one = all.iter_mut().find(|one| one.placement == *placement).unwrap();
                one.compute.push(ComputeInstance { id: 50 + one.compute.len() as u32, slices: *slices });
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn every_plan_fits_keeps_as_much_as_possible_and_its_steps_lead_to_it(
        now in standing(), names in wanted(), at_work in 0..256_u32,
    ) {
        let profiles = profiles();
        let busy: BTreeSet<u32> = now.iter().map(|one| one.id).filter(|id| at_work & (1 << id) != 0 && at_work > 192).collect();
        let possible = most_kept(&now, &busy, &ids(&names));
        match plan(&profiles, &now, &busy, &names) {
            Ok(goals) => {
                let places: Vec<_> = goals.iter().map(|goal| (goal.profile, goal.placement)).collect();
                prop_assert!(fits(&profiles, &places), "{places:?}");
                let mut planned: Vec<u32> = goals.iter().map(|goal| goal.profile).collect();
                planned.sort_unstable();
                prop_assert_eq!(planned, ids(&names));
                let kept = now.iter().filter(|one| places.contains(&(one.profile, one.placement)));
                let kept: Vec<u32> = kept.map(|one| one.id).collect();
                prop_assert!(busy.iter().all(|id| kept.contains(id)), "no busy instance is removed");
                prop_assert!(kept.len() as u32 >= possible.unwrap(), "kept {kept:?} of possible {possible:?}");

                let steps = steps(&now, &goals);
                let gone = steps.iter().filter(|step| matches!(step, Step::DestroyInstance { .. })).count();
                prop_assert_eq!(gone, now.len() - kept.len());
                prop_assert!(is_reached(&act(&now, &steps), &goals));
            }
            Err(PlanError::NoFit { .. }) => prop_assert_eq!(most_kept(&now, &BTreeSet::new(), &ids(&names)), None),
            Err(PlanError::Busy { instance }) => {
                prop_assert!(busy.contains(&instance));
                prop_assert_eq!(possible, None);
            }
            Err(error @ PlanError::Unknown { .. }) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn every_layout_can_be_changed_into_every_other(now in standing(), before in standing()) {
        let goals: Vec<Goal> = backends::nvml::layout::as_it_is(&before);
        prop_assert!(is_reached(&act(&now, &steps(&now, &goals)), &goals));
    }
}

#[test]
fn an_existing_layout_needs_no_change_and_an_unknown_profile_lists_the_known_ones() {
    let names = vec!["3g.40gb".to_owned(), "3g.40gb".to_owned()];
    let goals = plan(&profiles(), &[], &BTreeSet::new(), &names).unwrap();
    let stands = act(&[], &steps(&[], &goals));

    let again = plan(&profiles(), &stands, &BTreeSet::new(), &names).unwrap();
    assert_eq!(steps(&stands, &again), []);

    let unknown = plan(&profiles(), &[], &BTreeSet::new(), &["1g.5gb".to_owned()]).unwrap_err();
    assert!(unknown.to_string().contains("1g.10gb+me"), "{unknown}");
}
