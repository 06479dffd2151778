//! Long waits: younger workloads wait behind an overdue one.

use crate::{
    placement::best_fit,
    scheduling::admission::{Rules, decision::evaluate::may_borrow_at_all, unit_of_work::AdmissionTx},
    tenancy::{
        Account, AccountState, Amounts, QueuedWorkload, Resource, ResourceFacts, Workload, WorkloadClass,
        WorkspaceName, WorkspaceQueue, workspace_key,
    },
};
use engine::{Undecided, View};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;

/// A place in the queue: oldest first, then by name.
pub(in crate::scheduling::admission) type QueuePosition = (Timestamp, String);
type PlaceOf<'a> = (Timestamp, &'a str);

/// A requesting workload with its workspace and amount.
#[derive(Clone, Copy, Debug)]
pub(in crate::scheduling::admission) struct Claimant<'a> {
    workspace: &'a WorkspaceName,
    place: PlaceOf<'a>,
    requested: u64,
}

impl<'a> Claimant<'a> {
    /// Creates the claim of a workload on `resource`.
    pub(in crate::scheduling::admission) fn new(workload: &'a Workload, resource: &Resource) -> Self {
        let asked = workload.requests.get(resource).copied().unwrap_or(0);
        let place = (workload.submitted_at, workload.name.as_str());
        Self { workspace: &workload.workspace, place, requested: asked }
    }
}

/// The overdue workloads that must be admitted before a claimant of the same kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::scheduling::admission) struct Blocker {
    /// Younger workloads of the claimant's own queue wait behind this one.
    pub(in crate::scheduling::admission) of_line: Option<QueuePosition>,
    /// Younger borrowers of all workspaces wait behind this one.
    pub(in crate::scheduling::admission) of_all: Option<QueuePosition>,
}

impl Blocker {
    /// Returns the older of both.
    pub(in crate::scheduling::admission) fn first(&self) -> Option<&QueuePosition> {
        [&self.of_line, &self.of_all].into_iter().flatten().min()
    }
}

/// The scope of workloads that wait behind an overdue one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BlockScope {
    /// The same queue.
    Line,
    /// Borrowers of all workspaces.
    All,
}

impl AdmissionTx {
    /// Returns true if a queued workload must wait behind another for any resource. Checked before the full decision.
    pub(in crate::scheduling::admission) fn is_behind(
        &mut self,
        view: &mut View,
        workspace: &WorkspaceName,
        waits: &QueuedWorkload,
    ) -> Result<Option<(Resource, Blocker)>, Undecided> {
        for (resource, asked) in &waits.requests {
            let balance = self.effective(workspace, resource)?;
            let ground = ResourceFacts {
                allowance: balance.allowance,
                taken: balance.in_use(),
                ..ResourceFacts::default()
            };
            let asker = Claimant { workspace, place: place_of(waits), requested: *asked };
            let ahead = self.ahead(view, asker, resource, &ground)?;
            if ahead.first().is_some() {
                return Ok(Some((resource.clone(), ahead)));
            }
        }
        Ok(None)
    }

    /// Returns the overdue workloads that the claimant must wait behind: in its own queue, or in any queue if it borrows.
    pub(in crate::scheduling::admission) fn ahead(
        &mut self,
        view: &mut View,
        asker: Claimant<'_>,
        resource: &Resource,
        ground: &ResourceFacts,
    ) -> Result<Blocker, Undecided> {
        let mut ahead = Blocker::default();
        if resource.gpu().is_none() || asker.requested == 0 {
            return Ok(ahead);
        }
        let borrows = ground.taken.saturating_add(asker.requested) > ground.allowance.nominal;
        let old = self.cohort.accounts.iter().filter(|(name, account)| {
            let counts = borrows || *name == asker.workspace;
            counts && account.oldest.is_some_and(|since| overdue(&self.rules, self.now, since))
        });
        let old: Vec<WorkspaceName> = old.map(|(name, _)| name.clone()).collect();
        view.prefetch::<WorkspaceQueue>(old.iter().map(|name| workspace_key(&self.tenant.id, name)))?;
        for workspace in &old {
            self.queue_of(view, workspace)?;
            let first = self.first(workspace, resource, asker.place)?;
            if borrows {
                ahead.of_all = [ahead.of_all, first.of_all].into_iter().flatten().min();
            }
            if workspace == asker.workspace {
                ahead.of_line = first.of_line;
            }
        }
        Ok(ahead)
    }

