//! Commands for those who work on workflows: `tenure workflow verify` and `tenure reclaim cases`.
//!
//! Both need no server. A program that was built without the feature `lab` knows the commands and says how to get them.

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

/// Runs the sweeps; the numbers are the answer. Each workflow registers, so it has passed the static check.
#[cfg(feature = "lab")]
pub(crate) async fn verify(common: &Common, names: &[String]) -> Result<Exit, Failure> {
    output::note(
        "every action is made to go wrong in every way, with a crash at every commit; this takes a minute each",
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

/// The proofs of the workflows of these names, each once, before any of them runs.
#[cfg(feature = "lab")]
fn proofs(names: &[String]) -> Result<Vec<&'static verification::Proof>, Failure> {
    let mut proofs: Vec<&'static verification::Proof> = Vec::new();
    for name in names {
        let unproved = || Failure::new(Exit::NotFound, format!("there is no proof of workflow {name}"));
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
        return Err(Failure::other(format!("{}: it holds no case; write at least one", file.display())));
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

/// This program was built without the feature.
#[cfg(not(feature = "lab"))]
fn off() -> Failure {
    Failure::new(Exit::Usage, "this tenure was built without it: build it with `--features lab`")
}
