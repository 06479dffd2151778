//! Random histories of a tenant's account, with crashes: after every event every promise holds.

use super::promises;
use engine::{ActionError, Undecided, View};
use proptest::{collection::vec, option, prelude::*};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::ExecutionId;
use tests::account::{self, World, h100, tenant, workspace};
use workflows::{
    scheduling::admission::{self, Allowances, Demand, Fence, Fenced, Gone, Granted, News, Request},
    tenancy::*,
};

pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// What can happen, by number of workspace, workload or node.
#[derive(Clone, Debug)]
enum Event {
    Submit { workspace: usize, gpus: u64, together: u64, preemptible: bool, service: bool, priority: i32 },
    Finish(usize),
    Allow { workspace: usize, nominal: u64, borrowing: Option<u64>, lending: Option<u64> },
    Fence(usize),
    Gone(usize, bool),
    Grant,
    Unfence,
    Drain(usize, bool),
    Pass(u64),
    Rest(u32),
    Serve(u32),
    Lose(u32),
    Bar(u32, u16, bool),
    Cut(u32, u16, bool),
    Freeze(usize),
    Thaw(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let workspace = 0..NAMES.len();
    let limit = || option::weighted(0.6, 0..12_u64);
    prop_oneof![
        12 => (workspace.clone(), 1..10_u64, 0..3_u64, any::<bool>(), prop::bool::weighted(0.1), 0..3_i32).prop_map(
            |(workspace, gpus, together, preemptible, service, priority)| Event::Submit {
                workspace, gpus, together: [0, 2, gpus][usize::try_from(together).unwrap()], preemptible, service, priority,
            }
        ),
        7 => (0..40_usize).prop_map(Event::Finish),
        2 => (workspace.clone(), 0..13_u64, limit(), limit()).prop_map(|(workspace, nominal, borrowing, lending)| {
            Event::Allow { workspace, nominal, borrowing, lending }
        }),
        5 => (0..4_usize).prop_map(Event::Fence),
        7 => (0..6_usize, any::<bool>()).prop_map(|(nth, evicted)| Event::Gone(nth, evicted)),
        4 => Just(Event::Grant),
        1 => Just(Event::Unfence),
        3 => (0..6_usize, prop::bool::weighted(0.1)).prop_map(|(nth, exited)| Event::Drain(nth, exited)),
        5 => (1..2_000_u64).prop_map(Event::Pass),
        // So long that who waits is overdue.
        1 => (30_000..40_000_u64).prop_map(Event::Pass),
        1 => (0..4_u32).prop_map(Event::Rest),
        2 => (0..4_u32).prop_map(Event::Serve),
        1 => (0..4_u32).prop_map(Event::Lose),
        1 => (0..4_u32, 0..8_u16, any::<bool>()).prop_map(|(node, gpu, bar)| Event::Bar(node, gpu, bar)),
        1 => (0..4_u32, 0..8_u16, any::<bool>()).prop_map(|(node, gpu, cut)| Event::Cut(node, gpu, cut)),
        1 => workspace.clone().prop_map(Event::Freeze),
        1 => workspace.prop_map(Event::Thaw),
    ]
}

fn by(n: u8) -> ExecutionId {
    ExecutionId::from_bytes([n; 16])
}

fn node(n: u32) -> NodeId {
    format!("n-{n:04}").parse().unwrap()
}

/// A history in progress, of a tenant whose workspaces use one kind: whole GPUs, or slices of one profile.
struct History {
    world: World,
    kind: Resource,
    submitted: u32,
    reclaims: u8,
    /// What was used by each workload, counted from outside: GPU-milliseconds.
    spent: u64,
}

impl History {
    fn new(kind: Resource) -> Self {
        let mut world = World::new(4);
        let owned = [(8, None, None), (8, Some(8), Some(4)), (8, Some(4), None), (4, None, Some(0))];
        for (name, (nominal, borrowing, lending)) in NAMES.into_iter().zip(owned) {
            world.allow(name, WorkspaceClass::Batch, may_use(&kind, nominal, borrowing, lending));
        }
        Self { world, kind, submitted: 0, reclaims: 0, spent: 0 }
    }

    /// The same in slices: one GPU of each node is cut into seven.
    fn sliced(sharing: bool) -> Self {
        let mut history = Self::new("gpu/H100/1g.10gb".parse().unwrap());
        let shared = |view: &mut View| {
            let tenant = view.need::<Tenant>("acme")?;
            view.put(&Tenant { allow_gpu_sharing: sharing, ..tenant })
        };
        history.world.decide(shared).unwrap();
        for n in 0..4 {
            history.happen(&Event::Cut(n, 0, true), false).unwrap();
        }
        history.world.see();
        history
    }