    /// Returns the first overdue workload of a queue that waits for `resource`, precedes `place`, and benefits if others wait. Workloads of other workspaces do
    /// not wait for one that is blocked in its own queue: they cannot help it, and one blocked queue must not block all others.
    fn first(
        &self,
        workspace: &WorkspaceName,
        resource: &Resource,
        place: PlaceOf<'_>,
    ) -> Result<Blocker, Undecided> {
        let mut ahead = Blocker::default();
        let account = self.account(workspace)?;
        if account.admitting != AccountState::Open {
            return Ok(ahead);
        }
        let line = self.loaded_queue(workspace);
        let asks = |waits: &QueuedWorkload| gpus(waits).any(|asked| asked == resource);
        // A workload that waits for another kind blocks a claimant of `resource` only through a workload that requests both kinds.
        let chained = line.iter().any(|waits| gpus(waits).nth(1).is_some());
        let counts = |waits: &&QueuedWorkload| {
            (chained || asks(waits))
                && place_of(waits) < place
                && overdue(&self.rules, self.now, waits.entered_at)
        };
        let mut old: Vec<&QueuedWorkload> = line.iter().filter(counts).collect();
        old.sort_by_key(|waits| place_of(waits));
        let mut known = BTreeMap::new();
        let mut serves = |waits, whose| -> Result<bool, Undecided> {
            let case = (whose, self.serves_inputs(account, waits));
            if let Some(serves) = known.get(&case) {
                return Ok(*serves);
            }
            let serves = self.serves(workspace, account, waits, whose)?;
            known.insert(case, serves);
            Ok(serves)
        };
        let mut held: BTreeSet<&Resource> = BTreeSet::new();
        for waits in old {
            if !serves(waits, BlockScope::Line)? {
                continue;
            }
            let free = !gpus(waits).any(|asked| held.contains(asked));
            if asks(waits) {
                let owned = || (waits.since, waits.workload.clone());
                ahead.of_line.get_or_insert_with(owned);
                if free && serves(waits, BlockScope::All)? {
                    ahead.of_all = Some(owned());
                    break;
                }
            }
            held.extend(gpus(waits));
            if held.contains(resource) {
                break;
            }
        }
        Ok(ahead)
    }

    /// Returns the inputs of [`serves`](Self::serves) for a queued workload.
    fn serves_inputs<'a>(
        &self,
        account: &Account,
        waits: &'a QueuedWorkload,
    ) -> (&'a Amounts, u64, bool, bool) {
        (&waits.requests, waits.together, self.may_borrow(account, waits), self.cools(waits))
    }

    /// Returns true if the workload benefits when others wait: it could be admitted if no other workspace used anything. In its own queue its workspace's usage
    /// does not matter. Other workspaces cannot make room there, nor end its cool-down or a limit.
    fn serves(
        &self,
        workspace: &WorkspaceName,
        account: &Account,
        waits: &QueuedWorkload,
        whose: BlockScope,
    ) -> Result<bool, Undecided> {
        let may_borrow = self.may_borrow(account, waits);
        for (resource, amount) in &waits.requests {
            let (balance, taken, barred) = match whose {
                BlockScope::Line => (account.balance(resource), 0, false),
                BlockScope::All => {
                    let balance = self.effective(workspace, resource)?;
                    let borrows = balance.in_use().saturating_add(*amount) > balance.allowance.nominal;
                    let may = may_borrow && !self.cools(waits) && !self.lendable(workspace, resource).1;
                    (balance, balance.in_use(), borrows && !may)
                }
            };
            let potential = || self.potential(workspace, &balance.allowance, resource);
            let most = if may_borrow { potential() } else { balance.allowance.nominal };
            let there = resource.gpu().is_none_or(|kind| {
                let nodes = self.occupancy.iter().flat_map(|nodes| &nodes.nodes);
                let rooms = nodes.filter_map(|(id, kinds)| Some((id, kinds.get(kind)?.capacity)));
                best_fit::enough(rooms, *amount, waits.together)
            });
            if barred || !there || taken.saturating_add(*amount) > most {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if a queued workload may borrow and its cool-down has ended.
    pub(in crate::scheduling::admission) fn may_borrow(
        &self,
        account: &Account,
        waits: &QueuedWorkload,
    ) -> bool {
        match waits.class {
            Some(class) => self.borrows(account, waits.preemptible, class),
            None => waits.preemptible && may_borrow_at_all(&self.tenant, account, &self.rules),
        }
    }

    /// Returns true if such a workload of a workspace may borrow.
    pub(in crate::scheduling::admission) fn borrows(
        &self,
        account: &Account,
        preemptible: bool,
        class: WorkloadClass,
    ) -> bool {
        preemptible
            && self.rules.borrowing.contains(&class)
            && may_borrow_at_all(&self.tenant, account, &self.rules)
    }

    /// Returns true if a queued workload was reclaimed recently and may not borrow yet.
    pub(in crate::scheduling::admission) fn cools(&self, waits: &QueuedWorkload) -> bool {
        waits.cooling_until.is_some_and(|until| self.now < until)
    }
}

fn place_of(waits: &QueuedWorkload) -> PlaceOf<'_> {
    (waits.since, waits.workload.as_str())
}

/// Returns the requested GPUs.
fn gpus(waits: &QueuedWorkload) -> impl Iterator<Item = &Resource> {
    waits.requests.iter().filter(|(name, amount)| name.gpu().is_some() && **amount > 0).map(|(name, _)| name)
}

/// Returns true if the wait since `since` has reached the full aging time.
fn overdue(rules: &Rules, now: Timestamp, since: Timestamp) -> bool {
    rules.aged_priority(now.since(since)).1
}
