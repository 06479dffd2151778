//! Random histories of a tenant's account, with crashes: after every event every promise holds.

use engine::{ActionError, Undecided, View};
use proptest::{collection::vec, option, prelude::*};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::{ExecutionId, Timestamp};
use tests::account::{World, gpus, h100, tenant, workspace};
use workflows::{
    admission::{self, Demand, Fence, Fenced, Gone, Granted, News, Request},
    tenancy::*,
};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

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
    Spare(usize),
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
        1 => (0..6_usize).prop_map(Event::Spare),
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

/// A history in progress.
struct History {
    world: World,
    submitted: u32,
    reclaims: u8,
    /// What was used by each workload, counted from outside: GPU-milliseconds.
    spent: u64,
}

impl History {
    fn new() -> Self {
        let world = World::new(4).with(&[
            ("a", gpus(8, None, None)),
            ("b", gpus(8, Some(8), Some(4))),
            ("c", gpus(8, Some(4), None)),
            ("d", gpus(4, None, Some(0))),
        ]);
        Self { world, submitted: 0, reclaims: 0, spent: 0 }
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
        self.world.cohort().reclaims.get(&h100()).cloned()
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
                let allowances = gpus(*nominal, *borrowing, *lending);
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
                self.decide(crashes, |view| admission::unfence(view, &acme, &h100(), reclaim.execution))?.news
            }
            Event::Spare(nth) => {
                let Some(reclaim) = self.reclaim() else { return Ok(()) };
                let Some(victim) = reclaim.victims.iter().nth(*nth).cloned() else { return Ok(()) };
                self.decide(crashes, |view| {
                    admission::spare_victim(view, &acme, &h100(), reclaim.execution, &victim)
                })?;
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
            requests: [(h100(), *gpus), (Resource::Pods, 1)].into(),
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
        let victims = self.world.victims(&demand);
        if victims.is_empty() {
            return Ok(News::default());
        }
        self.reclaims = self.reclaims.wrapping_add(1);
        let fence = fencing(&demand, by(self.reclaims), victims);
        let fenced = self.decide(crashes, |view| admission::fence(view, &fence))?;
        assert!(matches!(fenced, Fenced::Done { .. }), "{fenced:?} for {fence:?}");
        let again = self.world.decide(|view| admission::fence(view, &fence))?;
        assert_eq!(again, fenced, "fenced again");
        Ok(News::default())
    }

    fn grant(&mut self, crashes: bool) -> Result<News, ActionError> {
        let Some(reclaim) = self.reclaim() else { return Ok(News::default()) };
        let granted =
            self.decide(crashes, |view| admission::grant(view, &tenant(), &h100(), reclaim.execution))?;
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
        let taken: u64 = cohort.balances(&h100()).map(|(_, balance)| balance.taken()).sum();
        self.spent += taken * u64::try_from(span.as_millis()).unwrap();
        self.world.pass(span);
        let observed = self.world.see();
        self.drain(observed.news).unwrap();
    }
}

fn fencing(demand: &Demand, execution: ExecutionId, victims: BTreeSet<String>) -> Fence {
    Fence {
        more: 0,
        tenant: tenant(),
        resource: demand.resource.clone(),
        execution,
        workspace: demand.workspace.clone(),
        workload: Some(demand.workload.clone()),
        victims,
        deadline: demand.deadline,
    }
}

/// I-9: a loan that has ended never changes again. I-20: every decision follows again from its grounds.
fn what_is_past_stays(before: &World, after: &World) -> Result<(), TestCaseError> {
    let loans: BTreeMap<u64, Loan> =
        after.books.all::<Loan>().into_iter().map(|loan| (loan.number, loan)).collect();
    for loan in before.books.all::<Loan>().into_iter().filter(|loan| loan.state.ended()) {
        prop_assert_eq!(Some(&loan), loans.get(&loan.number), "a loan ended twice");
    }
    let known: BTreeSet<u64> =
        before.books.all::<Admission>().iter().map(|decision| decision.number).collect();
    for decision in
        after.books.all::<Admission>().into_iter().filter(|decision| !known.contains(&decision.number))
    {
        let rules = rules(after);
        let (answer, weighed) = admission::admit(&decision.grounds, &rules);
        prop_assert_eq!((answer, weighed), (decision.answer, decision.weighed));
    }
    Ok(())
}

