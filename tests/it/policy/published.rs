//! A policy from the command line: tested, compared, published, explained. Against a real server.

use crate::served::{Served, large};
use std::fs;
use workflows::policy::PlatformPolicy;

fn written(served: &Served, name: &str, text: &str) -> String {
    let path = served.dir.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_policy_is_published_and_earlier_decisions_keep_their_version() {
    let served = Served::with_nodes().await;
    let asked = served.run(&[
        "tenant",
        "onboard",
        "-f",
        &written(&served, "acme.yaml", &large("acme")),
        "--wait",
        "-o",
        "json",
    ]);
    assert_eq!(asked.exit, 10, "{asked:?}");
    let id = asked.json()["id"].as_str().unwrap().to_owned();
    let text = "policy: platform\nversion: 3\nself_service: {max_gpus: 4}\nwaits: {waitlist: 10d}\n\
                examples:\n  - name: five GPUs ask people\n    request:\n      name: lab\n      \
                tenant: {tier: research, isolation: dedicated, data_residency: any, allow_preemption: true, allow_gpu_sharing: false}\n      \
                entitlement: {gpu_model: H100, gpus: 5}\n    expect: {verdict: needs_approval}\n";
    let file = written(&served, "three.yaml", text);

    let planned = served.run(&["policy", "publish", &file, "--dry-run"]);
    assert_eq!(planned.exit, 0, "{planned:?}");
    for part in [
        "version 3 replaces 2; 1 examples passed",
        "# narrower: less is served without people\n- self_service.max_gpus: 8\n+ self_service.max_gpus: 4\n",
        "1 open executions keep the terms",
        &id,
        "nothing was changed",
    ] {
        assert!(planned.out.contains(part), "{part}: {}", planned.out);
    }
    assert!(!planned.out.contains("reclaim.deadline"), "omitted keys are unchanged: {}", planned.out);
    let current = served.run(&["policy", "show", "-o", "json"]).json();
    assert_eq!((current["id"].as_u64(), current["in_force"].as_bool()), (Some(2), Some(true)));

    let published = served.run(&["policy", "publish", &file]);
    assert!(published.exit == 0 && published.out.contains("published"), "{published:?}");
    let history = served.run(&["policy", "history", "-o", "json"]).json();
    assert_eq!(history.as_array().unwrap().len(), 1);
    assert_eq!((history[0]["version"].as_u64(), history[0]["before"].as_u64()), (Some(3), Some(2)));
    assert_eq!(history[0]["author"], "admin");
    assert!(history[0]["effective_from"].as_str().unwrap().contains('T'));
    assert_eq!(served.run(&["policy", "show"]).out, text, "byte for byte");

    let ada = served.user("ada", &["platform_ops"], None).await;
    let approved = served.run(&["--token", &ada, "approvals", "approve", &id]);
    assert_eq!(approved.exit, 0, "{approved:?}");
    assert_eq!(served.run(&["executions", "wait", &id]).exit, 0);
    let tenant = served.run(&["tenants", "show", "acme", "-o", "json"]).json();
    assert_eq!(tenant["policy"]["version"], 2, "decided before");
    let rules = served.run(&["policy", "explain", "acme", "-o", "json"]).json();
    let find =
        |rule: &str| rules.as_array().unwrap().iter().find(|row| row["rule"] == rule).cloned().unwrap();
    assert_eq!(
        (find("self_service")["by"]["version"].as_u64(), find("self_service")["by"]["line"].as_u64()),
        (Some(3), Some(3))
    );
    assert_eq!(find("reclaim.deadline")["by"]["version"], 2, "omitted, so the line of the built-in version");
}

#[tokio::test]
async fn an_invalid_policy_is_refused_and_publishing_needs_permission() {
    let served = Served::start();
    let three = "policy: platform\nversion: 3\n";
    let failing = format!(
        "{three}examples:\n  - {{name: slices, guard: {{change_mig: {{busy: 1}}}}, expect: {{verdict: safe}}}}\n"
    );
    let (plain, failing) =
        (written(&served, "plain.yaml", three), written(&served, "failing.yaml", &failing));
    let used = written(&served, "used.yaml", &PlatformPolicy::BUILT_IN.replace("grace: 2m", "grace: 1m"));
    let wrong = written(&served, "wrong.yaml", &format!("{three}reclaim: {{deadline: 1m}}\n"));

    for (file, code) in
        [(&failing, "policy.examples_fail"), (&used, "policy.version_exists"), (&wrong, "line 3")]
    {
        let ran = served.run(&["policy", "publish", file, "-o", "json"]);
        assert_eq!((ran.exit, ran.err.contains(code)), (1, true), "{ran:?}");
    }
    let otto = served.user("otto", &["finance"], None).await;
    assert_eq!(served.run(&["--token", &otto, "policy", "publish", &plain]).exit, 4);
    let tested = served.run(&["policy", "test", &failing]);
    assert_eq!(tested.exit, 1, "{tested:?}");
    assert!(
        tested.out.contains("slices WRONG expected safe got blocked because guard.mig_change_on_busy_gpu"),
        "{}",
        tested.out
    );
    assert!(tested.out.ends_with("0 passed, 1 failed\n"), "{}", tested.out);
    assert_eq!(served.run(&["policy", "history", "-o", "json"]).json().as_array().unwrap().len(), 0);
}

#[tokio::test]
async fn the_built_in_policy_is_tested_and_explained_without_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| crate::served::Ran::of(crate::served::tenure(dir.path()).args(arguments));
    fs::write(dir.path().join("policy.yaml"), PlatformPolicy::BUILT_IN).unwrap();
    fs::write(dir.path().join("acme.yaml"), large("acme")).unwrap();

    let tested = run(&["policy", "test", "policy.yaml"]);
    assert_eq!(tested.exit, 0, "{tested:?}");
    assert!(tested.out.starts_with("a small research tenant needs nobody ok\n"), "{}", tested.out);
    let explained = run(&["policy", "explain", "acme.yaml", "-f", "policy.yaml"]);
    assert_eq!(explained.exit, 0, "{explained:?}");
    let line = explained.out.lines().find(|line| line.contains("reclaim.deadline")).unwrap();
    assert!(line.contains("platform") && line.contains("lent GPUs are back within 15m"), "{line}");
    assert!(explained.out.lines().any(|line| line.contains("tenant.tier") && line.contains("request")));
    assert_eq!(run(&["policy", "check", "policy.yaml"]).exit, 0);
}
