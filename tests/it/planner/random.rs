//! Random small states: the planner against the second one, and the properties that hold.

use super::{chosen, kueue};
use proptest::{collection::vec, option, prelude::*, sample::select, strategy::Strategy};
use tests::preemption::{Mistake, Place, Running, State, choose, name};
use workflows::scheduling::planner::{Strategy as Strategies, *};

fn quota() -> impl Strategy<Value = Option<Quota>> {
    let limit = || option::weighted(0.3, 0..4_u64);
    let quota = (0..6_u64, limit(), limit()).prop_map(|(nominal, borrowing_limit, lending_limit)| Quota {
        nominal,
        borrowing_limit,
        lending_limit,
    });
    option::weighted(0.9, quota)
}

fn policy() -> impl Strategy<Value = Preemption> {
    let within = select(vec![
        PreemptPolicy::LowerPriority,
        PreemptPolicy::Never,
        PreemptPolicy::LowerOrNewerEqualPriority,
    ]);
    let reclaim = select(vec![
        PreemptPolicy::Any,
        PreemptPolicy::LowerPriority,
        PreemptPolicy::Any,
        PreemptPolicy::LowerOrNewerEqualPriority,
        PreemptPolicy::Never,
    ]);
    let borrow = prop_oneof![
        Just(BorrowWithinCohort::Never),
        option::of(-1..2_i64)
            .prop_map(|max_priority_threshold| BorrowWithinCohort::LowerPriority { max_priority_threshold }),
    ];
    (within, reclaim, borrow).prop_map(|(within_workspace, reclaim_within_cohort, borrow_within_cohort)| {
        Preemption { within_workspace, reclaim_within_cohort, borrow_within_cohort }
    })
}

prop_compose! {
    fn place(kinds: usize, cohorts: usize, cohort: bool)(
        parent in 0..cohorts.max(1),
        weight in select(vec![1_000_000_000_u64, 2_000_000_000, 500_000_000, 333_333_333, 0]),
        quotas in vec(quota(), kinds),
        preemption in policy(),
    ) -> Place {
        Place { parent: (cohorts > 0).then_some(parent), cohort, weight, quotas, preemption }
    }
}

fn running(kinds: usize, workspaces: std::ops::Range<usize>) -> impl Strategy<Value = Running> {
    let usage = vec(option::weighted(0.8, 0..4_u64), kinds);
    let times = (0..3_i64, 0..3_i64);
    (workspaces, usage, -1..2_i64, times, prop::bool::weighted(0.1)).prop_map(
        |(at, usage, priority, (queued_at, reserved_at), evicted)| Running {
            id: String::new(),
            at,
            usage,
            priority,
            queued_at,
            reserved_at,
            evicted,
        },
    )
}

/// A state with up to four cohorts, five workspaces and ten workloads of up to three kinds.
pub(super) fn states() -> impl Strategy<Value = State> {
    (1..4_usize, 0..5_usize, 1..6_usize).prop_flat_map(|(kinds, cohorts, workspaces)| {
        let above: Vec<_> = (0..cohorts).map(|at| place(kinds, at, true)).collect();
        let below: Vec<_> = (0..workspaces).map(|_| place(kinds, cohorts, false)).collect();
        let all = cohorts..cohorts + workspaces;
        let asked = (all.clone(), vec(0..5_u64, kinds), -1..2_i64, 0..3_i64);
        (above, below, vec(running(kinds, all), 0..10), asked).prop_map(
            |(mut places, below, mut running, (asks, requests, priority, queued_at))| {
                places.extend(below);
                for (at, running) in running.iter_mut().enumerate() {
                    running.id = format!("w{}", (at * 7) % 10);
                }
                State { places, running, asks, requests, priority, queued_at }
            },
        )
    })
}