fn rules(world: &World) -> admission::Rules {
    world.books.weigh(admission::Rules::in_force).unwrap().0
}

/// I-7: nobody was admitted beyond its nominal and its borrowing limit; only a change of quota leads there.
fn nobody_was_let_past_a_limit(before: &World, after: &World) -> Result<(), TestCaseError> {
    for (name, account) in &after.cohort().accounts {
        let (was, is) = (before.cohort().accounts[name].balance(&h100()), account.balance(&h100()));
        if is.taken() > was.taken() && is.allowance == was.allowance {
            let limit = is.allowance.borrowing_limit.unwrap_or(u64::MAX);
            prop_assert!(is.beyond() <= limit, "{name} takes {} with {:?}", is.taken(), is.allowance);
        }
    }
    Ok(())
}

/// A place in line.
fn place(waits: &InLine) -> (Timestamp, String) {
    (waits.since, waits.workload.clone())
}

/// Whether one that waits may borrow at the moment.
fn borrower(world: &World, waits: &InLine) -> bool {
    let cooling = waits.cooling_until.is_some_and(|until| world.books.now < until);
    waits.preemptible && world.workload(&waits.workload).class == WorkloadClass::Batch && !cooling
}

/// S-32, S-33: nobody waits for what is idle and may be had, counted here from the rows alone.
fn nobody_waits_for_what_is_idle(world: &World) -> Result<(), TestCaseError> {
    let cohort = world.cohort();
    let rooms: Vec<u64> = world
        .occupancy()
        .nodes
        .values()
        .filter_map(|kinds| kinds.get(h100().gpu().unwrap()).map(|room| room.open()))
        .collect();
    // Kueue's root: what all lend while idle, less what is used of it.
    let root: i64 = cohort
        .balances(&h100())
        .map(|(_, b)| {
            let lends = b.allowance.lending_limit.unwrap_or(u64::MAX).min(b.allowance.nominal);
            let own = b.allowance.nominal - lends;
            lends.cast_signed() - b.taken().saturating_sub(own).cast_signed()
        })
        .sum();
    let rules = rules(world);
    let overdue = |waits: &InLine| rules.raised(world.books.now.since(waits.entered_at)).1;
    // An overdue one that others can help, and that waits behind nobody of its own line, may have others who borrow wait.
    let helped = NAMES.iter().any(|name| {
        let account = &cohort.accounts[&workspace(name)];
        let balance = account.balance(&h100());
        let first = world.waiting(name).into_iter().filter(overdue).min_by_key(place);
        account.admitting == Admitting::Open
            && first.is_some_and(|waits| {
                let inside = balance.taken() + waits.requests[&h100()] <= balance.allowance.nominal;
                inside || borrower(world, &waits)
            })
    });
    for name in NAMES {
        let account = &cohort.accounts[&workspace(name)];
        if account.admitting != Admitting::Open {
            continue;
        }
        let balance = account.balance(&h100());
        let nominal = balance.allowance.nominal;
        let lends = balance.allowance.lending_limit.unwrap_or(u64::MAX).min(nominal);
        let kept = (nominal - lends).saturating_sub(balance.taken());
        // What a reclaim serves waits for its grant, and for nothing that is idle.
        let served =
            |workload: &str| cohort.reclaims.values().any(|r| r.workload.as_deref() == Some(workload));
        for waits in world.waiting(name).into_iter().filter(|waits| !served(&waits.workload)) {
            let asks = waits.requests[&h100()];
            let then = balance.taken() + asks;
            let slowed = account.slowed_until.is_some_and(|until| world.books.now < until);
            let own = then <= nominal;
            let limit = balance.allowance.borrowing_limit.unwrap_or(u64::MAX - nominal);
            let borrow = borrower(world, &waits) && !slowed && then <= nominal + limit;
            let behind = |other: InLine| overdue(&other) && place(&other) < place(&waits);
            if (!own && helped) || world.waiting(name).into_iter().any(behind) {
                continue;
            }
            let there = kept.cast_signed() + root >= asks.cast_signed();
            let groups = if waits.together > 1 { waits.together } else { 1 };
            let (whole, rest) = (asks / groups, asks % groups);
            let fits = rooms.iter().map(|room| room / groups).sum::<u64>() >= whole && rest == 0;
            prop_assert!(
                !((own || borrow) && there && fits),
                "{} waits in {name} for {asks} of what is idle",
                waits.workload
            );
        }
    }
    Ok(())
}

