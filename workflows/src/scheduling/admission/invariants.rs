//! Checks the invariants that one state of a tenant's admission documents can show, recounted from the documents. Pure; called by tests after every event, by
//! simulations and by consistency checks.

use crate::{
    scheduling::loans::arithmetic::{lends, spare},
    tenancy::{
        Admission, AdmissionVerdict, Cohort, GpuKind, Lender, Loan, NodeUse, Occupancy, OpenLoans, Resource,
        RunningList, TenantId, Workload, WorkloadState, WorkspaceName, WorkspaceQueue,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// All of a tenant's admission documents.
#[derive(Clone, Debug)]
pub struct AdmissionState {
    /// The account.
    pub cohort: Cohort,
    /// The room on its nodes.
    pub occupancy: Option<Occupancy>,
    /// The nodes.
    pub nodes: Vec<NodeUse>,
    /// The workloads, including ended ones.
    pub workloads: Vec<Workload>,
    /// The loans, including ended ones.
    pub loans: Vec<Loan>,
    /// The open loans by kind.
    pub open: Vec<OpenLoans>,
    /// The queues.
    pub queues: Vec<WorkspaceQueue>,
    /// The lists of running workloads.
    pub running_lists: Vec<RunningList>,
    /// The decisions, at least those in force.
    pub decisions: Vec<Admission>,
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number in the specification.
    pub promise: &'static str,
    /// The observed contradiction.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.what)
    }
}

/// Returns every violation. Documents that only admission has written have none.
#[must_use]
pub fn violations(books: &AdmissionState) -> Vec<Violation> {
    let mut auditor = InvariantChecker { state: books, found: Vec::new() };
    auditor.gpus();
    auditor.workloads();
    auditor.rooms();
    auditor.usage();
    auditor.loans();
    auditor.lists();
    auditor.reclaims();
    auditor.found
}

struct InvariantChecker<'a> {
    state: &'a AdmissionState,
    found: Vec<Violation>,
}

/// Returns the GPUs of a workload by kind.
fn pieces(nodes: &[NodeUse], workload: &str) -> BTreeMap<GpuKind, u64> {
    let mut sums = BTreeMap::new();
    for node in nodes {
        for gpu in &node.gpus {
            for user in gpu.users.iter().filter(|user| user.workload == workload) {
                let kind = GpuKind { model: node.model.clone(), profile: gpu.profile.clone() };
                *sums.entry(kind).or_default() += u64::from(user.slices);
            }
        }
    }
    sums
}

fn runs(workload: &Workload) -> bool {
    match workload.state {
        WorkloadState::Admitted | WorkloadState::Reclaimed { .. } => true,
        WorkloadState::Waiting | WorkloadState::Finished | WorkloadState::Rejected => false,
    }
}

