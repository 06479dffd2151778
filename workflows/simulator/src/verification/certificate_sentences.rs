//! The property of certificates: each sentence is based on an observation in the journal, and without that observation
//! the certificate does not contain it.
//!
//! A run is an offboarding in a small scenario with random faults, repairs and unusual stores, drawn from a seed. Its
//! certificate is parsed into [`Statement`]s, and the sources of each are looked up in the journal. Then the run is
//! repeated with one answer withheld: the action is performed, no answer of it or of a probe is recorded, and an operator
//! states the same answer where the engine allows that.

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

/// The result of several runs.
#[derive(Clone, Debug, Default)]
pub struct SentenceReport {
    /// Runs with all answers.
    pub runs: usize,
    /// Runs that ended with a certificate.
    pub certificates: usize,
    /// Sentences of these certificates.
    pub sentences: usize,
    /// Answers that were withheld, each in a run of its own.
    pub withheld: usize,
    /// Withheld answers after which no certificate was issued.
    pub refused: usize,
    /// Withheld answers after which the certificate differs.
    pub changed: usize,
    /// Runs without a certificate, by the state in which they ended or stopped.
    pub without: BTreeMap<String, usize>,
    /// Answers withheld, by action.
    pub by_action: BTreeMap<String, usize>,
    /// Sentences without an observation, and sentences that remained after their observation was withheld. Empty if the
    /// property holds.
    pub violations: Vec<String>,
}

/// The largest number of violations in a report.
const MAX_VIOLATIONS: usize = 50;

impl SentenceReport {
    fn violated(&mut self, what: String) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(what);
        }
    }
}

/// The scenarios of the offboardings: one on Slurm and one on Kubernetes.
#[derive(Debug)]
pub struct SentenceWorlds {
    ready: [Ready; 2],
}

impl SentenceWorlds {
    /// Onboards the tenants.
    ///
    /// # Errors
    ///
    /// If a scenario cannot be created.
    pub async fn new() -> Result<Self, Error> {
        Ok(Self { ready: [ready("A100", 1).await?, ready("H100", 1).await?] })
    }

    /// Runs a seed, and repeats it `withhold` times with another answer withheld.
    ///
    /// # Errors
    ///
    /// If a run cannot be set up. Violations of the property are in the report.
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

/// Checks that each source of each sentence is an entry of the journal, made by the action or the person itself.
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

/// Checks that without the answer no sentence based on it is unchanged.
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

    /// `SENTENCE_RUNS` sets the number of runs.
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
