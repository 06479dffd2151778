//! All transitions that continue after a failed step, with the reason why no later step depends on it.
//!
//! A failed hold, freeze or revocation parks its execution, and the engine permits no transition past it. The transitions listed here lead to a state
//! that assumes the worst outcome.

use crate::{
    capacity::CapacityExhaustion,
    incident::IncidentResponse,
    offboarding::{Offboarding, node_sanitisation::NodeSanitisation},
    onboarding::Onboarding,
    quota_change::{decrease::QuotaDecrease, increase::QuotaIncrease},
    reclaim::{Reclaim, eviction::Eviction},
    sla_change::SlaChange,
    workload_start::WorkloadStart,
};
use engine::{Workflow, check, diagram};
use std::collections::BTreeSet;

/// A node's record lists its missing conditions, and a node with missing conditions is quarantined.
const FILED: &str = "the records say what was not done, and the node is quarantined";
/// An eviction continues without the optional steps for its borrower.
const BORROWER: &str = "the borrower loses a kindness, and the time of grace passes all the same";

const EXPLAINED: [(&str, &str, &str, &str); 30] = [
    ("eviction", "Observing", "Notifying", "the workload is located again before anything is done to it"),
    ("eviction", "Notifying", "ChoosingDrain", BORROWER),
    ("eviction", "DrainingService", "AwaitingExit", BORROWER),
    ("eviction", "SavingWork", "Draining", BORROWER),
    (
        "eviction",
        "Leaving",
        "Locating",
        "the workload has ended by itself; its GPUs are looked at all the same",
    ),
    ("eviction", "Draining", "Locating", "it only spares a workload that is no longer needed to go"),
    ("eviction", "Locating", "Unobserved", "what cannot be located is not evicted"),
    ("eviction", "Evicting", "Terminating", "it is looked at until nothing is left, whatever the answer was"),
    ("eviction", "Terminating", "Forcing", "what does not end is removed by force"),
    ("eviction", "Forcing", "Stuck", "the GPUs stay in the books of the workload"),
    ("eviction", "Looking", "Stuck", "GPUs that could not be looked at stay in the books of the workload"),
    ("eviction", "Scrubbing", "Barring", "GPUs that were not cleared are given to no workload"),
    ("incident_response", "Inspecting", "Judging", "a node that gives no answer counts as unfit"),
    ("incident_response", "ResettingGpus", "Rebooting", "a reboot follows, and a test after it"),
    ("incident_response", "Rebooting", "Examining", "a test follows"),
    ("incident_response", "Examining", "KeepingApart", "a node that could not be tested is quarantined"),
    ("node_sanitisation", "Cordoning", "Filing", FILED),
    ("node_sanitisation", "Draining", "Filing", FILED),
    ("node_sanitisation", "EnteringScrub", "Filing", FILED),
    ("node_sanitisation", "ReadingDevices", "Filing", FILED),
    ("node_sanitisation", "ScrubbingGpus", "Filing", FILED),
    ("node_sanitisation", "ErasingDrives", "Filing", FILED),
    ("node_sanitisation", "ReadingProgress", "Filing", FILED),
    ("node_sanitisation", "SamplingDrives", "Filing", FILED),
    ("node_sanitisation", "Resetting", "Filing", FILED),
    ("node_sanitisation", "Reimaging", "Filing", FILED),
    ("node_sanitisation", "Qualifying", "Filing", FILED),
    (
        "reclaim",
        "Starting",
        "RecordingFailedStart",
        "the GPUs stay granted; the failure is recorded, and the sweep tries the start again",
    ),
    ("reclaim", "Requeueing", "Restored", "a notice that stays is replaced by the next one"),
    (
        "workload_start",
        "Starting",
        "RecordingFailure",
        "the failure is recorded, and the sweep tries the start again",
    ),
];

/// Returns the transitions of a workflow that continue after any failure.
fn ways<W: Workflow>() -> Vec<(String, String, String)> {
    assert_eq!(check::<W>(), [], "{}", W::NAME);
    let failed = diagram::<W>().edges.into_iter().filter(|edge| edge.label == "failed");
    failed.map(|edge| (W::NAME.to_owned(), edge.from, edge.to)).collect()
}

#[test]
fn every_way_to_continue_after_a_failure_is_explained() {
    let found: BTreeSet<_> = [
        ways::<CapacityExhaustion>(),
        ways::<Eviction>(),
        ways::<IncidentResponse>(),
        ways::<NodeSanitisation>(),
        ways::<Offboarding>(),
        ways::<Onboarding>(),
        ways::<QuotaDecrease>(),
        ways::<QuotaIncrease>(),
        ways::<Reclaim>(),
        ways::<SlaChange>(),
        ways::<WorkloadStart>(),
    ]
    .concat()
    .into_iter()
    .collect();

    let explained = EXPLAINED.iter().map(|(workflow, from, to, why)| {
        assert!(!why.is_empty());
        ((*workflow).to_owned(), (*from).to_owned(), (*to).to_owned())
    });
    assert_eq!(found, explained.collect());
}