impl InvariantChecker<'_> {
    fn check(&mut self, promise: &'static str, kept: bool, what: impl FnOnce() -> String) {
        if !kept {
            self.found.push(Violation { promise, what: what() });
        }
    }

    fn tenant(&self) -> &TenantId {
        &self.state.cohort.tenant
    }

    /// I-3, I-4, I-10: each GPU is used within its capacity, by workloads of the tenant that are admitted.
    fn gpus(&mut self) {
        let states: BTreeMap<&str, &Workload> =
            self.state.workloads.iter().map(|workload| (workload.name.as_str(), workload)).collect();
        for node in &self.state.nodes {
            self.check("I-3", node.tenant == *self.tenant(), || {
                format!("{} is {}'s", node.node, node.tenant)
            });
            for (index, gpu) in node.gpus.iter().enumerate() {
                let used: u64 = gpu.users.iter().map(|user| u64::from(user.slices)).sum();
                let there = u64::from(gpu.slices);
                self.check("I-4", used <= there, || {
                    format!("{used} of {there} of GPU {index} of {}", node.node)
                });
                for user in &gpu.users {
                    let state = states.get(user.workload.as_str());
                    let right = state.is_some_and(|workload| {
                        if user.in_transit {
                            workload.state == WorkloadState::Waiting
                        } else {
                            runs(workload)
                        }
                    });
                    self.check("I-10", right, || {
                        format!("{} uses GPU {index} of {}", user.workload, node.node)
                    });
                }
            }
        }
    }

    /// I-4, I-11: a running workload has exactly its requested amounts, by a decision that admits it.
    fn workloads(&mut self) {
        let decisions: BTreeMap<String, &Admission> =
            self.state.decisions.iter().map(|d| (Admission::key(&d.tenant, d.number), d)).collect();
        for workload in &self.state.workloads {
            let name = &workload.name;
            let has = pieces(&self.state.nodes, name);
            if runs(workload) {
                let asked: BTreeMap<GpuKind, u64> =
                    crate::scheduling::admission::gpu_allocation::kinds(workload)
                        .map(|(k, n)| (k.clone(), n))
                        .collect();
                self.check("I-4", has == asked, || format!("{name} has {has:?}, but requested {asked:?}"));
                let decision = decisions.get(&workload.decision);
                let admits =
                    decision.is_some_and(|d| d.answer == AdmissionVerdict::Admit && d.workload == *name);
                self.check("I-4", admits, || format!("{name} runs with decision {:?}", workload.decision));
            }
            let reclaimed = matches!(workload.state, WorkloadState::Reclaimed { .. });
            self.check("I-11", !reclaimed || workload.preemptible, || format!("{name} is a victim"));
        }
    }

    /// I-24: the listed room matches the GPUs of each node; each piece is free, out of service or in use.
    fn rooms(&mut self) {
        let mut stock: BTreeMap<Resource, (u64, u64, u64)> = BTreeMap::new();
        let mut rooms = BTreeMap::new();
        for node in &self.state.nodes {
            if node.serving {
                rooms.insert(node.node.clone(), node.rooms());
            }
            for gpu in &node.gpus {
                let kind = GpuKind { model: node.model.clone(), profile: gpu.profile.clone() };
                let used: u64 = gpu.users.iter().map(|user| u64::from(user.slices)).sum();
                let idle = u64::from(gpu.slices).saturating_sub(used);
                let open = node.serving && gpu.barred.is_none();
                let sums = stock.entry(Resource::Gpu(kind)).or_default();
                sums.0 += u64::from(gpu.slices);
                if open { sums.1 += idle } else { sums.2 += idle }
            }
        }
        let listed =
            self.state.occupancy.as_ref().map(|occupancy| occupancy.nodes.clone()).unwrap_or_default();
        let same = listed.len() == rooms.len()
            && listed.iter().zip(&rooms).all(|((a, listed), (b, there))| {
                let plain = |room: &crate::tenancy::NodeRoom| (room.capacity, room.free);
                a == b
                    && listed.iter().map(|(k, r)| (k, plain(r))).eq(there.iter().map(|(k, r)| (k, plain(r))))
            });
        self.check("I-24", same, || format!("listed free amounts: {listed:?}; actual: {rooms:?}"));
        for (resource, kept) in &self.state.cohort.stock {
            let there = stock.get(resource).copied().unwrap_or_default();
            let kept = (kept.pieces, kept.free, kept.resting);
            self.check("I-24", kept == there, || {
                format!("{resource}: recorded {kept:?}, but actual {there:?}")
            });
            let taken: u64 = self.state.cohort.balances(resource).map(|(_, balance)| balance.in_use()).sum();
            let all = kept.1 + kept.2 + taken;
            self.check("I-24", kept.0 == all, || {
                format!("{resource}: {} are free, resting or taken of {}", all, kept.0)
            });
        }
    }

    /// I-7: the usage in the account equals the usage of the running workloads.
    fn usage(&mut self) {
        for (name, account) in &self.state.cohort.accounts {
            for (resource, balance) in &account.balances {
                let running = self.state.workloads.iter().filter(|w| w.workspace == *name && runs(w));
                let used: u64 = running.filter_map(|workload| workload.requests.get(resource)).sum();
                self.check("I-7", used == balance.used, || {
                    format!("{name} uses {used} of {resource}, but its account has {}", balance.used)
                });
            }
        }
    }

    /// I-8, I-11: open loans equal the usage beyond the nominal quota, lenders have enough idle quota, and each loan belongs to a running workload. No workload
    /// that may not be evicted was admitted as a borrower; only a lowered quota can make it one.
    fn loans(&mut self) {
        let open: Vec<&Loan> = self.state.loans.iter().filter(|loan| !loan.state.is_ended()).collect();
        let kinds: BTreeSet<&Resource> =
            self.state.cohort.accounts.values().flat_map(|account| account.balances.keys()).collect();
        for resource in kinds.into_iter().filter(|resource| resource.gpu().is_some()) {
            let of = |lends: bool, name: &WorkspaceName| -> u64 {
                let ours = open.iter().filter(|loan| loan.resource == *resource);
                ours.filter(|loan| if lends { loan.lender == *name } else { loan.borrower == *name })
                    .map(|loan| loan.amount)
                    .sum()
            };
            let (mut over, mut idle) = (0, 0);
            for (name, balance) in self.state.cohort.balances(resource) {
                let (lent, borrowed) = (of(true, name), of(false, name));
                let sums = (lent, borrowed) == (balance.lent, balance.borrowed);
                self.check("I-8", sums, || {
                    format!("{name}: lent {lent}, borrowed {borrowed}, not {balance:?}")
                });
                let most = lends(&balance.allowance).min(spare(&balance));
                self.check("I-8", lent <= most, || {
                    format!("{name} lends {lent} of {resource}, but may lend only {most}")
                });
                let exact = borrowed <= balance.over_nominal();
                self.check("I-8", exact, || {
                    format!("{name} borrows {borrowed}, but needs {}", balance.over_nominal())
                });
                over += balance.over_quota();
                idle += spare(&balance).saturating_sub(lent);
            }
            idle += self.pool(resource, &open);
            self.check("I-8", over == 0 || idle == 0, || {
                format!("{over} of {resource} have no lender, although {idle} are idle")
            });
        }
        for loan in open {
            let bearer = self.state.workloads.iter().find(|workload| workload.name == loan.workload);
            let right = bearer.is_some_and(|w| runs(w) && w.workspace == loan.borrower);
            self.check("I-8", right, || format!("loan {} is for {}", loan.number, loan.workload));
            self.check("I-8", loan.lender != loan.borrower, || format!("{} lends to itself", loan.lender));
        }
        for decision in
            self.state.decisions.iter().filter(|decision| decision.answer == AdmissionVerdict::Admit)
        {
            let grounds = &decision.grounds;
            let borrows = grounds.resources.iter().any(|(resource, ground)| {
                let asked = grounds.requests.get(resource).copied().unwrap_or(0);
                resource.gpu().is_some() && ground.taken.saturating_add(asked) > ground.allowance.nominal
            });
            for (resource, ground) in &grounds.resources {
                let then = ground.taken.saturating_add(grounds.requests.get(resource).copied().unwrap_or(0));
                let limit = ground.allowance.borrowing_limit.unwrap_or(u64::MAX);
                let most = ground.allowance.nominal.saturating_add(limit);
                self.check("I-7", then <= most, || {
                    format!("decision {} allows {then} of {resource}", decision.number)
                });
            }
            let may = grounds.preemptible && grounds.allow_preemption;
            self.check("I-11", may || !borrows, || {
                format!("decision {} allows {} to borrow", decision.number, decision.workload)
            });
        }
    }

    /// I-8: the pool lends no more than it has. Returns its idle amount.
    fn pool(&mut self, resource: &Resource, open: &[&Loan]) -> u64 {
        let lent = open.iter().filter(|loan| loan.resource == *resource && loan.lender == Lender::Pool);
        let lent: u64 = lent.map(|loan| loan.amount).sum();
        let pool = self.state.cohort.pool(resource);
        self.check("I-8", lent <= pool, || format!("{lent} of {resource} are lent of the pool of {pool}"));
        pool.saturating_sub(lent)
    }

    /// The lists that replace range queries match the documents.
    fn lists(&mut self) {
        let rows = |loan: &Loan| (loan.number, loan.amount, loan.workload.clone());
        let mut open: Vec<_> =
            self.state.loans.iter().filter(|loan| !loan.state.is_ended()).map(rows).collect();
        let listed = self.state.open.iter().flat_map(|list| &list.open);
        let mut listed: Vec<_> =
            listed.map(|loan| (loan.number, loan.amount, loan.workload.clone())).collect();
        open.sort();
        listed.sort();
        self.check("I-9", open == listed, || format!("open loans: {open:?}; listed: {listed:?}"));
        let running: BTreeSet<_> =
            self.state.workloads.iter().filter(|w| runs(w)).map(|w| (&w.workspace, &w.name)).collect();
        let rosters = self.state.running_lists.iter();
        let listed: BTreeSet<_> =
            rosters.flat_map(|r| r.running.keys().map(move |name| (&r.workspace, name))).collect();
        self.check("I-4", running == listed, || {
            format!("running workloads: {running:?}; listed: {listed:?}")
        });
        let waiting = self.state.workloads.iter().filter(|w| w.state == WorkloadState::Waiting);
        let waiting: BTreeSet<_> = waiting.map(|w| (&w.workspace, &w.name)).collect();
        let lines = self.state.queues.iter();
        let stand: Vec<_> =
            lines.flat_map(|l| l.waiting.iter().map(move |w| (&l.workspace, &w.workload))).collect();
        let set: BTreeSet<_> = stand.iter().copied().collect();
        self.check("S-42", waiting == set && set.len() == stand.len(), || {
            format!("queued workloads: {waiting:?}; listed in the queue: {stand:?}")
        });
        for (name, account) in &self.state.cohort.accounts {
            let waits = set.iter().filter(|(workspace, _)| *workspace == name).count();
            self.check("S-42", account.waiting as usize == waits, || {
                format!("{waits} are queued in {name}, not {}", account.waiting)
            });
        }
    }

    /// I-10, I-15: GPUs in transit are earmarked for beneficiaries of the one reclaim of their kind.
    fn reclaims(&mut self) {
        for (name, account) in &self.state.cohort.accounts {
            for (resource, balance) in account.balances.iter().filter(|(_, balance)| balance.in_transit > 0) {
                let reclaim = self.state.cohort.reclaims.get(resource);
                let served: Vec<_> =
                    reclaim.into_iter().flat_map(|reclaim| reclaim.beneficiaries()).collect();
                let served = || served.iter().filter(|served| served.workspace == *name);
                let has = |workload: &str| {
                    let kinds = pieces(&self.state.nodes, workload);
                    resource.gpu().and_then(|kind| kinds.get(kind).copied()).unwrap_or(0)
                };
                let wanted = served().map(|served| served.wanted).fold(0, u64::saturating_add);
                let aside = served().map(|served| has(&served.workload)).fold(0, u64::saturating_add);
                let others = reclaim.into_iter().flat_map(|reclaim| &reclaim.others);
                let counted = others.clone().all(|other| other.aside == has(&other.workload));
                let taken = balance.in_transit;
                self.check("I-10", taken <= wanted && taken == aside && counted, || {
                    format!(
                        "{taken} of {resource} are in transit to {name}; {aside} are earmarked, {wanted} are needed"
                    )
                });
            }
        }
        for workload in &self.state.workloads {
            if let WorkloadState::Reclaimed { by } = workload.state {
                let reclaims = &self.state.cohort.reclaims;
                let known =
                    reclaims.values().any(|r| r.execution == by && r.victims.contains(&workload.name));
                self.check("I-15", known, || {
                    format!("{} is reclaimed by {by}, which is unknown", workload.name)
                });
            }
        }
    }
}
