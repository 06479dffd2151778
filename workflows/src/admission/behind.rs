//! Who has waited so long that others wait behind it.

use super::{Rules, desk::Desk, place, weigh::may_borrow_at_all};
use crate::tenancy::{Admitting, Ground, InLine, Line, Resource, Workload, WorkspaceName, workspace_key};
use engine::{Undecided, View};
use std::collections::BTreeSet;
use store::Timestamp;

/// A place in line: the older comes first, then by name.
type Place<'a> = (Timestamp, &'a str);

/// Somebody who must be served first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    /// Who.
    pub(super) workload: String,
    /// Whether every younger one that borrows waits behind somebody as old, wherever it is; else only its own line does.
    pub(super) of_all: bool,
}

/// Who waits behind somebody overdue.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// Those of the same line.
    Line,
    /// Those who borrow, of all workspaces.
    All,
}

impl Desk {
    /// Whether a workload must wait behind another for something, to be asked before all else is weighed.
    pub(super) fn is_behind(
        &mut self,
        view: &mut View,
        workload: &Workload,
    ) -> Result<Option<(Resource, Ahead)>, Undecided> {
        for resource in workload.requests.keys() {
            let balance = self.effective(&workload.workspace, resource)?;
            let ground = Ground { allowance: balance.allowance, taken: balance.taken(), ..Ground::default() };
            if let Some(ahead) = self.ahead(view, workload, resource, &ground)? {
                return Ok(Some((resource.clone(), ahead)));
            }
        }
        Ok(None)
    }

    /// A workload that has waited so long that this one must wait behind it: in its own line, or in any if this one borrows.
    pub(super) fn ahead(
        &mut self,
        view: &mut View,
        workload: &Workload,
        resource: &Resource,
        ground: &Ground,
    ) -> Result<Option<Ahead>, Undecided> {
        let asked = workload.requests.get(resource).copied().unwrap_or(0);
        if resource.gpu().is_none() || asked == 0 {
            return Ok(None);
        }
        let borrows = ground.taken.saturating_add(asked) > ground.allowance.nominal;
        let old = self.cohort.accounts.iter().filter(|(name, account)| {
            let counts = borrows || **name == workload.workspace;
            counts && account.oldest.is_some_and(|since| overdue(&self.rules, self.now, since))
        });
        let old: Vec<WorkspaceName> = old.map(|(name, _)| name.clone()).collect();
        view.want::<Line>(old.iter().map(|name| workspace_key(&self.tenant.id, name)))?;
        for workspace in &old {
            self.line(view, workspace)?;
        }
        let place = (workload.submitted_at, workload.name.as_str());
        let (mut first, mut of_all): (Option<Place<'_>>, bool) = (None, false);
        for workspace in &old {
            let all = if borrows { self.first(workspace, resource, place, Whose::All)? } else { None };
            let mut of_line = None;
            if *workspace == workload.workspace {
                of_line = self.first(workspace, resource, place, Whose::Line)?;
            }
            of_all |= all.is_some();
            first = [first, all, of_line].into_iter().flatten().min();
        }
        Ok(first.map(|(_, name)| Ahead { workload: name.to_owned(), of_all }))
    }

    /// The first of a line who is overdue, waits for `resource`, comes before `place`, and whom it serves that others wait. Those of
    /// other workspaces do not wait for one that waits behind another of its own line: that they cannot help, and one line that
    /// stands still must not have all others stand still.
    fn first(
        &self,
        workspace: &WorkspaceName,
        resource: &Resource,
        place: Place<'_>,
        whose: Whose,
    ) -> Result<Option<Place<'_>>, Undecided> {
        let line = self.kept_line(workspace);
        let asks = |waits: &InLine| gpus(waits).any(|asked| asked == resource);
        // One that waits for another kind holds back none who asks for `resource`, but through one who asks for both.
        let chained = matches!(whose, Whose::All) && line.iter().any(|waits| gpus(waits).nth(1).is_some());
        let mut held: BTreeSet<&Resource> = BTreeSet::new();
        let (mut in_vain, mut seen): (Vec<&InLine>, Option<Place<'_>>) = (Vec::new(), None);
        loop {
            let counts = |waits: &&InLine| {
                (chained || asks(waits))
                    && place_of(waits) < place
                    && seen.is_none_or(|seen| seen < place_of(waits))
                    && overdue(&self.rules, self.now, waits.entered_at)
                    && !in_vain.iter().any(|other| alike(other, waits))
            };
            let Some(waits) = line.iter().filter(counts).min_by_key(|waits| place_of(waits)) else {
                return Ok(None);
            };
            seen = Some(place_of(waits));
            if !self.serves(workspace, waits, Whose::Line)? {
                // What does not serve one of a workspace serves nobody there who asks for the same.
                in_vain.push(waits);
                continue;
            }
            let free = match whose {
                Whose::Line => true,
                Whose::All => {
                    !gpus(waits).any(|asked| held.contains(asked))
                        && self.serves(workspace, waits, Whose::All)?
                }
            };
            if free && asks(waits) {
                return Ok(seen);
            }
            if !free {
                held.extend(gpus(waits));
            }
            if held.contains(resource) {
                return Ok(None);
            }
        }
    }

    /// Whether it serves one who waits that others wait behind it: it could be admitted if nobody else used anything. In its own
    /// line that is so whatever its workspace uses; others cannot make room in there, nor end a cool-down or a limit of it.
    fn serves(&self, workspace: &WorkspaceName, waits: &InLine, whose: Whose) -> Result<bool, Undecided> {
        let account = self.account(workspace)?;
        if account.admitting != Admitting::Open {
            return Ok(false);
        }
        let cools = waits.cooling_until.is_some_and(|until| self.now < until);
        let may_borrow = waits.preemptible && may_borrow_at_all(&self.tenant, account, &self.rules);
        for (resource, amount) in &waits.requests {
            let (balance, taken, barred) = match whose {
                Whose::Line => (account.balance(resource), 0, false),
                Whose::All => {
                    let balance = self.effective(workspace, resource)?;
                    let borrows = balance.taken().saturating_add(*amount) > balance.allowance.nominal;
                    let barred = borrows && (cools || !may_borrow || self.lendable(workspace, resource).1);
                    (balance, balance.taken(), barred)
                }
            };
            let potential = || self.cohort.potential(&balance.allowance, resource);
            let most = if may_borrow { potential() } else { balance.allowance.nominal };
            let there = resource.gpu().is_none_or(|kind| {
                let nodes = self.occupancy.iter().flat_map(|nodes| &nodes.nodes);
                let rooms = nodes.filter_map(|(id, kinds)| Some((id, kinds.get(kind)?.capacity)));
                place::enough(rooms, *amount, waits.together)
            });
            if barred || !there || taken.saturating_add(*amount) > most {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn place_of(waits: &InLine) -> Place<'_> {
    (waits.since, waits.workload.as_str())
}

/// The GPUs that it asks for.
fn gpus(waits: &InLine) -> impl Iterator<Item = &Resource> {
    waits.requests.iter().filter(|(name, amount)| name.gpu().is_some() && **amount > 0).map(|(name, _)| name)
}

/// Whether two of a line ask for the same.
fn alike(one: &InLine, other: &InLine) -> bool {
    one.requests == other.requests && one.together == other.together && one.preemptible == other.preemptible
}

/// Whether it has waited since `since` as long as waiting counts.
fn overdue(rules: &Rules, now: Timestamp, since: Timestamp) -> bool {
    rules.raised(now.since(since)).1
}
