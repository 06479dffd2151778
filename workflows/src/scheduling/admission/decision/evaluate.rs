//! The decision: takes facts and policy, returns a finding in every dimension. Pure.

use crate::{
    policy::decisions::{BorrowRefusal, Borrower, borrow_refusals},
    scheduling::admission::{Rules, codes},
    tenancy::{
        Account, AdmissionFacts, AdmissionVerdict, Dimension, DimensionFinding, Resource, ResourceFacts,
        Tenant,
    },
};

/// Decides on a workload (S-37 to S-42). Rejects a new workload only if it can never be admitted: it exceeds the nominal quota plus the borrowing limit, or all
/// workspaces together, or policy forbids it. Otherwise it waits until every finding allows it. A workload that waits or ran before is never rejected, because
/// quotas can be raised again.
#[must_use]
pub fn admit(grounds: &AdmissionFacts, rules: &Rules) -> (AdmissionVerdict, Vec<DimensionFinding>) {
    let mut weighed = Vec::new();
    let may_borrow = may_borrow(grounds, rules);
    for (resource, ground) in &grounds.resources {
        let asked = grounds.requests.get(resource).copied().unwrap_or(0);
        let scale = Evaluator { resource, facts: ground, requested: asked, may_borrow: may_borrow.is_ok() };
        weighed.push(scale.quota());
        if resource.gpu().is_some() {
            weighed.push(scale.reservation());
            weighed.push(scale.borrowable());
            weighed.push(scale.ownership(grounds.together));
            weighed.push(scale.availability(grounds.together));
            if let Err(why) = may_borrow {
                weighed.push(scale.borrowing(why));
            }
        }
    }
    weighed.push(freshness(grounds, rules));
    weighed.extend(policy(grounds, rules));
    for finding in
        weighed.iter_mut().filter(|finding| grounds.queued && finding.answer == AdmissionVerdict::Reject)
    {
        finding.answer = AdmissionVerdict::Queue;
    }
    let answer = weighed.iter().map(|finding| finding.answer).max_by_key(|answer| severity(*answer));
    (answer.unwrap_or(AdmissionVerdict::Admit), weighed)
}

/// Returns whether the workload may borrow.
///
/// # Errors
/// The code and the reason of the refusal.
pub(in crate::scheduling::admission) fn may_borrow(
    grounds: &AdmissionFacts,
    rules: &Rules,
) -> Result<(), (&'static str, &'static str)> {
    let borrower = Borrower {
        preemptible: grounds.preemptible,
        allow_preemption: grounds.allow_preemption,
        class: grounds.workspace_class,
        workload: grounds.class,
    };
    Err(match borrow_refusals(&borrower, &rules.borrowers, &rules.borrowing).first() {
        None => return Ok(()),
        Some(BorrowRefusal::NotPreemptible) => (
            "policy.not_preemptible",
            "a workload that may not be evicted cannot borrow, because its GPUs could not be reclaimed",
        ),
        Some(BorrowRefusal::NoPreemption) => {
            ("policy.no_preemption", "the workloads of the tenant may not be evicted, so they cannot borrow")
        }
        Some(BorrowRefusal::Class) => {
            ("policy.class_borrows_not", "workspaces of this class may not borrow (policy `lending.classes`)")
        }
        Some(BorrowRefusal::Workload) => {
            ("policy.work_borrows_not", "workloads of this class may not borrow (policy `lending.workloads`)")
        }
    })
}

/// Returns true if any workload of a workspace may borrow.
pub(in crate::scheduling::admission) fn may_borrow_at_all(
    tenant: &Tenant,
    account: &Account,
    rules: &Rules,
) -> bool {
    tenant.allow_preemption && rules.borrowers.contains(&account.class)
}

fn severity(answer: AdmissionVerdict) -> u8 {
    match answer {
        AdmissionVerdict::Admit => 0,
        AdmissionVerdict::Queue => 1,
        AdmissionVerdict::Reject => 2,
    }
}

