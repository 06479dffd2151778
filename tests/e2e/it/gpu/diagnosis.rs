//! How reports of GPU diagnosis programs are read.

use super::bench::{Bench, CLUSTER, NODE, Stamps};
use engine::{ActionError, Class};
use serde_json::json;
use std::{env, fs, os::unix::fs::PermissionsExt as _, path::PathBuf, time::Duration};
use workflows::platform::{Diagnosis, DiagnosisLevel, Gpus};

const RECIPE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/recipes/dcgm/diagnosis.sh");

/// Writes a program into the folder of these GPUs.
fn program(bench: &Bench, name: &str, text: &str) -> PathBuf {
    let path = bench.folder.join(name);
    fs::write(&path, format!("#!/usr/bin/env bash\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Returns the result of a program with this text.
async fn said(text: &str, level: DiagnosisLevel) -> Result<Diagnosis, ActionError> {
    let (bench, mut stamps) = (Bench::one(json!({})), Stamps::new().await);
    let program = program(&bench, "program", text);
    let mut stamp = stamps.next("look");
    stamp.deadline = Duration::from_secs(5);
    bench.node_with(json!({ "diagnosis": program })).diagnose(CLUSTER, NODE, level, &stamp).await
}

#[tokio::test]
async fn a_diagnosis_program_reports_if_gpus_are_fit_and_why() {
    let fit = said("echo tested $1; exit 0", DiagnosisLevel::Medium).await.unwrap();
    assert_eq!(fit, Diagnosis { fit: true, report: "tested medium".into() });
    let unfit = said("echo GPU 0: memory; exit 1", DiagnosisLevel::Long).await.unwrap();
    assert_eq!(unfit, Diagnosis { fit: false, report: "GPU 0: memory".into() });
    let mute = said("echo broken >&2; exit 1", DiagnosisLevel::Long).await.unwrap();
    assert_eq!(mute.report, "it said nothing: broken");
    let long = said("head -c 100000 /dev/zero | tr '\\0' x", DiagnosisLevel::Long).await.unwrap();
    assert!(long.fit && long.report.len() < 5_000 && long.report.ends_with("x […]"), "{}", long.report.len());
}

#[tokio::test]
async fn a_program_with_another_exit_code_gives_no_verdict_about_gpus() {
    for text in ["echo fine; exit 2", "exit 69", "exit 127", "kill -9 $$", "sleep 60"] {
        let error = said(text, DiagnosisLevel::Medium).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.class), ("platform.unavailable", Class::Transient), "{text}");
        assert!(error.message.contains("nothing is known"), "{text}: {}", error.message);
    }
}

#[tokio::test]
async fn without_a_program_there_is_no_diagnosis_but_a_remedy() {
    let (bench, mut stamps) = (Bench::one(json!({})), Stamps::new().await);
    for settings in
        [json!({}), json!({ "diagnosis": "/nowhere/dcgm.sh" }), json!({ "diagnosis": "/etc/passwd" })]
    {
        let node = bench.node_with(settings.clone());
        let error =
            node.diagnose(CLUSTER, NODE, DiagnosisLevel::Medium, &stamps.next("look")).await.unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.class),
            ("platform.unsupported", Class::Permanent),
            "{settings}"
        );
    }
}

/// The output of `dcgmi diag -j` of these versions for some tests, reduced to the fields that are read.
fn dcgm(version: u8, statuses: &[&str]) -> String {
    let result = |status: &&str| match version {
        3 => json!({ "gpu_id": "0", "status": status }),
        _ => json!({ "entity_group": "GPU", "entity_id": 0, "status": status }),
    };
    let results: Vec<_> = statuses.iter().map(result).collect();
    let key = if version == 3 { "DCGM GPU Diagnostic" } else { "DCGM Diagnostic" };
    let tests = json!([{ "name": "memory", "results": results }]);
    let told = json!({ key: { "test_categories": [{ "category": "Hardware", "tests": tests }] } });
    serde_json::to_string_pretty(&told).unwrap()
}

#[tokio::test]
async fn the_recipe_for_dcgm_distinguishes_fit_unfit_and_untested_gpus() {
    for version in [3, 4] {
        for (statuses, code, ends) in [
            (&["Pass", "Pass", "Skip"][..], 0, 0),
            (&["Pass", "Warn"], 0, 0),
            (&["Pass", "Fail"], 226, 1),
            (&["Pass", "Fail"], 0, 1),
            // Nothing was tested.
            (&["Skip", "Skip"], 0, 69),
            (&[], 0, 69),
            // It was aborted.
            (&["Pass"], 255, 69),
        ] {
            let bench = Bench::one(json!({}));
            let told = dcgm(version, statuses);
            program(
                &bench,
                "dcgmi",
                &format!("echo \"$*\" >>{}/asked\ncat <<'J'\n{told}\nJ\nexit {code}", bench.folder.display()),
            );
            let path = format!("{}:{}", bench.folder.display(), env::var("PATH").unwrap());
            let ran = std::process::Command::new(RECIPE).arg("medium").env("PATH", path).output().unwrap();
            assert_eq!(ran.status.code(), Some(ends), "{version} {statuses:?} {code}: {ran:?}");
            let report = String::from_utf8(ran.stdout).unwrap();
            assert!(ends == 69 || report.contains("memory"), "{report}");
            assert_eq!(fs::read_to_string(bench.folder.join("asked")).unwrap(), "diag -r 2 -j\n");
        }
    }
}