/// S-38: one that waits inside its own quota while others use more than theirs is a demand, or a reclaim executes.
fn every_demand_is_raised(world: &World) -> Result<(), TestCaseError> {
    let cohort = world.cohort();
    if cohort.reclaims.contains_key(&h100()) {
        return Ok(());
    }
    let beyond = |except: &str| {
        cohort.balances(&h100()).any(|(name, balance)| name.as_str() != except && balance.beyond() > 0)
    };
    let demands = world.books.weigh(|view| admission::demands(view, &tenant())).unwrap().0;
    for name in NAMES {
        let account = &cohort.accounts[&workspace(name)];
        let balance = account.balance(&h100());
        let inside = world
            .waiting(name)
            .iter()
            .any(|waits| balance.taken() + waits.requests[&h100()] <= balance.allowance.nominal);
        if inside && beyond(name) && account.admitting == Admitting::Open {
            prop_assert!(!demands.is_empty(), "a demand of {name} is not raised");
        }
    }
    Ok(())
}

/// S-19: what was used is charged once, and what was borrowed is credited once.
fn every_gpu_second_is_charged_once(history: &History) -> Result<(), TestCaseError> {
    let world = &history.world;
    let closed = world.books.all::<Usage>();
    let running = admission::usage_so_far(&world.cohort(), world.books.now);
    let all = || closed.iter().chain(&running).filter_map(|usage| usage.spent.get(&h100()));
    let sum = |of: &dyn Fn(&Spent) -> u64| all().map(of).sum::<u64>();
    prop_assert_eq!(sum(&|spent| spent.taken()), history.spent);
    prop_assert_eq!(sum(&|spent| spent.borrowed), sum(&|spent| spent.lent));
    // The account is counted up when it changes; since then all has been as it says.
    let stock = world.cohort().stock[&h100()];
    let since = world.books.now.0 - world.cohort().counted.0;
    let spent = |before: u64, pieces: u64| before + pieces * since;
    let idle = spent(stock.free_spent, stock.free) + spent(stock.resting_spent, stock.resting);
    prop_assert_eq!(spent(stock.pieces_spent, stock.pieces), idle + history.spent);
    Ok(())
}

fn every_promise_holds(before: &World, history: &History) -> Result<(), TestCaseError> {
    let world = &history.world;
    prop_assert_eq!(world.violations(), Vec::<String>::new());
    what_is_past_stays(before, world)?;
    nobody_was_let_past_a_limit(before, world)?;
    nobody_waits_for_what_is_idle(world)?;
    every_demand_is_raised(world)?;
    every_gpu_second_is_charged_once(history)?;
    prop_assert!(world.books.longest() < 200 << 10);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4_000, ..tests::cases(300) })]

    /// I-3, I-4, I-7 to I-12, I-15, I-20, I-24, S-19, S-32, S-33, S-38, S-43.
    #[test]
    fn no_history_breaks_a_promise_of_the_account(events in vec((event(), prop::bool::weighted(0.2)), 1..30)) {
        let mut history = History::new();
        for (event, crashes) in &events {
            let before = history.world.clone();
            if let Err(error) = history.happen(event, *crashes) {
                let expected = ["node.busy", "ledger.books_differ"].contains(&error.code.as_str());
                prop_assert!(expected && error.code != "ledger.books_differ", "{event:?}: {error:?}");
            }
            every_promise_holds(&before, &history)?;
        }
    }
}
