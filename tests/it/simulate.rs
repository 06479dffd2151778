//! Replays of clusters: how traces are read, and the invariants of a replay.

use crate::served::tenure;
use simulator::{Baseline, Outcome, Report, Scenario, Settings, Source, any_model, page, read, replay_all};
use std::{fs, path::PathBuf};
use strum::VariantArray as _;

/// Number of worlds that the suite replays.
const WORLDS: u64 = 100;

/// Files of public traces, used if they exist in `../shared/data` beside the repository. No row of them is part of the
/// repository.
fn data(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/data").join(name);
    fs::read_to_string(path).ok()
}

fn examples() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/examples")
}

fn scene(text: &str) -> Scenario {
    match read(text, 1).unwrap() {
        Source::Trace(trace) => Scenario::of(&trace, None, &any_model().unwrap()).unwrap(),
        Source::Scenario(scene) => *scene,
    }
}

#[test]
fn reservations_from_the_first_half_match_the_documented_computation() {
    let Some(text) = data("dlrm/disaggregated_DLRM_trace.csv") else { return };

    let scene = scene(&text);

    let (by, counted) = &scene.counts[0];
    assert_eq!(by, "application");
    assert_eq!((counted.reserved, counted.inside, counted.above), (3_263, 401, 2_549));
}

#[test]
fn a_sampled_trace_has_shares_of_every_gpu_model_that_it_requests() {
    let Some(text) = data("openb/openb_pod_list_default.csv") else { return };

    let scene = scene(&text);

    let capacity = scene.capacity();
    assert!(scene.demands.iter().all(|demand| capacity.contains_key(&demand.kind)));
    let (_, counted) = &scene.counts[0];
    assert_eq!(
        (counted.inside + counted.above) as usize,
        scene.demands.iter().filter(|d| !d.at.is_zero()).count()
    );
}

/// Two nodes, four workspaces and ten engineers: the log is always the same. Run with `BLESS=1` to write it.
#[test]
fn the_morning_peak_reclaims_the_loans_of_production() {
    let (_, outcomes) = morning_peak();

    for outcome in &outcomes {
        assert_eq!(outcome.violations, [], "{:?}", outcome.measures.baseline);
    }
    let story = format!("{}\n", outcomes[0].story.join("\n"));
    let log = examples().join("morning-peak.log");
    if std::env::var_os("BLESS").is_some() {
        fs::write(&log, &story).unwrap();
    }
    assert_eq!(fs::read_to_string(&log).unwrap_or_default(), story, "run with BLESS=1 to accept it");
}

#[test]
fn an_error_in_a_trace_has_line_column_and_remedy() {
    let text = "at_s,workspace,gpus,class\n0,research,1,batch\nnoon,research,0,fast\n";

    let invalid = read(text, 1).unwrap_err().to_string();

    assert_eq!(
        invalid,
        "line 3, column 1: `at_s`: \"noon\" is no number of seconds; write seconds since the trace begins, or leave it blank"
    );
}

/// The first occurrence fills the fleet for its hour; the second finds it as empty as the first did.
const AN_HOUR: &str = "
scenario: an hour
lasts: 1h
fleet: {nodes: 1, gpus: 8}
workspaces:
  owner: {class: production, nominal: 7}
workloads:
  - {at: 10m, workspace: owner, name: whole, gpus: 7, class: service}
  - {at: 20m, workspace: owner, name: waits, gpus: 1, lasts: 5m, class: service}
";

#[test]
fn repetitions_have_the_requested_count_and_equal_results() {
    let once = scene(AN_HOUR);
    let thrice = once.clone().repeated(3).unwrap();

    let replayed = |scene: &Scenario| {
        let outcomes = replay_all(scene, &[Settings::of(Baseline::Lending)], &|_, _| {});
        outcomes.into_iter().next().unwrap().unwrap()
    };
    let (one, three) = (replayed(&once), replayed(&thrice));

    assert_eq!(thrice.ends, once.ends * 3);
    assert_eq!(three.violations, []);
    assert_eq!((one.measures.demands, one.measures.ran), (2, 1));
    // A workload that waits for an hour behind it runs in its next time window.
    assert_eq!((three.measures.demands, three.measures.finished), (6, 5));
    assert_eq!(three.measures.gpu_hours_owned, one.measures.gpu_hours_owned * 3.0);
}

#[test]
fn too_many_repetitions_are_refused_with_a_remedy() {
    let long = scene(&AN_HOUR.replace("whole", &"w".repeat(63)));

    assert_eq!(
        long.clone().repeated(2).unwrap_err().to_string(),
        format!(
            "{}-2: with the number of its time behind it the name is longer than 64 characters; use shorter names",
            "w".repeat(63)
        )
    );
    assert_eq!(long.clone().repeated(1).unwrap(), long);
    assert_eq!(
        long.repeated(u32::MAX).unwrap_err().to_string(),
        "so often repeated it would last longer than 36525 days; repeat it less often"
    );
}

