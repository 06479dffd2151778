//! Any damage of an exported file is detected, and the damaged record is named.

use super::*;
use crate::audit::export_line::{Content, END_TYPE, read, written};

fn lines(file: &str) -> Vec<String> {
    file.lines().map(ToOwned::to_owned).collect()
}

fn joined(lines: &[String]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn found(file: &str) -> Verification {
    verify(file.as_bytes(), &public())
}

/// S60.
#[tokio::test]
async fn an_export_verifies() {
    let file = exported().await;

    let found = found(&file);

    assert_eq!(found.problems, []);
    assert_eq!((found.entries, found.checkpoints.len()), (4, 2));
    assert_eq!(found.signed_by, Some(key().public_key().id()));
}

/// S60. Changes one bit of every byte.
#[tokio::test]
async fn one_changed_byte_is_refused_and_its_line_named() {
    let file = exported().await.into_bytes();
    let mut line = 1;
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= [0x01, 0x20, 0x80][at % 3];
        let found = verify(&changed, &public());
        let first = found.problems.first().map(|problem| problem.line);
        assert_eq!(first, Some(line), "byte {at} of line {line}: {:?}", found.problems);
        line += u64::from(file[at] == b'\n');
    }
}

#[tokio::test]
async fn changed_line_endings_are_reported_once() {
    let found = found(&exported().await.replace('\n', "\r\n"));

    assert_eq!(found.problems.len(), 1);
    assert!(found.problems[0].problem.contains("from LF to CRLF"), "{:?}", found.problems);
}

#[tokio::test]
async fn a_changed_record_is_named_with_its_number() {
    let file = exported().await;

    let found = found(&file.replace("order 4711", "order 4712"));

    assert_eq!(found.problems[0].record, "entry 2", "{:?}", found.problems);
}

/// S60.
#[tokio::test]
async fn a_removed_duplicated_moved_or_added_line_is_refused_and_named() {
    let all = lines(&exported().await);
    for at in 0..all.len() {
        let mut removed = all.clone();
        removed.remove(at);
        let told = found(&joined(&removed)).problems;
        assert_eq!(told.first().map(|problem| problem.line), Some(at as u64 + 1), "removed {at}: {told:?}");
        let mut doubled = all.clone();
        doubled.insert(at, all[at].clone());
        let told = found(&joined(&doubled)).problems;
        assert_eq!(told.first().map(|problem| problem.line), Some(at as u64 + 2), "doubled {at}: {told:?}");
        for other in at + 1..all.len() {
            let mut swapped = all.clone();
            swapped.swap(at, other);
            let told = found(&joined(&swapped)).problems;
            assert_eq!(
                told.first().map(|problem| problem.line),
                Some(at as u64 + 1),
                "{at} and {other}: {told:?}"
            );
        }
        for added in ["", "{}", "null"] {
            let mut longer = all.clone();
            longer.insert(at, added.into());
            let told = found(&joined(&longer)).problems;
            assert_eq!(told.first().map(|problem| problem.line), Some(at as u64 + 1), "added {at}: {told:?}");
        }
    }
}

/// S60.
#[tokio::test]
async fn a_truncated_tail_is_reported_as_such() {
    let file = exported().await;
    for cut in 0..file.len() {
        let told = found(&file[..cut]).problems;
        assert!(told.iter().any(|problem| problem.problem.contains("cut off")), "at {cut}: {told:?}");
    }
    let told = found(&format!("{file}\n")).problems;
    assert!(told[0].problem.contains("must be the last line"), "{told:?}");
}

/// Rewrites the file so that each line has a valid digest. `change` returns `None` to remove a line.
fn forged(file: &str, mut change: impl FnMut(Content) -> Option<Content>) -> String {
    let mut out = String::new();
    let mut line = 0;
    for text in file.lines() {
        let was = read(text.as_bytes()).unwrap();
        if let Some(content) = change(was.content) {
            line += 1;
            out.push_str(&written(content, was.by, line));
        }
    }
    out
}

#[tokio::test]
async fn a_changed_entry_with_a_matching_digest_is_named_by_the_next_entry() {
    let file = exported().await;
    for number in 1..=4 {
        let told = found(&forged(&file, |content| {
            Some(match content {
                Content::Entry(mut entry) if entry.number == number => {
                    entry.actor = "mallory".into();
                    Content::Entry(entry)
                }
                other => other,
            })
        }))
        .problems;
        assert_eq!(told[0].record, format!("entry {number}"), "{told:?}");
    }
}

#[tokio::test]
async fn a_resealed_chain_does_not_match_its_signed_checkpoints() {
    let file = exported().await;
    let mut previous = None;
    let told = found(&forged(&file, |content| {
        Some(match content {
            Content::Entry(mut entry) => {
                if entry.number == 2 {
                    entry.says = "bob refused the plan".into();
                }
                entry.previous = previous.clone();
                previous = Some(entry.digest());
                Content::Entry(entry)
            }
            other => other,
        })
    }))
    .problems;
    assert_eq!(told[0].record, "entry 2", "{told:?}");
    assert!(told[0].problem.contains("checkpoint 1"), "{told:?}");
}

#[tokio::test]
async fn omitted_entries_are_detected_even_if_they_are_renumbered() {
    let file = exported().await;
    let left_out = |wanted: fn(&Content) -> bool| {
        found(&forged(&file, |content| Some(content).filter(|content| !wanted(content)))).problems
    };
    let told = left_out(|content| matches!(content, Content::Entry(entry) if entry.number == 2));
    let missed =
        |problem: &Problem| problem.record == "entry 3" && problem.problem.contains("the place of entry 2");
    assert!(told.iter().any(missed), "{told:?}");
    let told = left_out(|content| matches!(content, Content::Entry(entry) if entry.number > 2));
    assert!(!told.is_empty());
    let told = left_out(|content| matches!(content, Content::Checkpoint(_)));
    assert!(told.iter().any(|problem| problem.problem.contains("signed over other lines")), "{told:?}");
}

#[tokio::test]
async fn another_key_verifies_nothing() {
    let file = exported().await;
    let other = SigningKey::from_seed([8; 32]).unwrap().public_key();

    let told = verify(file.as_bytes(), &[other]).problems;

    let named: Vec<&str> = told.iter().map(|problem| problem.record.as_str()).collect();
    assert_eq!(named, ["checkpoint 1", "checkpoint 2", "the end"]);
    assert!(told[0].problem.contains("is not trusted"));
    assert!(!verify(file.as_bytes(), &[]).is_valid());
}

#[tokio::test]
async fn a_signature_of_one_payload_is_invalid_for_every_other() {
    let file = exported().await;
    let end = read(file.lines().last().unwrap().as_bytes()).unwrap();
    let Content::End(end_says) = end.content else { panic!("the last line is the end") };
    let by = end.by.unwrap();
    let trusted = key().public_key();
    assert!(crate::audit::checkpoint::fits(END_TYPE, &end_says, &by, &trusted));
    assert!(!crate::audit::checkpoint::fits(
        "application/vnd.tenure.certificate+json",
        &end_says,
        &by,
        &trusted
    ));
}

#[test]
fn the_parser_never_panics() {
    for bytes in [&b""[..], b"\n", b"\n\n", b"{", b"\xFF\n", b"{}\n", b"null\n", b"[]\n", b"{\"line\":1}\n"] {
        assert!(!verify(bytes, &public()).is_valid(), "{bytes:?}");
    }
}
