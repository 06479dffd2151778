//! Open executions in every condition move between stores.

use super::options;
use strum::VariantArray as _;
use tests::campaigns::{errands::Kind, moving};

/// They end like an unmoved twin: in the same states, by the same paths, with the same external effects, and nothing
/// done twice. This also holds for executions that moved back half way. The bench `moving` does the same with 10,000.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn executions_in_every_phase_can_be_moved_and_end_unchanged() {
    let Some(options) = options() else { return };
    let dir = tempfile::tempdir().unwrap();

    let moved = moving::run(dir.path(), &options, 100).await;

    println!("{moved}");
    assert!(moved.wrong.is_empty(), "{moved}");
    for kind in Kind::VARIANTS {
        let there = moved.conditions.get(kind).copied().unwrap_or(0);
        let expected = if *kind == Kind::Child { 20 } else { 10 };
        assert_eq!(there, expected, "{kind:?}: {moved}");
    }
    assert_eq!(moved.in_flight, 10, "{moved}");
    assert_eq!(moved.executions, 120);
    let ends: Vec<_> = moved.ends.keys().map(String::as_str).collect();
    assert!(ends.iter().all(|end| end.contains(" finished ")), "{ends:?}");
    assert!(["completed", "refused", "rolled_back"].iter().all(|end| ends.iter().any(|e| e.ends_with(end))));
}
