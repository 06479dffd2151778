//! A history of a tenant's account, and the effect of each event.

use super::{NAMES, events::Event};
use engine::{ActionError, Undecided, View};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::ExecutionId;
use tests::books::account::{self, World, tenant, workspace};
use workflows::{
    scheduling::admission::{
        self, AdmissionEffects, Allowances, Fence, FenceOutcome, GrantOutcome, ReclaimDemand, VictimExit,
        WorkloadRequest,
    },
    tenancy::*,
};

fn by(n: u8) -> ExecutionId {
    ExecutionId::from_bytes([n; 16])
}

fn node(n: u32) -> NodeId {
    format!("n-{n:04}").parse().unwrap()
}

/// A history in progress, of a tenant whose workspaces use one kind: whole GPUs, or slices of one profile.
pub(super) struct History {
    pub(super) world: World,
    pub(super) kind: Resource,
    submitted: u32,
    reclaims: u8,
    /// True if the tenant has entitlements, so that it has a pool.
    pub(super) buys: bool,
    /// The use of each workload, counted independently of the account: GPU-milliseconds.
    pub(super) spent: u64,
}

impl History {
    pub(super) fn new(kind: Resource) -> Self {
        let mut world = World::new(4);
        let owned = [(8, None, None), (8, Some(8), Some(4)), (8, Some(4), None), (4, None, Some(0))];
        for (name, (nominal, borrowing, lending)) in NAMES.into_iter().zip(owned) {
            world.allow(name, WorkspaceClass::Batch, may_use(&kind, nominal, borrowing, lending));
        }
        Self { world, kind, submitted: 0, reclaims: 0, buys: false, spent: 0 }
    }

    /// The same with slices: one GPU of each node is cut into seven.
    pub(super) fn sliced(sharing: bool) -> Self {
        let mut history = Self::new("gpu/H100/1g.10gb".parse().unwrap());
        let shared = |view: &mut View| {
            let tenant = view.require::<Tenant>("acme")?;
            view.put(&Tenant { allow_gpu_sharing: sharing, ..tenant })
        };
        history.world.decide(shared).unwrap();
        for n in 0..4 {
            history.happen(&Event::Cut(n, 0, true), false).unwrap();
        }
        history.world.see();
        history
    }

    /// Returns the same account with an entitlement of `count` GPUs; zero adds no entitlement.
    pub(super) fn bought(mut self, count: u32) -> Self {
        if count > 0 {
            self.buys = true;
            self.world.buy(count);
            self.happen(&Event::Pass(1), false).unwrap();
        }
        self
    }

    /// The same, with a last workspace that has borrowed everything. Few random histories get there, and without it there is no
    /// reclaim.
    pub(super) fn lent(mut self, lent: bool) -> Self {
        let (preemptible, service) = (true, false);
        let borrows = Event::Submit { workspace: 3, gpus: 2, together: 0, preemptible, service, priority: 0 };
        for _ in (0..12).filter(|_| lent) {
            self.happen(&borrows, false).unwrap();
        }
        self
    }

    fn balance(&self, name: &str) -> Balance {
        self.world.cohort().accounts[&workspace(name)].balance(&self.kind)
    }

