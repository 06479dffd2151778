//! Scenarios for the quota workflows: an onboarded tenant and all injected faults.

use super::onboarding::{GIVEN, LEDGER, matter, unlisted};
use backends::simulated::{Fault, FaultKind, LocalWorld, Script, local_world, simulated_platform};
use engine::{
    ActionError, Engine, Entity, Error, ManualClock, Person, Request as Asked, Undecided, View, Workflow,
    testing::{Report, Scenario, World, verify},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, sync::Arc};
use store::{Key, Memory, Put, Store as _, Timestamp};
use workflows::{
    fleet::{import_nodes, import_sites, parse_nodes, parse_sites},
    onboarding::Onboarding,
    platform::Platform,
    policy::{Invalid, OnboardingRequest, PlatformPolicy, publish},
    quota_change::{QuotaRequest, decrease::QuotaDecrease, increase::QuotaIncrease},
    sla_change::{SlaChange, SlaRequest},
    tenancy::{Cohort, Earmarks, NameError, NodeAllocation, Quota},
};

const SITES: &str = "
regions: [{id: eu-west, jurisdiction: eu}]
clusters:
  - {id: west-1, region: eu-west}
  - {id: slurm-1, region: eu-west, kind: slurm}
";
const NODES: [(&str, &str); 2] = [
    ("west-1", "w-0,96000,786432,4,H100\nw-1,96000,786432,4,H100\n"),
    ("slurm-1", "s-0,96000,786432,4,A100\ns-1,96000,786432,4,A100\ns-2,96000,786432,4,A100\n"),
];
/// The time of the onboarding, before the start of the runs.
const BEGIN: Timestamp = Timestamp(1_767_200_000_000);

/// Verifies quota increase with all faults of the engine, in scenarios that together reach all its paths.
///
/// # Errors
///
/// If a scenario cannot be created.
pub async fn quota_increase() -> Result<Report, Error> {
    let begin = |model, asks| Ok::<_, Error>(QuotaIncrease::new(request(model, asks)?));
    let exception = "by: 4\nuntil: 2026-02-01T00:00:00Z\nexception: true";
    let cases = [
        Case {
            name: "slurm, a node is missing, with approval",
            policy: ("waitlist: 30d", "waitlist: 30m"),
            ..Case::usual("A100", begin("A100", exception)?)
        },
        Case { name: "more than there is", ..Case::usual("A100", begin("A100", "by: 400")?) },
        Case {
            name: "slurm, the node is unfit and replaced",
            unfit: "s-1",
            ..Case::usual("A100", begin("A100", exception)?)
        },
        Case {
            name: "slurm, the node is unfit and not replaced",
            policy: ("max_replacements: 3", "max_replacements: 0"),
            unfit: "s-1",
            ..Case::usual("A100", begin("A100", exception)?)
        },
        Case { name: "kubernetes, automatic", ..Case::usual("H100", begin("H100", "by: 1")?) },
    ];
    swept(&cases).await
}

/// Verifies quota decrease with all faults of the engine, in scenarios that together reach all its paths.
///
/// # Errors
///
/// If a scenario cannot be created.
pub async fn quota_decrease() -> Result<Report, Error> {
    let begin = |model, asks| Ok::<_, Error>(QuotaDecrease::new(request(model, asks)?));
    let cases = [
        Case {
            name: "slurm, with approval",
            policy: ("waitlist: 30d", "waitlist: 30m"),
            ..Case::usual("A100", begin("A100", "to: 1\nlending_limit: 0")?)
        },
        Case { name: "more than there is", ..Case::usual("A100", begin("A100", "by: 400")?) },
        Case { name: "kubernetes, automatic", ..Case::usual("H100", begin("H100", "by: 1")?) },
    ];
    swept(&cases).await
}

/// Verifies SLA change with all faults of the engine, in scenarios that together reach all its paths.
///
/// # Errors
///
/// If a scenario cannot be created.
pub async fn sla_change() -> Result<Report, Error> {
    let begin = |changes: &str| {
        let text = format!("tenant: acme\nreason: a new contract\n{changes}\n");
        SlaRequest::from_yaml(&text).map(SlaChange::new).map_err(wrong)
    };
    let cases = [
        Case {
            name: "slurm, another tier",
            policy: ("waitlist: 30d", "waitlist: 30m"),
            ..Case::usual("A100", begin("tier: enterprise")?)
        },
        Case { name: "nothing changes", ..Case::usual("A100", begin("tier: research")?) },
        Case {
            name: "kubernetes, preemption is no longer allowed",
            ..Case::usual("H100", begin("allow_preemption: false\nnot_before: 2026-01-02T00:00:00Z")?)
        },
        Case {
            name: "kubernetes, preemption is allowed",
            preemption: false,
            ..Case::usual("H100", begin("allow_preemption: true")?)
        },
        Case {
            name: "kubernetes, slices",
            ..Case::usual("H100", begin("isolation: shared_slices\nallow_gpu_sharing: true")?)
        },
    ];
    swept(&cases).await
}

