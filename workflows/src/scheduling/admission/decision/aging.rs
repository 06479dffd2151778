//! Who has waited so long that others wait behind it.

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

/// A place in line: the older comes first, then by name.
pub(in crate::scheduling::admission) type QueuePosition = (Timestamp, String);
type PlaceOf<'a> = (Timestamp, &'a str);

/// Who asks, of which workspace, for how much.
#[derive(Clone, Copy, Debug)]
pub(in crate::scheduling::admission) struct Claimant<'a> {
    workspace: &'a WorkspaceName,
    place: PlaceOf<'a>,
    requested: u64,
}

impl<'a> Claimant<'a> {
    /// A workload that asks for `resource`.
    pub(in crate::scheduling::admission) fn new(workload: &'a Workload, resource: &Resource) -> Self {
        let asked = workload.requests.get(resource).copied().unwrap_or(0);
        let place = (workload.submitted_at, workload.name.as_str());
        Self { workspace: &workload.workspace, place, requested: asked }
    }
}

/// Who must be served first, of those who ask for the same kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::scheduling::admission) struct Blocker {
    /// Whoever is younger in the line of the one who asks waits behind this one.
    pub(in crate::scheduling::admission) of_line: Option<QueuePosition>,
    /// Whoever is younger and borrows waits behind this one, wherever it is.
    pub(in crate::scheduling::admission) of_all: Option<QueuePosition>,
}

impl Blocker {
    /// The oldest of them.
    pub(in crate::scheduling::admission) fn first(&self) -> Option<&QueuePosition> {
        [&self.of_line, &self.of_all].into_iter().flatten().min()
    }
}

/// Who waits behind somebody overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BlockScope {
    /// Those of the same line.
    Line,
    /// Those who borrow, of all workspaces.
    All,
}

impl AdmissionTx {
    /// Whether one that waits must wait behind another for something, to be asked before all else is weighed.
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

    /// Who has waited so long that the one who asks must wait behind it: in its own line, or in any if it borrows.
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

    /// The first of a line who is overdue, waits for `resource`, comes before `place`, and whom it serves that others wait. Those of
    /// other workspaces do not wait for one that waits behind another of its own line: that they cannot help, and one line that
    /// stands still must not have all others stand still.
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
        // One that waits for another kind holds back none who asks for `resource`, but through one who asks for both.
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

    /// What [`serves`](Self::serves) looks at of one that waits.
    fn serves_inputs<'a>(
        &self,
        account: &Account,
        waits: &'a QueuedWorkload,
    ) -> (&'a Amounts, u64, bool, bool) {
        (&waits.requests, waits.together, self.may_borrow(account, waits), self.cools(waits))
    }

    /// Whether it serves one who waits that others wait behind it: it could be admitted if nobody else used anything. In its own
    /// line that is so whatever its workspace uses; others cannot make room in there, nor end a cool-down or a limit of it.
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

    /// Whether one that waits may use what is others', once it has cooled down.
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

    /// Whether such work of a workspace may use what is others'.
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

    /// Whether one that waits was called back so lately that it borrows nothing.
    pub(in crate::scheduling::admission) fn cools(&self, waits: &QueuedWorkload) -> bool {
        waits.cooling_until.is_some_and(|until| self.now < until)
    }
}

fn place_of(waits: &QueuedWorkload) -> PlaceOf<'_> {
    (waits.since, waits.workload.as_str())
}

/// The GPUs that it asks for.
fn gpus(waits: &QueuedWorkload) -> impl Iterator<Item = &Resource> {
    waits.requests.iter().filter(|(name, amount)| name.gpu().is_some() && **amount > 0).map(|(name, _)| name)
}

/// Whether it has waited since `since` as long as waiting counts.
fn overdue(rules: &Rules, now: Timestamp, since: Timestamp) -> bool {
    rules.aged_priority(now.since(since)).1
}