/// The evaluation of one resource.
struct Evaluator<'a> {
    resource: &'a Resource,
    facts: &'a ResourceFacts,
    requested: u64,
    may_borrow: bool,
}

impl Evaluator<'_> {
    fn finding(
        &self,
        dimension: Dimension,
        (answer, code): (AdmissionVerdict, &str),
        value: u64,
        limit: Option<u64>,
        why: String,
    ) -> DimensionFinding {
        let (resource, value, code) = (Some(self.resource.clone()), Some(value), code.to_owned());
        DimensionFinding { dimension, resource, answer, value, limit, code, why }
    }

    fn nominal(&self) -> u64 {
        self.facts.allowance.nominal
    }

    /// Returns the most that the workspace may use now; `None` if only the capacity limits it.
    fn usage_limit(&self) -> Option<u64> {
        let own = self.facts.allowance.limit()?;
        self.facts.allowance.borrowing_limit.map(|limit| own.saturating_add(limit))
    }

    /// Returns the usage above the nominal quota if the workload were admitted.
    fn over_nominal(&self) -> u64 {
        self.facts.taken.saturating_add(self.requested).saturating_sub(self.nominal())
    }

    /// Returns how much of that amount this workload adds.
    fn borrow(&self) -> u64 {
        self.over_nominal().min(self.requested)
    }

    fn quota(&self) -> DimensionFinding {
        let (asked, taken, resource) = (self.requested, self.facts.taken, self.resource);
        let most = self.usage_limit();
        let (answer, why) = match (self.facts.ceiling, most) {
            (Some(ceiling), _) if asked > ceiling => {
                let why = format!(
                    "{asked} of {resource} are more than the nominal quota and the borrowing limit together, {ceiling}"
                );
                ((AdmissionVerdict::Reject, "quota.exceeded"), why)
            }
            // A temporarily reduced limit must not reject a workload that may borrow afterwards.
            (_, Some(most)) if self.facts.slowed && taken.saturating_add(asked) > most => {
                let why = format!(
                    "{taken} of {resource} are in use, and {asked} more would exceed {most}: the borrowing limit is reduced for a while, because GPUs were reclaimed from the workspace too often"
                );
                ((AdmissionVerdict::Queue, "quota.slowed"), why)
            }
            (_, Some(most)) if taken.saturating_add(asked) > most => {
                let why = format!("{taken} of {resource} are in use, and {asked} more would exceed {most}");
                ((AdmissionVerdict::Queue, "quota.used_up"), why)
            }
            _ => ((AdmissionVerdict::Admit, "ok"), format!("{asked} of {resource} are within the limits")),
        };
        self.finding(Dimension::Quota, answer, taken.saturating_add(asked), most, why)
    }

    /// Returns true if the request stays within the workspace's own quota.
    fn is_within_quota(&self) -> bool {
        self.over_nominal() == 0
    }

    fn reservation(&self) -> DimensionFinding {
        let (ground, resource) = (self.facts, self.resource);
        let limit = Some(if self.is_within_quota() { ground.available } else { ground.reserved });
        let (answer, why) = if let Some(ahead) = &ground.ahead {
            let why =
                format!("{ahead} has waited so long that later workloads may not take {resource} before it");
            ((AdmissionVerdict::Queue, "line.ahead"), why)
        } else if self.is_within_quota() && (self.requested > ground.available || ground.uncovered > 0) {
            let why = format!(
                "{resource} of the workspace's own quota is lent to others, and must be reclaimed first"
            );
            ((AdmissionVerdict::Queue, "reservation.lent"), why)
        } else {
            ((AdmissionVerdict::Admit, "ok"), "it takes nothing that is reserved for others".to_owned())
        };
        self.finding(Dimension::Reservation, answer, self.requested, limit, why)
    }

    fn borrowable(&self) -> DimensionFinding {
        let (ground, resource, borrow) = (self.facts, self.resource, self.borrow());
        let limit = Some(ground.lendable);
        let full = ground.loans >= crate::tenancy::OpenLoans::MOST as u64;
        let short = ground.uncovered > 0 || borrow > ground.lendable;
        let (answer, why) = if !self.may_borrow || self.is_within_quota() {
            ((AdmissionVerdict::Admit, "ok"), format!("no {resource} must be borrowed"))
        } else if self.requested > ground.potential && !ground.kept_apart {
            let potential = ground.potential;
            let why = format!(
                "even if every lender lends as much {resource} as it may, the workspace can use at most {potential}"
            );
            ((AdmissionVerdict::Reject, "borrow.never"), why)
        } else if full {
            let why = format!("{} loans of {resource} are open, which is the limit", ground.loans);
            ((AdmissionVerdict::Queue, "borrow.too_many"), why)
        } else if self.requested > ground.available || !ground.kept_apart && short {
            let why = format!(
                "{borrow} of {resource} must be borrowed, but others can lend only {} now",
                ground.lendable
            );
            ((AdmissionVerdict::Queue, "borrow.none_idle"), why)
        } else {
            ((AdmissionVerdict::Admit, "ok"), format!("{borrow} of {resource} are borrowed"))
        };
        self.finding(Dimension::Borrowable, answer, borrow, limit, why)
    }

    fn ownership(&self, together: u64) -> DimensionFinding {
        let (ground, resource, asked) = (self.facts, self.resource, self.requested);
        let group = asked.min(together);
        if let Some(largest) = ground.largest.filter(|largest| group > *largest) {
            let why = format!(
                "{group} of {resource} must be on one node, but the tenant's largest node has {largest}: the workload waits for a larger node; request smaller groups to run now"
            );
            let answer = (AdmissionVerdict::Queue, codes::NODES_TOO_SMALL);
            return self.finding(Dimension::Ownership, answer, group, Some(largest), why);
        }
        let short = ground.serving < asked;
        let answer =
            if short { (AdmissionVerdict::Queue, "nodes.too_few") } else { (AdmissionVerdict::Admit, "ok") };
        let mut why = format!("the tenant's own nodes have {} of {resource}", ground.serving);
        if !ground.offered.is_empty() {
            let offered = ground.offered.iter().map(|kind| format!("gpu/{kind}")).collect::<Vec<_>>();
            why.push_str(&format!("; they have {}", offered.join(", ")));
        }
        self.finding(Dimension::Ownership, answer, asked, Some(ground.serving), why)
    }

    fn availability(&self, together: u64) -> DimensionFinding {
        let (ground, resource, asked) = (self.facts, self.resource, self.requested);
        let (answer, why) = if ground.serving < asked {
            (
                (AdmissionVerdict::Admit, "ok"),
                format!("the tenant's nodes have too little {resource}, even if all were free"),
            )
        } else if ground.free < asked {
            ((AdmissionVerdict::Queue, "gpus.busy"), format!("{} of {resource} are free", ground.free))
        } else if !ground.fits {
            let how = match together {
                0 | 1 => "but none where this workspace may use them".to_owned(),
                _ => format!("but not {} together on one node", together.min(asked)),
            };
            let why = format!("{} of {resource} are free, {how}", ground.free);
            ((AdmissionVerdict::Queue, "gpus.fragmented"), why)
        } else {
            ((AdmissionVerdict::Admit, "ok"), format!("{} of {resource} are free", ground.free))
        };
        self.finding(Dimension::Availability, answer, asked, Some(ground.free), why)
    }

    /// A workload that may not borrow waits until its own quota is enough, and is rejected if it can never be.
    fn borrowing(&self, (code, why): (&'static str, &'static str)) -> DimensionFinding {
        let answer = if self.requested > self.nominal() {
            (AdmissionVerdict::Reject, code)
        } else if !self.is_within_quota() {
            (AdmissionVerdict::Queue, code)
        } else {
            (AdmissionVerdict::Admit, "ok")
        };
        self.finding(Dimension::Policy, answer, self.borrow(), Some(0), why.to_owned())
    }
}

