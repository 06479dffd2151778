//! Commands for authors of workflows: `tenure workflow verify` and `tenure reclaim cases`.
//!
//! Both need no server. Without the feature `lab`, the commands exist and return an error that names the feature.

use crate::common::Common;
#[cfg(feature = "lab")]
use crate::{common::Format, output};
#[cfg(feature = "lab")]
use engine::testing::Report;
use program::exit::{Exit, Failure};
#[cfg(feature = "lab")]
use program::files;
#[cfg(feature = "lab")]
use serde_json::{Value, json};
#[cfg(feature = "lab")]
use simulator::{reclaim_cases, verification};
use std::path::Path;

/// Verifies workflows under injected faults and reports the results.
#[cfg(feature = "lab")]
pub(crate) async fn verify(common: &Common, names: &[String]) -> Result<Exit, Failure> {
    output::note(
        "injecting every fault into every action and a crash at every commit; this takes about a minute per workflow",
    );
    let (mut all, mut sound) = (Vec::new(), true);
    for proof in proofs(names)? {
        let reports = proof.run().await?;
        for report in reports.iter().filter(|report| names.contains(&report.workflow)) {
            sound &= report.passed();
            match common.output {
                Format::Table => output::say(&format!("{report}\n"))?,
                Format::Json | Format::Yaml => all.push(shown(report)),
            }
        }
    }
    match (common.output, all.as_slice()) {
        (Format::Table, _) => {}
        (format @ (Format::Json | Format::Yaml), [one]) => output::one(format, one)?,
        (format @ (Format::Json | Format::Yaml), many) => output::one(format, &json!(many))?,
    }
    Ok(if sound { Exit::Done } else { Exit::Failed })
}

/// Returns the proofs of the named workflows, each once, before any of them runs.
#[cfg(feature = "lab")]
fn proofs(names: &[String]) -> Result<Vec<&'static verification::Proof>, Failure> {
    let mut proofs: Vec<&'static verification::Proof> = Vec::new();
    for name in names {
        let unproved = || Failure::new(Exit::NotFound, format!("workflow {name} has no proof"));
        let proof = verification::of(name).ok_or_else(unproved)?;
        if !proofs.iter().any(|known| known.workflows == proof.workflows) {
            proofs.push(proof);
        }
    }
    Ok(proofs)
}

#[cfg(feature = "lab")]
fn shown(report: &Report) -> Value {
    json!({
        "workflow": report.workflow,
        "runs": report.runs,
        "by_kind": report.by_kind,
        "actions": report.actions,
        "edges": report.edges.len(),
        "edges_taken": report.edges.intersection(&report.taken_edges).count(),
        "uncovered": report.uncovered(),
        "complaints": report.violations,
        "sound": report.passed(),
    })
}

/// Plans published cases and compares the victims.
#[cfg(feature = "lab")]
pub(crate) fn compare(common: &Common, file: &Path) -> Result<Exit, Failure> {
    let text = files::read(file)?;
    let cases =
        reclaim_cases::read(&text).map_err(|error| Failure::other(format!("{}: {error}", file.display())))?;
    if cases.is_empty() {
        return Err(Failure::other(format!("{}: has no case; write at least one", file.display())));
    }
    let (mut passed, mut failed, mut items) = (0_u64, 0_u64, Vec::new());
    for case in &cases {
        let checked = case.check();
        if checked.is_ok() {
            passed += 1
        } else {
            failed += 1
        }
        match (common.output, checked) {
            (Format::Table, Ok(())) => output::say(&format!("{} ok\n", case.id))?,
            (Format::Table, Err((expected, got))) => {
                output::say(&format!("{} WRONG expected {expected} got {got}\n", case.id))?;
            }
            (Format::Json | Format::Yaml, Ok(())) => items.push(json!({ "id": case.id, "ok": true })),
            (Format::Json | Format::Yaml, Err((expected, got))) => items
                .push(json!({ "id": case.id, "ok": false, "expected": expected, "got": got.to_string() })),
        }
    }
    match common.output {
        Format::Table => output::say(&format!("{passed} passed, {failed} failed\n"))?,
        format @ (Format::Json | Format::Yaml) => {
            let whole = json!({ "cases": items, "passed": passed, "failed": failed });
            output::one(format, &whole)?;
        }
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

#[cfg(not(feature = "lab"))]
#[allow(clippy::unused_async, reason = "with the feature it runs workflows")]
pub(crate) async fn verify(_: &Common, _: &[String]) -> Result<Exit, Failure> {
    Err(off())
}

#[cfg(not(feature = "lab"))]
pub(crate) fn compare(_: &Common, _: &Path) -> Result<Exit, Failure> {
    Err(off())
}

/// Returns the error of a program without the feature.
#[cfg(not(feature = "lab"))]
fn off() -> Failure {
    Failure::new(Exit::Usage, "this program was built without this command; build it with `--features lab`")
}
