//! Reclaim, its evictions, capacity exhaustion and incidents: fault sweeps, and pages that match the code.

use backends::simulated::{LocalWorld, simulated_platform};
use engine::{Engine, Entity as _, ManualClock, Person, Request, Workflow, check, diagram};
use simulator::verification;
use std::{env, fs, sync::Arc};
use store::{Memory, Store as _, Timestamp};
use workflows::{
    capacity::CapacityExhaustion,
    destruction::Holds,
    incident::{IncidentCause, IncidentResponse},
    reclaim::{Reclaim, eviction::Eviction},
    workload_start::WorkloadStart,
};

/// Run with `BLESS=1` to write the diagrams into the pages.
#[test]
fn the_documented_diagrams_match_the_workflows() {
    drawn::<Reclaim>();
    drawn::<Eviction>();
    drawn::<CapacityExhaustion>();
    drawn::<IncidentResponse>();
    drawn::<WorkloadStart>();
}

fn drawn<W: Workflow>() {
    let path = format!("{}/../docs/workflows/{}.md", env!("CARGO_MANIFEST_DIR"), W::NAME);
    let (begin, end) = ("<!-- diagram:begin -->\n", "<!-- diagram:end -->");
    let page = fs::read_to_string(&path).unwrap();
    let (head, rest) = page.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    let mermaid = diagram::<W>().mermaid(None);
    let drawn = format!("{head}{begin}```mermaid\n{}\n```\n{end}{tail}", mermaid.trim_end());
    if env::var_os("BLESS").is_some() {
        fs::write(&path, &drawn).unwrap();
    }
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        drawn,
        "run the tests with BLESS=1 and review the difference"
    );
}

#[test]
fn the_check_finds_no_error_in_any_workflow() {
    assert_eq!(check::<Reclaim>(), []);
    assert_eq!(check::<Eviction>(), []);
    assert_eq!(check::<CapacityExhaustion>(), []);
    assert_eq!(check::<IncidentResponse>(), []);
    assert_eq!(check::<WorkloadStart>(), []);
}

#[tokio::test]
async fn a_capacity_exhaustion_survives_every_single_fault() {
    let report = verification::capacity_exhaustion().await.unwrap();
    println!("{report}");
    assert!(report.passed(), "{report}");
}

/// In small worlds of one tenant: a demand, overdue loans, and a workspace over its quota. Victims save, refuse to end, or are
/// services; memory stays dirty, and GPUs stay open. The paths of the eviction are counted as well.
#[tokio::test]
async fn a_reclaim_and_its_evictions_survive_every_fault_crash_and_interruption() {
    let (reclaim, eviction) = verification::reclaim_and_eviction().await.unwrap();
    assert_eq!((reclaim.workflow.as_str(), eviction.workflow.as_str()), (Reclaim::NAME, Eviction::NAME));
    assert_eq!(eviction.edges.len(), diagram::<Eviction>().edges.len(), "exactly its own edges");
    for report in [reclaim, eviction] {
        println!("{report}");
        assert!(report.passed(), "{report}");
    }
}

#[tokio::test]
async fn an_incident_survives_every_fault_crash_and_interruption() {
    let report = verification::incident_response().await.unwrap();
    println!("{report}");
    assert!(report.passed(), "{report}");
}

#[tokio::test]
async fn the_start_of_an_admitted_workload_survives_every_fault_and_crash() {
    let report = verification::workload_start().await.unwrap();
    println!("{report}");
    assert!(report.passed(), "{report}");
}

/// Any caller could send the signal that a workload has ended. A forged signal must not skip the request to end: else a running
/// workload is removed by force, or keeps its GPUs until the reclaim gives up.
#[test]
fn a_reclaim_waits_only_for_victims_that_it_has_asked_to_end() {
    let edges = diagram::<Eviction>().edges;
    let waited: Vec<_> = edges.iter().filter(|edge| edge.to == "Terminating").collect();

    assert!(!waited.is_empty());
    assert!(waited.iter().all(|edge| edge.from == "Evicting"), "{waited:?}");
}

/// A hold is named after its incident. A name that is too long must not make the hold fail silently.
#[tokio::test]
async fn evidence_is_held_also_for_an_incident_with_a_long_name() {
    let tenants = ["acme", "tenant-whose-name-is-rather-long", "another"].map(|name| name.parse().unwrap());
    let happening = IncidentCause::IsolationBreach { tenants: tenants.to_vec() };
    let incident = IncidentResponse::new(happening, "audit".into(), "a packet that should not be".into());

    let (store, world) = (Arc::new(Memory::new()), Arc::new(LocalWorld::new()));
    let clock = Arc::new(ManualClock::starting_at(Timestamp(1_767_225_600_000)));
    let engine = Engine::new(store.clone(), clock, simulated_platform(world));
    let engine = engine.with_workflow::<IncidentResponse>().unwrap();
    engine.start(incident, Request::by(&Person::new("ines", ["security"]))).await.unwrap();

    engine.run_until_idle().await.unwrap();

    let held = store.documents(Holds::COLLECTION, "", None, 10).await.unwrap();
    assert_eq!(held.items.len(), tenants.len());
}