/// The report on the first example, as `tenure simulate` makes it.
fn morning_peak() -> (Scenario, Vec<Outcome>) {
    let scene = scene(&fs::read_to_string(examples().join("morning-peak.yaml")).unwrap());
    let settings: Vec<Settings> = Baseline::VARIANTS
        .iter()
        .map(|baseline| Settings { told: *baseline == Baseline::Lending, ..Settings::of(*baseline) })
        .collect();
    let outcomes = replay_all(&scene, &settings, &|_, _| {}).into_iter().map(Result::unwrap).collect();
    (scene, outcomes)
}

/// Two workspaces without quota request the same, all day, from one that lends six GPUs.
const RIVALS: &str = "
scenario: rivals
lasts: 12h
fleet: {nodes: 1, gpus: 8}
workspaces:
  lender: {class: production, nominal: 6}
  one:    {class: research, nominal: 0}
  other:  {class: research, nominal: 0}
workloads:
";

#[test]
fn equal_borrowers_differ_by_at_most_one_job() {
    let mut yaml = RIVALS.to_owned();
    for number in 0..40 {
        for workspace in ["one", "other"] {
            let job = format!("{workspace}-{number:02}");
            yaml += &format!(
                "  - {{at: {number}m, workspace: {workspace}, name: {job}, gpus: 1, lasts: 1h30m, class: batch}}\n"
            );
        }
    }

    let outcome =
        replay_all(&scene(&yaml), &[Settings::of(Baseline::Lending)], &|_, _| {}).remove(0).unwrap();

    let hours = |name: &str| outcome.parts.iter().find(|part| part.workspace == name).unwrap().borrowed;
    assert!(hours("one") > 20.0, "{:?}", outcome.parts);
    assert!((hours("one") - hours("other")).abs() <= 1.5, "{:?}", outcome.parts);
    assert_eq!(outcome.violations, []);
}

#[test]
fn no_loan_outlasts_its_term_while_a_workload_waits() {
    let yaml = format!(
        "{RIVALS}  - {{at: 0s, workspace: one, name: for-ever, gpus: 6, lasts: 12h, class: batch}}\n  - {{at: 10m, workspace: other, name: patient, gpus: 2, lasts: 1h, class: batch}}\n"
    );
    let policy = "policy: platform\nversion: 99\nlending: {classes: [research], max_duration: 2h}\n";
    let settings = Settings { policy: Some(policy.into()), told: true, ..Settings::of(Baseline::Lending) };

    let outcome = replay_all(&scene(&yaml), &[settings], &|_, _| {}).remove(0).unwrap();

    let ran = outcome.story.iter().find(|line| line.contains("patient runs")).expect("it runs");
    assert!(ran.starts_with("Mon 02:"), "within the hour after the term: {ran}");
    assert_eq!(outcome.violations, []);
}

#[test]
fn without_borrowing_there_are_no_loans_and_less_usage() {
    let (_, outcomes) = morning_peak();

    let of =
        |baseline| &outcomes.iter().find(|outcome| outcome.measures.baseline == baseline).unwrap().measures;
    let (lending, alone) = (of(Baseline::Lending), of(Baseline::NoBorrowing));
    assert_eq!((alone.gpu_hours_lent, alone.victims), (0.0, 0));
    assert!(lending.gpu_hours_lent > 0.0 && lending.utilisation > alone.utilisation);
    assert!(lending.owner_wait.longest_s > 0.0 && alone.owner_wait.longest_s == 0.0);
}

#[test]
fn the_report_page_is_self_contained() {
    let (scene, outcomes) = morning_peak();

    let page = page(&Report::of(&scene, 1, "built-in", outcomes));

    for part in ["<svg", "morning-peak", "no borrowing", "invariant violations", "chat-3"] {
        assert!(page.contains(part), "{part}");
    }
    for foreign in ["http://", "https://", "src=", "<script", "@import", "url("] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

/// `cargo bench -p tests --bench traces` replays ten thousand of them.
#[test]
fn random_scenarios_keep_every_invariant_while_calls_fail_and_victims_do_not_end() {
    let (mut victims, mut waited) = (0, 0);
    for seed in 1..=WORLDS {
        let (text, outcome) = tests::traces::run(seed);
        assert_eq!(outcome.violations, [], "seed {seed}\n{text}");
        victims += outcome.measures.victims;
        waited += outcome.measures.owner_wait.count - outcome.measures.owner_wait.at_once;
    }
    // GPUs of the pool are used first, so there are fewer victims.
    assert!(victims > WORLDS / 8 && waited > 0, "{victims} victims and {waited} waits are too few");
}

#[test]
fn the_exit_code_of_the_command_reports_violated_invariants() {
    let file = examples().join("morning-peak.yaml");
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report");

    let ran = tenure(folder.path()).arg("simulate").arg(file).arg("--report").arg(&report).output().unwrap();

    let out = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{out}");
    assert!(out.ends_with("\n0 invariant violations\n"), "{out}");
    for name in ["report.json", "report.html", "report.txt", "events.log"] {
        assert!(report.join(name).exists(), "{name}");
    }
    fs::write(folder.path().join("nothing.csv"), "a,b\n1,2\n").unwrap();
    let ran = tenure(folder.path()).args(["simulate", "nothing.csv"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
}
