//! Each sentence of a certificate is derived from an observation in the journal. `cargo bench -p tests --bench sentences` makes more
//! runs.

use simulator::verification::{SentenceReport, SentenceWorlds};

const RUNS: u64 = 200;

/// I-18: in random runs with faults, repairs and unusual stores.
#[tokio::test]
async fn no_sentence_of_a_certificate_is_unchanged_without_its_observation() {
    let worlds = SentenceWorlds::new().await.unwrap();
    let mut report = SentenceReport::default();
    for seed in 0..RUNS {
        worlds.check(seed, 1, &mut report).await.unwrap();
    }
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
    assert!(report.certificates > 25 && report.changed > 10 && report.refused > 5, "{report:#?}");
}