    /// Decides as the engine does: sometimes it crashes before the commit and decides again.
    fn decide<T>(
        &mut self,
        crashes: bool,
        mut decide: impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<T, ActionError> {
        if crashes {
            let before = self.world.books.clone();
            let _ = before.weigh(&mut decide);
            self.world.books = before;
        }
        self.world.decide(decide)
    }

    fn reclaim(&self) -> Option<ActiveReclaim> {
        self.world.cohort().reclaims.get(&self.kind).cloned()
    }

    fn runs(&self) -> Vec<String> {
        let runs = |workload: &Workload| {
            matches!(
                workload.state,
                WorkloadState::Admitted | WorkloadState::Reclaimed { .. } | WorkloadState::Waiting
            )
        };
        self.world.books.all::<Workload>().into_iter().filter(runs).map(|workload| workload.name).collect()
    }

    /// Applies an event; a refusal is a valid answer.
    pub(super) fn happen(&mut self, event: &Event, crashes: bool) -> Result<(), ActionError> {
        let acme = tenant();
        let news = match event {
            Event::Submit { .. } => self.submit(event, crashes)?,
            Event::Finish(nth) => {
                let running = self.runs();
                let Some(name) = running.get(nth % running.len().max(1)).cloned() else { return Ok(()) };
                self.decide(crashes, |view| admission::finish(view, &acme, &name))?.news
            }
            Event::Allow { workspace: nth, nominal, borrowing, lending } => {
                let allowances = may_use(&self.kind, *nominal, *borrowing, *lending);
                let all = BTreeMap::from([(workspace(NAMES[*nth]), (WorkspaceClass::Batch, allowances))]);
                self.decide(crashes, |view| admission::set_allowances(view, &acme, &all))?
            }
            Event::Fence(nth) => self.fence(*nth, crashes)?,
            Event::Gone(nth, evicted) => {
                let Some(reclaim) = self.reclaim() else { return Ok(()) };
                let Some(victim) = reclaim.victims.iter().nth(*nth).cloned() else { return Ok(()) };
                let gone = if *evicted { VictimExit::Evicted } else { VictimExit::Ended };
                self.decide(crashes, |view| {
                    admission::release_victim(view, &acme, reclaim.execution, &victim, gone)
                })?
            }
            Event::Grant => self.grant(crashes)?,
            Event::Unfence => {
                let Some(reclaim) = self.reclaim() else { return Ok(()) };
                let kind = self.kind.clone();
                self.decide(crashes, |view| admission::unfence(view, &acme, &kind, reclaim.execution))?.news
            }
            Event::Drain(nth, exited) => {
                self.begin_eviction(*nth, *exited, crashes)?;
                AdmissionEffects::default()
            }
            Event::Pass(seconds) => {
                self.pass(Duration::from_secs(*seconds));
                AdmissionEffects::default()
            }
            Event::Freeze(nth) => {
                self.decide(crashes, |view| {
                    admission::freeze(view, &acme, &[workspace(NAMES[*nth])], by(99))
                })?;
                AdmissionEffects::default()
            }
            Event::Thaw(nth) => {
                self.decide(crashes, |view| admission::thaw(view, &acme, &[workspace(NAMES[*nth])], by(99)))?
            }
            Event::Rest(_) | Event::Serve(_) | Event::Lose(_) | Event::Bar(..) | Event::Cut(..) => {
                self.hardware(event, crashes)?
            }
        };
        self.drain(news)
    }

    /// Continues an admission that needs more than one commit.
    fn drain(&mut self, mut news: AdmissionEffects) -> Result<(), ActionError> {
        while news.more {
            news = self.world.decide(|view| admission::admit_queued(view, &tenant()))?;
        }
        Ok(())
    }

    fn submit(&mut self, event: &Event, crashes: bool) -> Result<AdmissionEffects, ActionError> {
        let Event::Submit { workspace: nth, gpus, together, preemptible, service, priority } = event else {
            return Ok(AdmissionEffects::default());
        };
        self.submitted += 1;
        let request = WorkloadRequest {
            tenant: tenant(),
            workspace: workspace(NAMES[*nth]),
            name: format!("w-{:03}", self.submitted),
            class: if *service { WorkloadClass::Service } else { WorkloadClass::Batch },
            priority: *priority,
            preemptible: *preemptible,
            checkpoint: Checkpoint::Signal,
            requests: [(self.kind.clone(), *gpus), (Resource::Pods, 1)].into(),
            together: *together,
            labels: BTreeSet::new(),
        };
        let submitted = self.decide(crashes, |view| admission::submit(view, &request))?;
        if crashes {
            let again = self.world.submit(&request)?;
            assert_eq!(
                again.admission, submitted.admission,
                "repeated after a crash that followed the commit"
            );
        }
        Ok(submitted.news)
    }

    fn fence(&mut self, nth: usize, crashes: bool) -> Result<AdmissionEffects, ActionError> {
        let demands = self.world.books.weigh(|view| admission::demands(view, &tenant())).unwrap().0;
        let Some(demand) = demands.get(nth % demands.len().max(1)).cloned() else {
            return Ok(AdmissionEffects::default());
        };
        let mut victims = self.world.victims(&demand);
        if victims.is_empty() {
            return Ok(AdmissionEffects::default());
        }
        // A second demand within its own quota may be served as well. Its victims can also be the first demand's, and
        // may be too few.
        let others = if nth.is_multiple_of(2) { self.another(&demand) } else { None };
        if let Some(other) = &others {
            victims.extend(self.world.victims(other));
        }
        let others: Vec<Beneficiary> = others.into_iter().map(served).collect();
        self.reclaims = self.reclaims.wrapping_add(1);
        let fence = Fence { others, ..fencing(&demand, by(self.reclaims), victims) };
        let fenced = self.decide(crashes, |view| admission::fence(view, &fence))?;
        if matches!(fenced, FenceOutcome::Stale { .. }) && !fence.others.is_empty() {
            return Ok(AdmissionEffects::default());
        }
        assert!(matches!(fenced, FenceOutcome::Done { .. }), "{fenced:?} for {fence:?}");
        let again = self.world.decide(|view| admission::fence(view, &fence))?;
        assert_eq!(again, fenced, "fenced again");
        Ok(AdmissionEffects::default())
    }

    /// Begins the eviction of a victim, or spares it. It is spared exactly if no demand of the reclaim lacks GPUs any more.
    fn begin_eviction(&mut self, nth: usize, exited: bool, crashes: bool) -> Result<(), ActionError> {
        let Some(before) = self.reclaim() else { return Ok(()) };
        let nth = nth % before.victims.len().max(1);
        let Some(victim) = before.victims.iter().nth(nth).cloned() else { return Ok(()) };
        let (acme, execution) = (tenant(), before.execution);
        let decide = |view: &mut View| admission::drain_victim(view, &acme, execution, &victim, exited);
        let spared = self.decide(crashes, decide)?.is_some();
        let state = self.world.workload(&victim).state;
        let called = WorkloadState::Reclaimed { by: execution };
        assert_eq!(state, if spared { WorkloadState::Admitted } else { called }, "{victim}");
        let aside = self.balance(before.workspace.as_str()).in_transit;
        let demand = before.workload.as_ref().is_some_and(|_| aside < before.wanted);
        let lacking = demand || before.others.iter().any(|other| other.aside < other.wanted);
        assert!(!spared || !lacking && !exited, "{victim} is spared, and a demand lacks GPUs");
        let nobody = before.workload.is_none() && self.world.waiting(before.workspace.as_str()).is_empty();
        assert!(spared || lacking || exited || !nobody, "{victim} is evicted without a demand");
        Ok(())
    }

    /// Returns the first queued workload of another workspace that is within its own quota.
    fn another(&self, demand: &ReclaimDemand) -> Option<ReclaimDemand> {
        let inside = |name: &'static str| {
            let balance = self.balance(name);
            let account = &self.world.cohort().accounts[&workspace(name)];
            let room = balance.allowance.nominal.saturating_sub(balance.in_use());
            let first =
                self.world.waiting(name).into_iter().find(|waits| waits.requests[&self.kind] <= room)?;
            let open = account.admitting == AccountState::Open && demand.workspace != workspace(name);
            let wanted = first.requests[&self.kind];
            open.then(|| ReclaimDemand {
                workspace: workspace(name),
                workload: first.workload,
                wanted,
                ..demand.clone()
            })
        };
        NAMES.into_iter().find_map(inside)
    }