/// S-41: an old observation admits nothing.
fn freshness(grounds: &AdmissionFacts, rules: &Rules) -> DimensionFinding {
    let gpus = grounds.requests.iter().any(|(resource, amount)| resource.gpu().is_some() && *amount > 0);
    let stale = gpus && grounds.seen.is_none_or(|seen| seen > rules.max_staleness);
    let secs = |span: std::time::Duration| span.as_secs();
    let why = match grounds.seen {
        Some(seen) => format!("the cluster was last observed {} s ago", secs(seen)),
        None => "the cluster has not been observed yet".to_owned(),
    };
    DimensionFinding {
        dimension: Dimension::Availability,
        resource: None,
        answer: if stale { AdmissionVerdict::Queue } else { AdmissionVerdict::Admit },
        value: grounds.seen.map(secs),
        limit: Some(secs(rules.max_staleness)),
        code: if stale { "facts.stale" } else { "ok" }.to_owned(),
        why,
    }
}

/// Checks the rules of policy. Returns one positive finding if every rule allows the workload.
fn policy(grounds: &AdmissionFacts, rules: &Rules) -> Vec<DimensionFinding> {
    let mut weighed = Vec::new();
    if !grounds.open {
        let why = "the workspace accepts no new workloads".to_owned();
        weighed.push(rule(AdmissionVerdict::Queue, None, "workspace.frozen", why));
    }
    if !grounds.listable {
        let why = "the workspace runs the maximum number of workloads".to_owned();
        weighed.push(rule(AdmissionVerdict::Queue, None, "roster.full", why));
    }
    for (resource, why) in &grounds.refused {
        weighed.push(rule(AdmissionVerdict::Reject, Some(resource), "policy.not_permitted", why.clone()));
    }
    for pin in rules.pins.iter().filter(|pin| grounds.labels.contains(&pin.label)) {
        if let Some((_, cluster)) = grounds.place.as_ref().filter(|(_, cluster)| *cluster != pin.cluster) {
            let (label, only) = (&pin.label, &pin.cluster);
            let why = format!(
                "workloads with the label {label} may only run in cluster {only}, but the tenant's nodes are in {cluster}"
            );
            weighed.push(rule(AdmissionVerdict::Reject, None, "policy.pinned", why));
        }
    }
    for (resource, ground) in grounds.resources.iter().filter(|(resource, _)| resource.gpu().is_some()) {
        let asked = grounds.requests.get(resource).copied().unwrap_or(0);
        let borrows = ground.taken.saturating_add(asked) > ground.allowance.nominal;
        if borrows && grounds.cooling {
            let why = "its GPUs were reclaimed recently, so it may borrow again only later".to_owned();
            weighed.push(rule(AdmissionVerdict::Queue, Some(resource), "borrow.cooling", why));
        }
        if borrows && ground.kept_apart {
            let answer = if asked > ground.allowance.nominal {
                AdmissionVerdict::Reject
            } else {
                AdmissionVerdict::Queue
            };
            let why = format!(
                "every lender of {resource} here has a class that the policy keeps apart from this one"
            );
            weighed.push(rule(answer, Some(resource), "policy.kept_apart", why));
        }
    }
    if weighed.is_empty() {
        let why = format!("policy {}@{} allows it", rules.policy.name, rules.policy.version);
        weighed.push(rule(AdmissionVerdict::Admit, None, "ok", why));
    }
    weighed
}

fn rule(answer: AdmissionVerdict, resource: Option<&Resource>, code: &str, why: String) -> DimensionFinding {
    let (dimension, resource, code) = (Dimension::Policy, resource.cloned(), code.to_owned());
    DimensionFinding { dimension, resource, answer, value: None, limit: None, code, why }
}
