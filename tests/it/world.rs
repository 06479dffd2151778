//! The simulated platform and every action on it: idempotent, undone after any progress, and never done by a late
//! caller.

use backends::simulated::{Fault, FaultKind, LocalWorld, Script, simulated_platform};
use engine::{ActionError, Class};
use serde_json::Value;
use std::{collections::BTreeSet, sync::Arc};
use tests::actions::{
    calls::Calls,
    pairs::{Deed, Pair, pairs},
};
use workflows::platform::*;

/// One platform, with calls to act by.
struct Bench {
    world: Arc<LocalWorld>,
    platform: Platform,
    calls: Calls,
}

impl Bench {
    async fn new() -> Self {
        let world = Arc::new(LocalWorld::new());
        Self { platform: simulated_platform(world.clone()), world, calls: Calls::new().await }
    }

    fn script(&self, faults: Vec<Fault>) {
        self.world.script(Script { faults, random: None });
    }

    /// Repeats the call while it is pending.
    async fn rest(&mut self, deed: &dyn Deed, step: &str, undo: bool) -> Result<Value, ActionError> {
        for _ in 0..10 {
            let call = self.calls.next(step, undo);
            match deed.run(&self.platform, &call).await {
                Err(ActionError { class: Class::Pending { .. }, .. }) => {}
                other => return other,
            }
        }
        panic!("{} is not done after ten looks", deed.name());
    }

    /// As [`Bench::rest`], with retries after transient failures and unknown outcomes.
    async fn insist(&mut self, deed: &dyn Deed, step: &str, undo: bool) -> Value {
        for _ in 0..10 {
            match self.rest(deed, step, undo).await {
                Ok(value) => return value,
                Err(error) if error.class == Class::Permanent => panic!("{}: {error}", deed.name()),
                Err(_) => {}
            }
        }
        panic!("{} does not succeed", deed.name());
    }

    async fn prepare(&mut self, pair: &Pair) {
        for (at, deed) in pair.before.iter().enumerate() {
            self.insist(deed.as_ref(), &format!("before-{at}"), false).await;
        }
    }
}

/// How far the action got before its undo.
#[derive(Clone, Copy, Debug)]
enum Got {
    Nowhere,
    OneAttempt,
    ToTheFirstPart,
    ThenFailed,
    ThenLostItsAnswer,
    ToTheEnd,
    ToTheEndTwice,
}

impl Got {
    const ALL: [Self; 7] = [
        Self::Nowhere,
        Self::OneAttempt,
        Self::ToTheFirstPart,
        Self::ThenFailed,
        Self::ThenLostItsAnswer,
        Self::ToTheEnd,
        Self::ToTheEndTwice,
    ];

    async fn act(self, bench: &mut Bench, act: &dyn Deed) {
        let fault = |what| Fault::on(act.name(), what);
        let call = bench.calls.next("step", false);
        match self {
            Self::Nowhere => return,
            Self::OneAttempt => {}
            Self::ToTheFirstPart => bench.script(vec![fault(FaultKind::RefuseBefore).nth(2)]),
            Self::ThenFailed => bench.script(vec![fault(FaultKind::RefuseAfter)]),
            Self::ThenLostItsAnswer => bench.script(vec![fault(FaultKind::AnswerLost)]),
            Self::ToTheEnd => drop(bench.insist(act, "step", false).await),
            Self::ToTheEndTwice => {
                let once = bench.insist(act, "step", false).await;
                assert_eq!(bench.insist(act, "step", false).await, once, "{}", act.name());
            }
        }
        let _however_it_ended = act.run(&bench.platform, &call).await;
        bench.script(vec![]);
    }
}

#[tokio::test]
async fn every_undo_restores_the_platform_however_far_its_action_got() {
    let mut tried = 0;
    for got in Got::ALL {
        for undo_fault in
            [None, Some(FaultKind::FailBefore), Some(FaultKind::FailAfter), Some(FaultKind::AnswerLost)]
        {
            for pair in pairs() {
                let mut bench = Bench::new().await;
                bench.prepare(&pair).await;
                let before = bench.world.snapshot();

                got.act(&mut bench, pair.act.as_ref()).await;
                bench.script(undo_fault.map(|what| Fault::on(pair.undo.name(), what)).into_iter().collect());
                bench.insist(pair.undo.as_ref(), "step", true).await;
                bench.insist(pair.undo.as_ref(), "step", true).await;

                let what = format!("{} {got:?}, then {} {undo_fault:?}", pair.act.name(), pair.undo.name());
                assert_eq!(bench.world.snapshot(), before, "{what}");
                assert_eq!(bench.world.violations(), [""; 0], "{what}");
                tried += 1;
            }
        }
    }
    println!("{tried} ways to be undone");
}