    /// The same when its last workspace has borrowed all that others lend: few histories come there by themselves, and without it
    /// nothing is ever called back.
    fn lent(mut self, lent: bool) -> Self {
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

    /// Decides as the engine does: sometimes it crashes before the commit, so that the same is decided again.
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

    fn reclaim(&self) -> Option<Reclaiming> {
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

    /// Does what happened; a refusal is as good an answer.
    fn happen(&mut self, event: &Event, crashes: bool) -> Result<(), ActionError> {
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
                let gone = if *evicted { Gone::Evicted } else { Gone::Ended };
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
                News::default()
            }
            Event::Pass(seconds) => {
                self.pass(Duration::from_secs(*seconds));
                News::default()
            }
            Event::Freeze(nth) => {
                self.decide(crashes, |view| {
                    admission::freeze(view, &acme, &[workspace(NAMES[*nth])], by(99))
                })?;
                News::default()
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

    /// What more could be admitted than one commit takes.
    fn drain(&mut self, mut news: News) -> Result<(), ActionError> {
        while news.more {
            news = self.world.decide(|view| admission::wake(view, &tenant()))?;
        }
        Ok(())
    }

    fn submit(&mut self, event: &Event, crashes: bool) -> Result<News, ActionError> {
        let Event::Submit { workspace: nth, gpus, together, preemptible, service, priority } = event else {
            return Ok(News::default());
        };
        self.submitted += 1;
        let request = Request {
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
            assert_eq!(again.admission, submitted.admission, "asked again after a crash past the commit");
        }
        Ok(submitted.news)
    }

    fn fence(&mut self, nth: usize, crashes: bool) -> Result<News, ActionError> {
        let demands = self.world.books.weigh(|view| admission::demands(view, &tenant())).unwrap().0;
        let Some(demand) = demands.get(nth % demands.len().max(1)).cloned() else {
            return Ok(News::default());
        };
        let mut victims = self.world.victims(&demand);
        if victims.is_empty() {
            return Ok(News::default());
        }
        // Another that waits inside its own may be served besides; its victims can be the demand's as well, and too few.
        let others = if nth.is_multiple_of(2) { self.another(&demand) } else { None };
        if let Some(other) = &others {
            victims.extend(self.world.victims(other));
        }
        let others: Vec<Served> = others.into_iter().map(served).collect();
        self.reclaims = self.reclaims.wrapping_add(1);
        let fence = Fence { others, ..fencing(&demand, by(self.reclaims), victims) };
        let fenced = self.decide(crashes, |view| admission::fence(view, &fence))?;
        if matches!(fenced, Fenced::Stale { .. }) && !fence.others.is_empty() {
            return Ok(News::default());
        }
        assert!(matches!(fenced, Fenced::Done { .. }), "{fenced:?} for {fence:?}");
        let again = self.world.decide(|view| admission::fence(view, &fence))?;
        assert_eq!(again, fenced, "fenced again");
        Ok(News::default())
    }

    /// The eviction of a victim begins, or it is spared: never while anybody who is served lacks anything, and always when nobody is left.
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
        assert!(!spared || !lacking && !exited, "{victim} is spared, and somebody lacks something");
        let nobody = before.workload.is_none() && self.world.waiting(before.workspace.as_str()).is_empty();
        assert!(spared || lacking || exited || !nobody, "{victim} is evicted for nobody");
        Ok(())
    }

    /// The first of another workspace that waits inside its own quota.
    fn another(&self, demand: &Demand) -> Option<Demand> {
        let inside = |name: &'static str| {
            let balance = self.balance(name);
            let account = &self.world.cohort().accounts[&workspace(name)];
            let room = balance.allowance.nominal.saturating_sub(balance.taken());
            let first =
                self.world.waiting(name).into_iter().find(|waits| waits.requests[&self.kind] <= room)?;
            let open = account.admitting == Admitting::Open && demand.workspace != workspace(name);
            let wanted = first.requests[&self.kind];
            open.then(|| Demand {
                workspace: workspace(name),
                workload: first.workload,
                wanted,
                ..demand.clone()
            })
        };
        NAMES.into_iter().find_map(inside)
    }

    fn grant(&mut self, crashes: bool) -> Result<News, ActionError> {
        let Some(reclaim) = self.reclaim() else { return Ok(News::default()) };
        let kind = self.kind.clone();
        let granted =
            self.decide(crashes, |view| admission::grant(view, &tenant(), &kind, reclaim.execution))?;
        match granted {
            Granted::Done { admission, news, .. } => {
                if let (Some(admission), Some(demand)) = (admission, reclaim.workload) {
                    assert_eq!(admission.workload, demand);
                    assert_eq!(self.world.workload(&demand).state, WorkloadState::Admitted);
                }
                Ok(news)
            }
            Granted::NotYet { .. } => Ok(News::default()),
        }
    }

    fn hardware(&mut self, event: &Event, crashes: bool) -> Result<News, ActionError> {
        let acme = tenant();
        match *event {
            Event::Rest(n) => {
                self.decide(crashes, |view| admission::rest_nodes(view, &acme, &[node(n)]))?;
                Ok(News::default())
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
            _ => Ok(News::default()),
        }
    }

    /// Time passes in steps that observations keep up with, and what is used is counted from outside.
    fn pass(&mut self, span: Duration) {
        let cohort = self.world.cohort();
        let taken: u64 = cohort.balances(&self.kind).map(|(_, balance)| balance.taken()).sum();
        self.spent += taken * u64::try_from(span.as_millis()).unwrap();
        self.world.pass(span);
        let observed = self.world.see();
        self.drain(observed.news).unwrap();
    }
}

fn served(demand: Demand) -> Served {
    Served { workspace: demand.workspace, workload: demand.workload, wanted: demand.wanted, aside: 0 }
}

fn fencing(demand: &Demand, execution: ExecutionId, victims: BTreeSet<String>) -> Fence {
    let fence = account::fencing(execution, demand.workspace.as_str(), &demand.workload, victims);
    Fence { resource: demand.resource.clone(), ..fence }
}

/// S-19: what was used is charged once, and what was borrowed is credited once.
fn every_gpu_second_is_charged_once(history: &History) -> Result<(), TestCaseError> {
    let world = &history.world;
    let closed = world.books.all::<Usage>();
    let running = admission::usage_so_far(&world.cohort(), world.books.now);
    let all = || closed.iter().chain(&running).filter_map(|usage| usage.spent.get(&history.kind));
    let sum = |of: &dyn Fn(&Spent) -> u64| all().map(of).sum::<u64>();
    prop_assert_eq!(sum(&|spent| spent.taken()), history.spent);
    prop_assert_eq!(sum(&|spent| spent.borrowed), sum(&|spent| spent.lent));
    // The account is counted up when it changes; since then all has been as it says.
    let stock = world.cohort().stock[&history.kind];
    let since = world.books.now.0 - world.cohort().counted.0;
    let spent = |before: u64, pieces: u64| before + pieces * since;
    let idle = spent(stock.free_spent, stock.free) + spent(stock.resting_spent, stock.resting);
    prop_assert_eq!(spent(stock.pieces_spent, stock.pieces), idle + history.spent);
    Ok(())
}

fn every_promise_holds(before: &World, history: &History) -> Result<(), TestCaseError> {
    let world = &history.world;
    prop_assert_eq!(world.violations(), Vec::<String>::new());
    promises::what_is_past_stays(before, world)?;
    promises::nobody_was_let_past_a_limit(before, world, &history.kind)?;
    // Slices of a GPU that another workspace uses are idle for nobody else, unless the tenant allows it.
    let tenant = world.books.find::<Tenant>("acme").unwrap();
    if history.kind == h100() || tenant.allow_gpu_sharing {
        promises::nobody_waits_for_what_is_idle(world, &history.kind)?;
    }
    promises::every_demand_is_raised(world, &history.kind)?;
    every_gpu_second_is_charged_once(history)?;
    prop_assert!(world.books.longest() < 200 << 10);
    Ok(())
}

fn may_use(
    kind: &Resource,
    nominal: u64,
    borrowing_limit: Option<u64>,
    lending_limit: Option<u64>,
) -> Allowances {
    [(kind.clone(), Allowance { nominal, borrowing_limit, lending_limit })].into()
}

fn nothing_breaks(mut history: History, events: &[(Event, bool)]) -> Result<(), TestCaseError> {
    for (event, crashes) in events {
        let before = history.world.clone();
        if let Err(error) = history.happen(event, *crashes) {
            let expected = ["node.busy", "ledger.books_differ"].contains(&error.code.as_str());
            prop_assert!(expected && error.code != "ledger.books_differ", "{event:?}: {error:?}");
        }
        every_promise_holds(&before, &history)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4_000, ..tests::cases(300) })]

    /// I-3, I-4, I-7 to I-12, I-15, I-20, I-24, S-19, S-32, S-33, S-38, S-43.
    #[test]
    fn no_history_breaks_a_promise_of_the_account(
        events in vec((event(), prop::bool::weighted(0.2)), 1..30),
        lent in any::<bool>(),
    ) {
        nothing_breaks(History::new(h100()).lent(lent), &events)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4_000, ..tests::cases(200) })]

    /// The same of slices, and S-44, S-45: lent, called back and granted as GPUs are.
    #[test]
    fn no_history_of_slices_breaks_a_promise_of_the_account(
        events in vec((event(), prop::bool::weighted(0.2)), 1..30),
        (sharing, lent) in any::<(bool, bool)>(),
    ) {
        nothing_breaks(History::sliced(sharing).lent(lent), &events)?;
    }
}