fn request(model: &str, asks: &str) -> Result<QuotaRequest, Error> {
    let text =
        format!("tenant: acme\nworkspace: research\nresource: gpu/{model}\nreason: a benchmark\n{asks}\n");
    QuotaRequest::from_yaml(&text).map_err(wrong)
}

/// A request of a tenant with four GPUs, of which two are assigned.
struct Case<W> {
    name: &'static str,
    model: &'static str,
    policy: (&'static str, &'static str),
    unfit: &'static str,
    preemption: bool,
    data: W,
}

impl<W> Case<W> {
    fn usual(model: &'static str, data: W) -> Self {
        Self { name: "", model, policy: ("", ""), unfit: "", preemption: true, data }
    }
}

async fn swept<W: Workflow<Platform = Platform>>(cases: &[Case<W>]) -> Result<Report, Error> {
    let mut worlds = Vec::new();
    for case in cases {
        worlds.push(case.set().await?);
    }
    let scenes: Vec<&dyn Scenario<W>> = worlds.iter().map(|world| world as &dyn Scenario<W>).collect();
    verify(&scenes).await
}

/// A case with its platform and documents.
struct QuotaScene<W> {
    name: &'static str,
    data: W,
    world: LocalWorld,
    documents: Vec<Put>,
    unfit: &'static str,
}

fn wrong(invalid: Invalid) -> Error {
    Error::Undecided(ActionError::permanent("policy.invalid", invalid))
}

fn collections() -> Vec<&'static str> {
    LEDGER.into_iter().chain([Cohort::COLLECTION, Earmarks::COLLECTION]).collect()
}

impl<W: Workflow<Platform = Platform>> Case<W> {
    async fn set(&self) -> Result<QuotaScene<W>, Error> {
        let borrowing = if self.preemption { 1 } else { 0 };
        let text = format!(
            "name: acme\ntenant: {{tier: research, isolation: dedicated, data_residency: eu-only, \
             allow_preemption: {}, allow_gpu_sharing: false}}\n\
             workspaces: [{{name: research, class: research, \
             quotas: {{gpus: 2, borrowing_limit: {borrowing}, lending_limit: 1}}}}]\n\
             entitlement: {{gpu_model: {}, gpus: 4}}\n",
            self.preemption, self.model
        );
        let store = Arc::new(Memory::new());
        let clock = Arc::new(ManualClock::starting_at(BEGIN));
        let engine = Engine::new(store.clone(), clock, simulated_platform(Arc::new(LocalWorld::new())));
        let engine = engine
            .with_workflow::<Onboarding>()
            .map_err(|e| Error::Undecided(ActionError::permanent("engine.kind", e)))?;
        engine.transact(true, |view| self.given(view)).await?;
        let onboarding = Onboarding::new(OnboardingRequest::from_yaml(&text).map_err(wrong)?, None);
        engine.start(onboarding, Asked::by(&Person::new("seller", ["platform_ops"]))).await?;
        engine.run_until_idle().await?;
        let mut documents = Vec::new();
        for collection in collections().into_iter().chain(GIVEN) {
            let found = store.documents(collection, "", None, 10_000).await?;
            documents
                .extend(found.items.into_iter().map(|found| Put { key: found.key, body: Some(found.body) }));
        }
        let world = local_world(engine.platform()).map(LocalWorld::fork).unwrap_or_default();
        let (name, data, unfit) = (self.name, self.data.clone(), self.unfit);
        Ok(QuotaScene { name, data, world, documents, unfit })
    }