#[tokio::test]
async fn an_undo_never_removes_the_work_of_another_step() {
    for pair in pairs() {
        let mut bench = Bench::new().await;
        bench.prepare(&pair).await;
        bench.insist(pair.act.as_ref(), "earlier", false).await;
        let before = bench.world.snapshot();
        // Setting a value has the same result as another caller's equal setting.
        let sets = ["DrainService", "NotifyBorrower", "OpenQueue", "SetGpuLayout", "TakeNode"];
        let adopts = !sets.contains(&pair.act.name()) && !pair.act.name().starts_with("Change");

        bench.insist(pair.act.as_ref(), "step", false).await;
        if adopts {
            bench.insist(pair.undo.as_ref(), "step", true).await;
        }

        assert_eq!(bench.world.snapshot(), before, "{}", pair.undo.name());
    }
}

#[tokio::test]
async fn every_action_has_one_effect_per_key_however_often_it_runs() {
    for pair in pairs() {
        let mut bench = Bench::new().await;
        bench.prepare(&pair).await;
        for (deed, undo) in [(&pair.act, false), (&pair.undo, true)] {
            let once = bench.insist(deed.as_ref(), "step", undo).await;
            let (effects, standing) = (bench.world.all_effects(), bench.world.snapshot());

            let twice = bench.insist(deed.as_ref(), "step", undo).await;

            assert_eq!(bench.world.all_effects(), effects, "{}", deed.name());
            assert_eq!(bench.world.snapshot(), standing, "{}", deed.name());
            assert!(effects.values().all(|count| *count == 1), "{}: {effects:?}", deed.name());
            assert!(undo || once == twice, "{}", deed.name());
        }
    }
}

#[tokio::test]
async fn a_lost_answer_is_found_by_the_probe_and_nothing_is_sent_again() {
    for act in ["CreateTenantKey", "CreateBucket", "PublishCredentials"] {
        let pair = pairs().into_iter().find(|pair| pair.act.name() == act).unwrap();
        let mut bench = Bench::new().await;
        bench.script(vec![Fault::on(act, FaultKind::AnswerLost)]);

        let call = bench.calls.next("step", false);
        let lost = pair.act.run(&bench.platform, &call).await.unwrap_err();
        let probe = pair.act.probe(&bench.platform, &call).await.unwrap();

        assert_eq!(lost.class, Class::Unknown, "{act}");
        assert!(matches!(probe, engine::Probe::Done(_)), "{act}: {probe:?}");
        assert_eq!(bench.world.effects(&call.key()), 1, "{act}");
    }
}

#[tokio::test]
async fn a_late_attempt_is_refused_and_leaves_nothing_after_the_undo() {
    for pair in pairs() {
        let mut bench = Bench::new().await;
        bench.prepare(&pair).await;
        let before = bench.world.snapshot();
        let late = bench.calls.next("step", false);
        bench.insist(pair.act.as_ref(), "step", false).await;
        bench.insist(pair.undo.as_ref(), "step", true).await;

        let refused = pair.act.run(&bench.platform, &late).await;

        assert_eq!(refused.map_err(|e| e.code), Err("call.fenced".to_owned()), "{}", pair.act.name());
        assert_eq!(bench.world.snapshot(), before, "{}", pair.act.name());
        assert_eq!(bench.world.refused().len(), 1, "{}", pair.act.name());
    }
}

#[tokio::test]
async fn a_node_never_has_two_owners_and_an_older_owner_epoch_is_refused() {
    let mut bench = Bench::new().await;
    let take = |tenant: &str, owner_epoch| TakeNode {
        cluster: "eu-1".into(),
        node: "n1".into(),
        tenant: tenant.into(),
        owner_epoch,
    };
    let give = |tenant: &str, owner_epoch| ReturnNode {
        cluster: "eu-1".into(),
        node: "n1".into(),
        tenant: tenant.into(),
        owner_epoch,
    };
    bench.insist(&take("acme", 5), "acme", false).await;

    let stolen = bench.rest(&take("globex", 6), "globex", false).await.unwrap_err();
    let older = bench.rest(&take("globex", 4), "globex-4", false).await.unwrap_err();
    bench.insist(&give("acme", 5), "acme", true).await;
    let spent = bench.rest(&take("acme", 5), "acme-again", false).await.unwrap_err();
    bench.insist(&give("globex", 7), "never-taken", true).await;
    let late = bench.rest(&take("globex", 7), "late", false).await.unwrap_err();
    bench.insist(&take("globex", 8), "globex-8", false).await;

    assert_eq!(stolen.code, "node.owned");
    assert_eq!([older.code, spent.code, late.code], ["node.epoch_old"; 3].map(String::from));
    assert_eq!(bench.world.owners()["eu-1/n1"].tenant.as_deref(), Some("globex"));
    assert_eq!(bench.world.violations(), [""; 0]);
    assert_eq!(bench.world.refused().len(), 4);
}

