//! The events of a tenant's account, drawn at random.

use super::NAMES;
use proptest::{option, prelude::*};

/// The events of a history, by number of workspace, workload or node.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Submit { workspace: usize, gpus: u64, together: u64, preemptible: bool, service: bool, priority: i32 },
    Finish(usize),
    Allow { workspace: usize, nominal: u64, borrowing: Option<u64>, lending: Option<u64> },
    Fence(usize),
    Gone(usize, bool),
    Grant,
    Unfence,
    Drain(usize, bool),
    Pass(u64),
    Rest(u32),
    Serve(u32),
    Lose(u32),
    Bar(u32, u16, bool),
    Cut(u32, u16, bool),
    Freeze(usize),
    Thaw(usize),
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let workspace = 0..NAMES.len();
    let limit = || option::weighted(0.6, 0..12_u64);
    prop_oneof![
        12 => (workspace.clone(), 1..10_u64, 0..3_u64, any::<bool>(), prop::bool::weighted(0.1), 0..3_i32).prop_map(
            |(workspace, gpus, together, preemptible, service, priority)| Event::Submit {
                workspace, gpus, together: [0, 2, gpus][usize::try_from(together).unwrap()], preemptible, service, priority,
            }
        ),
        7 => (0..40_usize).prop_map(Event::Finish),
        2 => (workspace.clone(), 0..13_u64, limit(), limit()).prop_map(|(workspace, nominal, borrowing, lending)| {
            Event::Allow { workspace, nominal, borrowing, lending }
        }),
        5 => (0..4_usize).prop_map(Event::Fence),
        7 => (0..6_usize, any::<bool>()).prop_map(|(nth, evicted)| Event::Gone(nth, evicted)),
        4 => Just(Event::Grant),
        1 => Just(Event::Unfence),
        3 => (0..6_usize, prop::bool::weighted(0.1)).prop_map(|(nth, exited)| Event::Drain(nth, exited)),
        5 => (1..2_000_u64).prop_map(Event::Pass),
        // Long enough for queued workloads to be overdue.
        1 => (30_000..40_000_u64).prop_map(Event::Pass),
        1 => (0..4_u32).prop_map(Event::Rest),
        2 => (0..4_u32).prop_map(Event::Serve),
        1 => (0..4_u32).prop_map(Event::Lose),
        1 => (0..4_u32, 0..8_u16, any::<bool>()).prop_map(|(node, gpu, bar)| Event::Bar(node, gpu, bar)),
        1 => (0..4_u32, 0..8_u16, any::<bool>()).prop_map(|(node, gpu, cut)| Event::Cut(node, gpu, cut)),
        1 => workspace.clone().prop_map(Event::Freeze),
        1 => workspace.prop_map(Event::Thaw),
    ]
}