    /// Writes the fleet and the policy.
    fn given(&self, view: &mut View) -> Result<(), Undecided> {
        let wrong = |invalid: Invalid| ActionError::permanent("policy.invalid", invalid);
        import_sites(view, &parse_sites(SITES).map_err(wrong)?)?;
        for (cluster, rows) in NODES {
            let name = |e: NameError| ActionError::permanent("name.invalid", e);
            let rows = parse_nodes(&format!("sn,cpu_milli,memory_mib,gpu,model\n{rows}")).map_err(wrong)?;
            let (cluster, region) = (cluster.parse().map_err(name)?, "eu-west".parse().map_err(name)?);
            import_nodes(view, &rows, &cluster, &region)?;
        }
        let (from, to) = self.policy;
        if !from.is_empty() {
            let text = PlatformPolicy::amended(&[(from, to)]).unwrap_or_default();
            publish(view, &text, "verify")?;
        }
        Ok(())
    }
}

impl<W: Workflow<Platform = Platform>> Scenario<W> for QuotaScene<W> {
    fn name(&self) -> String {
        self.name.into()
    }

    fn data(&self) -> W {
        self.data.clone()
    }

    fn world(&self) -> World<Platform> {
        let world = self.world.fork();
        if !self.unfit.is_empty() {
            let unfit = Fault::on("DiagnoseNode", FaultKind::NodeUnfit).named(self.unfit).times(0);
            world.script(Script { faults: vec![unfit], random: None });
        }
        let platform = simulated_platform(Arc::new(world));
        World { platform, documents: self.documents.clone(), collections: collections() }
    }

    fn snapshot(&self, platform: &Platform, documents: &BTreeMap<Key, Value>) -> BTreeMap<String, Value> {
        let mut all = local_world(platform).map(LocalWorld::snapshot).unwrap_or_default();
        all.extend(
            documents.iter().filter_map(|(key, body)| Some((format!("ledger {key}"), granted(key, body)?))),
        );
        all.insert("ledger lists what is free".into(), unlisted(documents));
        all
    }

    fn violations(&self, platform: &Platform) -> Vec<String> {
        let Some(world) = local_world(platform) else { return Vec::new() };
        let mut wrong = world.violations();
        wrong.extend(loosened(&world.limits_log()));
        wrong
    }
}

/// Returns the part of a document that is compared after a run, without revisions and authors.
fn granted(key: &Key, body: &Value) -> Option<Value> {
    if key.collection == NodeAllocation::COLLECTION {
        // A node that was found unfit stays quarantined, whatever the result of the change.
        return body.get("nodes").cloned();
    }
    if key.collection == Cohort::COLLECTION {
        let lines = |account: &Value| {
            let balances = account.get("balances")?.as_object()?;
            let lines = balances.iter().map(|(name, balance)| json!([name, balance.get("allowance")]));
            Some(json!([lines.collect::<Vec<_>>(), account.get("admitting")]))
        };
        let accounts = body.get("accounts")?.as_object()?;
        return Some(accounts.iter().map(|(name, account)| json!([name, lines(account)])).collect());
    }
    if key.collection != Quota::COLLECTION {
        return matter(key, body);
    }
    let mut body = body.clone();
    for name in ["version", "set_by"] {
        body.as_object_mut()?.remove(name);
    }
    Some(body)
}

/// a child is never less strict than its parent, wherever the run stops. The namespace's hard limit never exceeds
/// the queue with its borrowing limit, and the queue never exceeds the cohort's record.
fn loosened(log: &[(String, Value)]) -> Vec<String> {
    let mut found = Vec::new();
    let (mut cohort, mut queue, mut hard) = (None, None, None);
    for (address, spec) in log {
        let number = |pointer: &str| spec.pointer(pointer).and_then(Value::as_u64);
        if address.contains("/Cohort/") {
            cohort = number("/quotas/research~1gpu~1H100");
        } else if address.contains("/ClusterQueue/") {
            let nominal = number("/resourceGroups/0/nominalQuota");
            let more = number("/resourceGroups/0/borrowingLimit").unwrap_or(u64::MAX);
            queue = nominal.map(|nominal| (nominal, nominal.saturating_add(more)));
        } else if address.contains("/ResourceQuota/") {
            hard = number("/hard/requests.nvidia.com~1gpu");
        }
        if let (Some(cohort), Some((nominal, _))) = (cohort, queue)
            && nominal > cohort
        {
            found.push(format!("the queue has {nominal}, and the cohort {cohort}"));
        }
        if let (Some((_, most)), Some(hard)) = (queue, hard)
            && hard > most
        {
            found.push(format!("the namespace may hold {hard}, and the queue gives {most}"));
        }
    }
    found.dedup();
    found
}