    fn grant(&mut self, crashes: bool) -> Result<AdmissionEffects, ActionError> {
        let Some(reclaim) = self.reclaim() else { return Ok(AdmissionEffects::default()) };
        let kind = self.kind.clone();
        let granted =
            self.decide(crashes, |view| admission::grant(view, &tenant(), &kind, reclaim.execution))?;
        match granted {
            GrantOutcome::Done { admission, news, .. } => {
                if let (Some(admission), Some(demand)) = (admission, reclaim.workload) {
                    assert_eq!(admission.workload, demand);
                    assert_eq!(self.world.workload(&demand).state, WorkloadState::Admitted);
                }
                Ok(news)
            }
            GrantOutcome::NotYet { .. } => Ok(AdmissionEffects::default()),
        }
    }

    fn hardware(&mut self, event: &Event, crashes: bool) -> Result<AdmissionEffects, ActionError> {
        let acme = tenant();
        match *event {
            Event::Rest(n) => {
                self.decide(crashes, |view| admission::rest_nodes(view, &acme, &[node(n)]))?;
                Ok(AdmissionEffects::default())
            }
            Event::Serve(n) => {
                let news = self.decide(crashes, |view| admission::serve_nodes(view, &acme, &[node(n)]))?;
                self.world.see();
                Ok(news)
            }
            Event::Lose(n) => {
                Ok(self.decide(crashes, |view| admission::lose_nodes(view, &acme, &[node(n)]))?.1)
            }
            Event::Bar(n, gpu, bar) => self.decide(crashes, |view| {
                admission::bar_gpu(view, &acme, &node(n), gpu, bar.then_some("it failed its scrub"))
            }),
            Event::Cut(n, gpu, cut) => {
                let profile = "1g.10gb".parse().unwrap();
                let cut = cut.then_some((&profile, 7));
                self.decide(crashes, |view| admission::cut_gpus(view, &acme, &node(n), &[gpu].into(), cut))
            }
            _ => Ok(AdmissionEffects::default()),
        }
    }

    /// Advances the clock in steps short enough for observations, and counts use independently of the account.
    fn pass(&mut self, span: Duration) {
        let cohort = self.world.cohort();
        let taken: u64 = cohort.balances(&self.kind).map(|(_, balance)| balance.in_use()).sum();
        self.spent += taken * u64::try_from(span.as_millis()).unwrap();
        self.world.pass(span);
        let observed = self.world.see();
        self.drain(observed.news).unwrap();
    }
}

fn served(demand: ReclaimDemand) -> Beneficiary {
    Beneficiary { workspace: demand.workspace, workload: demand.workload, wanted: demand.wanted, aside: 0 }
}

fn fencing(demand: &ReclaimDemand, execution: ExecutionId, victims: BTreeSet<String>) -> Fence {
    let fence = account::fencing(execution, demand.workspace.as_str(), &demand.workload, victims);
    Fence { resource: demand.resource.clone(), ..fence }
}

fn may_use(
    kind: &Resource,
    nominal: u64,
    borrowing_limit: Option<u64>,
    lending_limit: Option<u64>,
) -> Allowances {
    [(kind.clone(), Allowance { nominal, borrowing_limit, lending_limit })].into()
}