fn algorithms() -> impl Strategy<Value = Algorithm> {
    let fair = |strategies| Algorithm::Fair { strategies };
    select(vec![
        Algorithm::Classical,
        Algorithm::Classical,
        Algorithm::fair(),
        fair(vec![Strategies::LessThanInitialShare]),
        fair(vec![Strategies::LessThanOrEqualToFinalShare]),
    ])
}

fn agree(state: &State, settings: &Settings) {
    let ours = chosen(state, settings);
    let theirs = choose(state, settings, Mistake::None);
    let theirs: Vec<_> = theirs.into_iter().map(|(id, reason)| (id, reason.to_owned())).collect();
    assert_eq!(ours, theirs);
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 500, ..tests::cases(60) })]

    #[test]
    fn the_planner_chooses_the_same_victims_as_the_reference_planner(state in states(), algorithm in algorithms()) {
        agree(&state, &kueue(algorithm));
    }
}

proptest! {
    #![proptest_config(tests::cases(3_000))]

    /// P-10: holds on thousands of random states.
    #[test]
    fn the_demand_fits_once_the_victims_are_gone(state in states(), algorithm in algorithms()) {
        let mut snapshot = state.snapshot();
        let demand = state.demand();

        for (victim, _) in chosen(&state, &kueue(algorithm.clone())) {
            snapshot.remove(&victim).unwrap();
        }

        if !chosen(&state, &kueue(algorithm)).is_empty() {
            for (kind, amount) in &demand.requests {
                prop_assert!(snapshot.available(&demand.workspace, kind) >= *amount);
            }
        }
    }

    /// P-10, I-12: no workspace loses its nominal quota.
    #[test]
    fn victims_of_others_come_from_workspaces_above_nominal(state in states(), algorithm in algorithms()) {
        let (snapshot, demand) = (state.snapshot(), state.demand());

        for (victim, _) in chosen(&state, &kueue(algorithm)) {
            let workspace = &snapshot.workload(&victim).unwrap().workspace;
            let above = |kind: &ResourceKind| snapshot.usage(workspace, kind) > snapshot.nominal(workspace, kind);
            let contested = demand.contested.iter().flatten();
            prop_assert!(*workspace == demand.workspace || contested.into_iter().any(above));
        }
    }

    /// P-10: a higher nominal quota never makes a demand of one kind infeasible. With several kinds it can, by Kueue's
    /// rule. A workspace above nominal in a contested kind may lose its use of all kinds, and a kind that is no longer
    /// contested exposes no other workspace.
    #[test]
    fn a_higher_nominal_of_the_demands_workspace_keeps_it_feasible(mut state in states(), more in 1..4_u64) {
        let settings = kueue(Algorithm::Classical);
        state.requests.iter_mut().skip(1).for_each(|request| *request = 0);
        let mut richer = state.clone();
        for quota in richer.places[state.asks].quotas.iter_mut().flatten() {
            quota.nominal += more;
        }
        let feasible = |state: &State| {
            let demand = Demand { contested: None, ..state.demand() };
            plan(&state.snapshot(), &demand, &settings).is_ok()
        };

        prop_assert!(!feasible(&state) || feasible(&richer));
    }

    /// P-11: neither the order of arrival nor workloads that came and went matter.
    #[test]
    fn equal_states_give_equal_plans(state in states(), algorithm in algorithms(), turn in 0..10_usize) {
        let settings = Settings { algorithm, ..Settings::default() };
        let mut other = state.clone();
        let by = turn % other.running.len().max(1);
        other.running.rotate_left(by);
        let (first, mut second) = (state.snapshot(), other.snapshot());
        for running in &other.running {
            second.mark_evicted(&running.id, "another").unwrap();
            second.remove(&running.id).unwrap();
            second.admit(other.workload(running)).unwrap();
        }

        let demand = state.demand();

        prop_assert_eq!(plan(&first, &demand, &settings), plan(&second, &demand, &settings));
    }

    /// P-11: a short explanation is a prefix of the long one, and does not change the answer. If further search is useless, the
    /// planner stops once its evidence is full.
    #[test]
    fn the_length_of_the_explanation_changes_nothing_else(
        state in states(), algorithm in algorithms(), explain in 0..6_usize, more in 0..5_u64,
    ) {
        let mut demand = state.demand();
        demand.requests.values_mut().for_each(|amount| *amount += more);
        let asked = |explain| {
            let answer = plan(&state.snapshot(), &demand, &Settings { explain, ..kueue(algorithm.clone()) });
            let (answer, explanation) = match answer {
                Ok(PlanAnswer::Reclaim(mut plan)) => {
                    let explanation = std::mem::take(&mut plan.explanation);
                    (Ok(PlanAnswer::Reclaim(plan)), explanation)
                }
                Ok(answer) => (Ok(answer), Explanation::default()),
                Err(none) => (Err(none.why), none.explanation),
            };
            (answer, explanation)
        };

        let ((full, long), (answer, short)) = (asked(usize::MAX), asked(explain));

        prop_assert_eq!(answer, full);
        let cut = long.candidates.len() > explain;
        let mut expected = Explanation { cut, ..long };
        expected.candidates.truncate(explain);
        prop_assert_eq!(short, expected);
    }

    /// An incrementally updated snapshot equals a newly counted one.
    #[test]
    fn a_maintained_snapshot_equals_a_new_one(state in states(), quotas in vec((0..9_usize, 0..3_usize, quota()), 0..8)) {
        let mut kept = state.snapshot();
        let mut changed = state.clone();
        let kinds = tests::preemption::kinds(state.requests.len());
        for (at, kind, quota) in quotas {
            let (at, kind) = (at % changed.places.len(), kind % kinds.len());
            let Some(quota) = quota else { continue };
            changed.places[at].quotas[kind] = Some(quota);
            if changed.places[at].cohort {
                kept.set_cohort_quota(&name(at), &kinds[kind], quota).unwrap();
            } else {
                kept.set_quota(&name(at), &kinds[kind], quota).unwrap();
            }
        }
        for gone in changed.running.drain(changed.running.len() / 2..) {
            kept.remove(&gone.id).unwrap();
        }
        let anew = changed.snapshot();

        for algorithm in [Algorithm::Classical, Algorithm::fair()] {
            let demand = changed.demand();
            prop_assert_eq!(plan(&kept, &demand, &kueue(algorithm.clone())), plan(&anew, &demand, &kueue(algorithm)));
        }
        for (at, kind) in (0..changed.places.len()).flat_map(|at| kinds.iter().map(move |kind| (at, kind))) {
            prop_assert_eq!(kept.available(&name(at), kind), anew.available(&name(at), kind));
        }
    }

    /// Every input gets an answer.
    #[test]
    fn extreme_amounts_have_a_plan_or_a_refusal(
        state in states(),
        algorithm in algorithms(),
        big in vec(select(vec![u64::MAX, u64::MAX - 1, 1 << 63, 1 << 53, 0]), 8),
    ) {
        let mut wild = state.clone();
        for (quota, big) in wild.places.iter_mut().flat_map(|place| place.quotas.iter_mut().flatten()).zip(&big) {
            (quota.nominal, quota.lending_limit) = (*big, Some(*big / 3));
        }
        for (usage, big) in wild.running.iter_mut().flat_map(|load| load.usage.iter_mut().flatten()).zip(&big) {
            *usage = *big;
        }
        for (running, time) in wild.running.iter_mut().zip([i64::MIN, i64::MAX]) {
            (running.reserved_at, running.priority) = (time, time);
        }
        let demand = Demand { contested: None, now: i64::MAX, ..wild.demand() };

        let answer = plan(&wild.snapshot(), &demand, &Settings { algorithm, ..Settings::default() });

        let text = serde_json::to_string(&answer.map_err(|why| *why)).unwrap();
        prop_assert!(!text.is_empty());
    }
}
