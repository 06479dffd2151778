//! Reclaim, its evictions, capacity exhaustion and incidents: everything made to go wrong, and pages that say what runs.

use engine::{Workflow, check, diagram};
use std::{env, fs};
use workflows::{
    capacity_exhaustion::CapacityExhaustion, eviction::Eviction, incident_response::IncidentResponse, proof,
    reclaim::Reclaim,
};

/// Run with `BLESS=1` to write the diagrams into the pages.
#[test]
fn the_diagrams_in_the_docs_are_those_that_run() {
    drawn::<Reclaim>();
    drawn::<Eviction>();
    drawn::<CapacityExhaustion>();
    drawn::<IncidentResponse>();
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
        "run the tests with BLESS=1 and look at the difference"
    );
}

#[test]
fn every_machine_is_sound() {
    assert_eq!(check::<Reclaim>(), []);
    assert_eq!(check::<Eviction>(), []);
    assert_eq!(check::<CapacityExhaustion>(), []);
    assert_eq!(check::<IncidentResponse>(), []);
}

#[tokio::test]
async fn an_exhaustion_survives_every_single_fault() {
    let report = proof::capacity_exhaustion().await.unwrap();
    println!("{report}");
    assert!(report.passed(), "{report}");
}