#[tokio::test]
async fn probes_report_missing_guards() {
    let mut bench = Bench::new().await;
    let probe = |kind| ProbeIsolation {
        cluster: "eu-1".into(),
        tenant: "acme".into(),
        workspace: "prod".into(),
        kind,
    };
    let kinds: Vec<IsolationKind> = <IsolationKind as strum::VariantArray>::VARIANTS.to_vec();
    for kind in &kinds {
        let open = bench.rest(&probe(*kind), "probe", false).await.unwrap_err();
        assert_eq!((open.code.as_str(), open.class), ("isolation.probe_failed", Class::Permanent));
    }

    for (at, pair) in pairs().iter().enumerate().filter(|(_, pair)| pair.before.is_empty()) {
        bench.insist(pair.act.as_ref(), &format!("step-{at}"), false).await;
    }

    for kind in &kinds {
        bench.rest(&probe(*kind), "probe", false).await.unwrap();
    }
    bench.script(vec![Fault::on("ProbeIsolation", FaultKind::ProbeFails)]);
    assert!(bench.rest(&probe(IsolationKind::ForeignImage), "probe", false).await.is_err());
}

#[tokio::test]
async fn a_scripted_fault_is_reported_with_its_code() {
    let node = || "openb-node-0007".to_owned();
    let layout = SetGpuLayout { cluster: "eu-1".into(), node: node(), profile: "all-1g.10gb".into() };
    let diagnose = DiagnoseNode { cluster: "eu-1".into(), node: node(), level: DiagnosisLevel::Medium };
    let key = CreateTenantKey { tenant: "acme".into() };
    let cases: [(&dyn Deed, FaultKind, &str, Class); 6] = [
        (&layout, FaultKind::LayoutWedged, "gpu.layout_wedged", Class::Permanent),
        (&layout, FaultKind::LayoutFails, "gpu.layout_failed", Class::Permanent),
        (&diagnose, FaultKind::NodeUnfit, "node.unfit", Class::Permanent),
        (&key, FaultKind::KeyExportable, "key.unsafe", Class::Permanent),
        (&key, FaultKind::FailBefore, "platform.unavailable", Class::Transient),
        (&key, FaultKind::AnswerLost, "platform.no_answer", Class::Unknown),
    ];
    for (deed, what, code, class) in cases {
        let mut bench = Bench::new().await;
        bench.script(vec![Fault::on(deed.name(), what)]);

        let error = bench.rest(deed, "step", false).await.unwrap_err();

        assert_eq!((error.code.as_str(), error.class), (code, class));
    }
}

/// Every later attempt finds an unsafe key of its own step, and its undo removes the key.
#[tokio::test]
async fn an_exportable_key_is_refused_and_undone() {
    let mut bench = Bench::new().await;
    bench.script(vec![Fault::on("CreateTenantKey", FaultKind::KeyExportable)]);
    let (make, destroy) =
        (CreateTenantKey { tenant: "acme".into() }, DestroyTenantKey { tenant: "acme".into() });

    let first = bench.rest(&make, "key", false).await.unwrap_err();
    let again = bench.rest(&make, "key", false).await.unwrap_err();
    bench.insist(&destroy, "key", true).await;

    assert_eq!([first.code, again.code], ["key.unsafe"; 2].map(String::from));
    assert!(bench.world.snapshot().is_empty());
}

/// Read-only actions.
const LOOKS: &[&str] = &[
    "AwaitGone",
    "DiagnoseNode",
    "ExamineNode",
    "InspectGpus",
    "ListGpuClients",
    "ObserveGpus",
    "ProbeIsolation",
    "QualifyNode",
    "ReadGpuLayout",
    "ReadLimits",
];
/// Actions without an undo, tested in `tests/it/workloads.rs`, `tests/it/quota/layers.rs` and the sweep of incidents.
const ONCE: &[&str] = &[
    "EvictWorkload",
    "ForceWorkload",
    "KeepLimits",
    "RebootNode",
    "RequeueWorkload",
    "ResetGpus",
    "SaveWork",
    "ScrubGpus",
    "StartWorkload",
];

/// The observations of offboarding, and its actions without an undo. Sweeps of their own inject every fault into them.
const LEAVING: &[&str] = &[
    "AwaitDrained",
    "AwaitIdle",
    "BeginSanitise",
    "CheckRewrap",
    "DestroyRecordKey",
    "DiagnoseRemoval",
    "EnterScrub",
    "ObserveAbsence",
    "ReadAdmission",
    "ReadDevices",
    "ReadProgress",
    "ReimageNode",
    "RemoveThing",
    "ResetMachine",
    "RewrapThing",
    "SampleDrive",
    "ScrubGpu",
    "SetAdmission",
    "ShredKey",
    "SurveyTenant",
    "VerifyAbsent",
    "VerifyNothingLeft",
];

/// Without its pair in the table an action would not be tested here.
#[test]
fn every_action_is_in_the_table_of_pairs() {
    let mut tried: BTreeSet<String> =
        LOOKS.iter().chain(ONCE).chain(LEAVING).copied().map(String::from).collect();
    for pair in pairs() {
        tried.extend([pair.act.name().to_owned(), pair.undo.name().to_owned()]);
    }
    let mut written = BTreeSet::new();
    for (_, source) in crate::layers::sources("workflows/src/platform") {
        let names = source.lines().filter_map(|line| line.strip_prefix("    const NAME: &'static str = "));
        written.extend(names.map(|name| name.trim_matches(['"', ';']).to_owned()));
    }

    assert_eq!(tried, written);
}
