//! The property of certificates: each sentence comes from an observation in the journal, and without that observation the certificate
//! does not say it.
//!
//! A run is an offboarding in a small world with random faults, repairs and odd stores, all drawn from a seed. Its certificate is taken
//! apart into [`Statement`]s, and the sources of each are looked up in the journal. Then the run is repeated with one of the answers
//! withheld: the action is performed, no answer is recorded, and a person states the very same answer where the engine allows that.

mod journal;
mod run;
mod withheld;

use super::offboarding::{Ready, ready};
use engine::Error;
use journal::Journal;
use run::{Ended, run};
use std::collections::BTreeMap;
use withheld::Withheld;
use workflows::destruction::certificate::Statement;

/// What came of some runs.
#[derive(Clone, Debug, Default)]
pub struct SentenceReport {
    /// Runs with all answers.
    pub runs: usize,
    /// How many of them ended with a certificate.
    pub certificates: usize,
    /// Sentences of these certificates.
    pub sentences: usize,
    /// Answers that were withheld, each in a run of its own.
    pub withheld: usize,
    /// Of these: no certificate was issued.
    pub refused: usize,
    /// Of these: the certificate says something else.
    pub changed: usize,
    /// Of these: a probe answered instead, so that nothing was withheld.
    pub answered: usize,
    /// Runs without a certificate, by the state in which they ended or stopped.
    pub without: BTreeMap<String, usize>,
    /// Answers withheld, by action.
    pub by_action: BTreeMap<String, usize>,
    /// Sentences without an observation, and sentences that stayed without theirs. Empty if the property holds.
    pub violations: Vec<String>,
}

/// How many violations a report keeps.
const MAX_VIOLATIONS: usize = 50;

impl SentenceReport {
    fn violated(&mut self, what: String) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(what);
        }
    }
}

/// The worlds in which tenants leave: one on Slurm and one on Kubernetes.
#[derive(Debug)]
pub struct SentenceWorlds {
    ready: [Ready; 2],
}

impl SentenceWorlds {
    /// Onboards the tenants.
    ///
    /// # Errors
    /// When a world cannot be set up.
    pub async fn new() -> Result<Self, Error> {
        Ok(Self { ready: [ready("A100", 1).await?, ready("H100", 1).await?] })
    }

    /// Makes the run of a seed, and repeats it `withhold` times with another answer withheld.
    ///
    /// # Errors
    /// When a run cannot be set up. A property that does not hold is in the report.
    pub async fn check(&self, seed: u64, withhold: usize, report: &mut SentenceReport) -> Result<(), Error> {
        let [slurm, kubernetes] = &self.ready;
        let ready = if seed.is_multiple_of(3) { kubernetes } else { slurm };
        let base = run(ready, seed, None).await?;
        report.runs += 1;
        let Some(said) = &base.said else {
            if let Some(why) = base.failed {
                report.violated(format!("seed {seed}: {why}"));
            }
            *report.without.entry(base.rest).or_default() += 1;
            return Ok(());
        };
        report.certificates += 1;
        report.sentences += said.len();
        sources_are_in_the_journal(seed, "", said, &base.journal, report);
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(31));
        let mut answers = base.journal.answers_behind(said);
        for _ in 0..withhold.min(answers.len()) {
            let withheld = answers.swap_remove(rng.usize(..answers.len()));
            let mutated = run(ready, seed, Some(withheld.clone())).await?;
            compare(seed, said, &withheld, &mutated, report);
        }
        Ok(())
    }
}

/// Each source of each sentence is an entry of the journal, made by the action or the person itself.
fn sources_are_in_the_journal(
    seed: u64,
    without: &str,
    said: &[Statement],
    journal: &Journal,
    report: &mut SentenceReport,
) {
    for statement in said {
        let (field, text) = (statement.field(), statement.text());
        if statement.sources().is_empty() {
            report.violated(format!("seed {seed}{without}: {field} ({text}) has no source"));
        }
        for source in statement.sources().iter().filter(|source| !journal.has(source)) {
            let kind = statement.kind();
            report.violated(format!(
                "seed {seed}{without}: {field} ({text}), {kind}, should come from {source}, which is not in the journal"
            ));
        }
    }
}

/// Without the answer, no sentence that comes from it stays as it was.
fn compare(seed: u64, said: &[Statement], withheld: &Withheld, mutated: &Ended, report: &mut SentenceReport) {
    report.withheld += 1;
    *report.by_action.entry(withheld.name().to_owned()).or_default() += 1;
    let without = format!(" without {withheld}");
    if !mutated.withheld {
        report.violated(format!("seed {seed}{without}: the run did not come to it again"));
        return;
    }
    let Some(after) = &mutated.said else {
        if let Some(why) = &mutated.failed {
            report.violated(format!("seed {seed}{without}: {why}"));
        }
        report.refused += 1;
        return;
    };
    sources_are_in_the_journal(seed, &without, after, &mutated.journal, report);
    if mutated.journal.answered(withheld) {
        report.answered += 1;
        return;
    }
    let after: BTreeMap<&str, &Statement> = after.iter().map(|said| (said.field(), said)).collect();
    let stays = |said: &Statement| {
        let same = after
            .get(said.field())
            .is_some_and(|now| now.text() == said.text() && now.sources() == said.sources());
        said.sources().iter().any(|source| withheld.is(source)) && same
    };
    for stays in said.iter().filter(|said| stays(said)) {
        report.violated(format!("seed {seed}{without}: {} still says {}", stays.field(), stays.text()));
    }
    if said.iter().all(|said| after.get(said.field()).is_some_and(|now| now.text() == said.text())) {
        report.violated(format!("seed {seed}{without}: the certificate says the same"));
    }
    report.changed += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `SENTENCE_RUNS` takes another number.
    #[tokio::test]
    async fn each_sentence_of_a_certificate_comes_from_an_observation_in_the_journal() {
        let runs = std::env::var("SENTENCE_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(40);
        let worlds = SentenceWorlds::new().await.unwrap();
        let mut report = SentenceReport::default();
        for seed in 0..runs {
            worlds.check(seed, 2, &mut report).await.unwrap();
        }
        println!("{report:#?}");
        assert!(report.violations.is_empty(), "{:#?}", report.violations);
        assert!(
            report.certificates * 10 > report.runs && report.changed > 0 && report.refused > 0,
            "{report:?}"
        );
    }
}
