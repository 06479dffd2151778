//! Offboarding, from request to certificate, and undone from every state before the pivot.

mod books;
mod closed;
mod credentials;
mod guarded;
mod holds;
mod keys;
mod leaving;
mod nodes;
mod sealed;
mod sentences;
mod stage;
mod stated;
mod vault;

use engine::{Workflow, check, diagram};
use std::{env, fs};
use workflows::offboarding::{Offboarding, node_sanitisation::NodeSanitisation};

#[test]
fn the_check_finds_no_error_in_offboarding_and_its_child() {
    assert_eq!(check::<Offboarding>(), []);
    assert_eq!(check::<NodeSanitisation>(), []);
}

/// Every action and every undo fails before and after its effect, runs twice, or loses its answer. There is a crash at
/// every commit, and a cancel and a pause between any two. Every approval gets every answer. This includes the node's
/// sanitisation.
#[tokio::test]
async fn offboarding_survives_every_fault_crash_and_interruption() {
    let report = simulator::verification::offboarding().await.unwrap();

    println!("{report}");
    assert!(report.passed(), "{report}");
}

#[tokio::test]
async fn the_sanitisation_of_a_node_survives_every_fault_crash_and_interruption() {
    let report = simulator::verification::node_sanitisation().await.unwrap();

    println!("{report}");
    assert_eq!(report.workflow, NodeSanitisation::NAME);
    assert!(report.passed(), "{report}");
}

/// Run with `BLESS=1` to write the diagrams into the pages.
#[test]
fn the_documented_diagrams_match_the_workflows() {
    drawn::<Offboarding>("offboarding");
    drawn::<NodeSanitisation>("node_sanitisation");
}

fn drawn<W: Workflow>(page: &str) {
    let path = format!("{}/../docs/workflows/{page}.md", env!("CARGO_MANIFEST_DIR"));
    let (begin, end) = ("<!-- diagram:begin -->\n", "<!-- diagram:end -->");
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once(begin).unwrap();
    let (_, tail) = rest.split_once(end).unwrap();
    let wanted =
        format!("{head}{begin}```mermaid\n{}\n```\n{end}{tail}", diagram::<W>().mermaid(None).trim_end());

    if env::var_os("BLESS").is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted, "run with BLESS=1 and review the difference");
    let table = wanted.split("## States").nth(1).unwrap();
    for state in diagram::<W>().states {
        assert!(table.contains(&format!("`{}`", state.name)), "{} is not in the table", state.name);
    }
}
