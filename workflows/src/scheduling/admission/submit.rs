//! Submission and end of a workload.

mod names;

use self::names::{by_aliases, canonical, same_amounts};
use crate::{
    scheduling::admission::{
        AdmissionEffects,
        apply_loans::SettlementCause,
        codes,
        decision::decide::{DecisionOrigin, PendingDecision},
        gpu_allocation::kinds,
        unit_of_work::AdmissionTx,
    },
    tenancy::{
        Admission, AdmissionVerdict, Amounts, Checkpoint, Gpu, Layout, Placed, QueuedWorkload, Resource,
        RunningList, TenantId, TenantState, Workload, WorkloadClass, WorkloadState, WorkspaceName,
        WorkspaceQueue, workspace_key,
    },
};
use engine::{ActionError, Notification, Undecided, View};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;

/// A request to run a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadRequest {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// Its name, unique within the tenant. It can be reused only to correct a rejected request.
    pub name: String,
    /// The class.
    pub class: WorkloadClass,
    /// The priority. A higher value is more important.
    pub priority: i32,
    /// True if it may be evicted for other workloads.
    pub preemptible: bool,
    /// The checkpoint support.
    pub checkpoint: Checkpoint,
    /// The requested amounts, in whole numbers.
    #[serde(deserialize_with = "parse_amounts")]
    pub requests: Amounts,
    /// The number of GPUs that must be on one node. GPUs are assigned in groups of this size. 0 allows any nodes.
    pub together: u64,
    /// Labels that policy pins match.
    pub labels: BTreeSet<String>,
}

/// Parses amounts in the notation of users. Rejects a fraction of a GPU and suggests an alternative (S-49).
///
/// # Errors
/// An amount that is not a whole number; the message suggests an alternative.
pub fn parse_amounts<'de, D: Deserializer<'de>>(from: D) -> Result<Amounts, D::Error> {
    let numbers = BTreeMap::<String, serde_json::Number>::deserialize(from)?;
    let mut amounts = Amounts::new();
    for (text, number) in numbers {
        let resource: Resource = text.parse().map_err(D::Error::custom)?;
        let Some(amount) = number.as_u64() else {
            let instead = match resource.gpu().filter(|kind| kind.profile.is_none()) {
                Some(kind) if Gpu::mig_capable(&kind.model) => {
                    let profile = Layout::Mig.profile(&kind.model).trim_start_matches("all-");
                    format!("request a whole number of slices, such as gpu/{}/{profile}", kind.model)
                }
                Some(kind) => format!("{} has no hardware slices; request whole GPUs", kind.model),
                None => "request a whole number".to_owned(),
            };
            return Err(D::Error::custom(format!("{number} of {resource} is not possible: {instead}")));
        };
        if amounts.insert(resource.clone(), amount).is_some() {
            let problem = format!("{resource} is named twice, once as {text:?}: name it once");
            return Err(D::Error::custom(problem));
        }
    }
    Ok(amounts)
}

/// The longest workload name and label, in characters.
pub const LONGEST_NAME: usize = 64;
/// The most resources and the most labels of one request.
const MOST_NAMED: usize = 8;
/// The largest amount of one resource. Sums of many amounts stay exact.
const LARGEST: u64 = 1 << 40;

impl WorkloadRequest {
    /// Returns the reason why the request is invalid, if it is.
    fn invalid_reason(&self) -> Option<String> {
        let named = |text: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-');
            !text.is_empty() && text.len() <= LONGEST_NAME && text.chars().all(allowed)
        };
        let rule = format!("1 to {LONGEST_NAME} letters, digits, `.`, `_`, `:` and `-`");
        if !named(&self.name) {
            return Some(format!(
                "name: {:?} is not valid; use {rule}",
                self.name.chars().take(80).collect::<String>()
            ));
        }
        if let Some(label) = self.labels.iter().find(|label| !named(label)) {
            return Some(format!(
                "labels: {:?} is not valid; use {rule}",
                label.chars().take(80).collect::<String>()
            ));
        }
        if self.labels.len() > MOST_NAMED || self.requests.len() > MOST_NAMED {
            return Some(format!("labels, requests: at most {MOST_NAMED} of each are allowed"));
        }
        if self.requests.is_empty() {
            return Some("requests: request at least one resource".to_owned());
        }
        let (resource, amount) =
            self.requests.iter().find(|(_, amount)| **amount == 0 || **amount > LARGEST)?;
        Some(format!("requests: {amount} of {resource} is not allowed; use 1 to {LARGEST}"))
    }

    fn workload(&self, now: Timestamp) -> Workload {
        Workload {
            name: self.name.clone(),
            tenant: self.tenant.clone(),
            workspace: self.workspace.clone(),
            class: self.class,
            priority: self.priority,
            preemptible: self.preemptible,
            checkpoint: self.checkpoint,
            requests: self.requests.clone(),
            together: self.together,
            labels: self.labels.clone(),
            state: WorkloadState::Waiting,
            placed: Vec::new(),
            observed: None,
            submitted_at: now,
            admitted_at: None,
            ended_at: None,
            evictions: 0,
            decision: String::new(),
        }
    }

    /// Returns true if `workload` was submitted with the same content.
    fn matches(&self, view: &mut View, workload: &Workload) -> Result<bool, Undecided> {
        let asked = Workload { requests: Amounts::new(), ..self.workload(workload.submitted_at) };
        let stands = Workload {
            requests: Amounts::new(),
            state: asked.state.clone(),
            placed: Vec::new(),
            observed: None,
            admitted_at: None,
            ended_at: None,
            evictions: 0,
            decision: String::new(),
            ..workload.clone()
        };
        Ok(asked == stands && same_amounts(view, &self.requests, &workload.requests)?)
    }
}

/// The result of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SubmitOutcome {
    /// The decision in force.
    pub admission: Admission,
    /// The GPUs, if it was admitted.
    pub placed: Vec<Placed>,
    /// Other effects of the commit.
    pub news: AdmissionEffects,
}

/// The result of an end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FinishOutcome {
    /// Other effects of the commit.
    pub news: AdmissionEffects,
}

/// Decides on a workload and commits the result: its GPUs and loans, or its place in the queue. A repeated request returns the decision in force.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `workload.invalid`, `workload.differs` for other content under the name,
/// `workspace.unknown`, `line.full`, `tenant.leaves`, and `ledger.missing` for an unknown tenant.
pub fn submit(view: &mut View, request: &WorkloadRequest) -> Result<SubmitOutcome, Undecided> {
    if let Some(flaw) = request.invalid_reason() {
        return Err(ActionError::permanent(codes::INVALID, flaw).into());
    }
    let requests = by_aliases(view, &request.tenant, &request.requests)?;
    let request = &WorkloadRequest { requests, ..request.clone() };
    let key = Workload::key(&request.tenant, &request.name);
    let line = workspace_key(&request.tenant, &request.workspace);
    let part = RunningList::key(&request.tenant, &request.workspace, RunningList::part_of(&request.name));
    let wants = [
        view.prefetch::<Workload>([key.as_str()]),
        view.prefetch::<WorkspaceQueue>([line]),
        view.prefetch::<RunningList>([part]),
    ];
    if let Some(there) = known(view, &wants, &key)? {
        let same = request.matches(view, &there)?;
        let is_named_alike = canonical(&request.requests) == canonical(&there.requests);
        if same && is_named_alike || !never_ran(&there) {
            return stands(view, same, there);
        }
    }
    let mut desk = AdmissionTx::open(view, &request.tenant, wants)?;
    if let TenantState::Leaving | TenantState::Destroying | TenantState::Closed = desk.tenant.state {
        let state: &str = desk.tenant.state.into();
        let problem = format!("tenant {} is {state}, and accepts no new workloads", request.tenant);
        return Err(ActionError::permanent(codes::TENANT_LEAVES, problem).into());
    }
    desk.check_name(view, &request.name)?;
    let mut workload = request.workload(desk.now);
    workload.requests = desk.as_named_in_books(workload.requests);
    desk.account(&request.workspace)?;
    desk.prefetch_request(view, &workload)?;
    let decided = desk.decide(view, &workload, DecisionOrigin::New)?;
    let (admission, placed) = match decided.admission.answer {
        AdmissionVerdict::Admit => {
            let admission = desk.admit(view, workload, decided)?;
            let placed = desk.need_workload(view, &request.name)?.placed;
            (admission, placed)
        }
        AdmissionVerdict::Queue => {
            if let Some(notice) = fits_no_node(&workload, &decided.admission) {
                view.put(&notice)?;
            }
            (desk.queue(view, workload, decided)?, Vec::new())
        }
        AdmissionVerdict::Reject => {
            let admission = desk.record(decided.admission);
            let decision = Admission::key(&desk.tenant.id, admission.number);
            desk.put_workload(Workload { state: WorkloadState::Rejected, decision, ..workload });
            (admission, Vec::new())
        }
    };
    desk.demands(view)?;
    let news = desk.save(view)?;
    Ok(SubmitOutcome { admission, placed, news })
}

/// Returns the workload of that name, if any, once all wanted documents are loaded.
fn known(view: &mut View, wants: &[Result<(), Undecided>], key: &str) -> Result<Option<Workload>, Undecided> {
    if wants.iter().any(Result::is_err) { Ok(None) } else { view.get::<Workload>(key) }
}

/// Returns true if `workload` was rejected and so never ran. Its name can be reused for other content, or after a GPU model was renamed.
fn never_ran(workload: &Workload) -> bool {
    workload.state == WorkloadState::Rejected && workload.admitted_at.is_none() && workload.evictions == 0
}

/// Returns the decision in force on an existing workload, for a request with the same content.
fn stands(view: &mut View, same: bool, there: Workload) -> Result<SubmitOutcome, Undecided> {
    if !same {
        let problem =
            format!("workload {} of tenant {} already exists with other content", there.name, there.tenant);
        return Err(ActionError::permanent(codes::DIFFERS, problem).into());
    }
    let admission = view.require::<Admission>(&there.decision)?;
    Ok(SubmitOutcome { admission, placed: there.placed, news: AdmissionEffects::default() })
}

/// Ends a workload or withdraws it: frees its GPUs and admits queued workloads in the same commit. GPUs of a reclaim's victim go to the demand (I-10). Safe to
/// repeat.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `workload.unknown`.
pub fn finish(view: &mut View, tenant: &TenantId, name: &str) -> Result<FinishOutcome, Undecided> {
    let key = Workload::key(tenant, name);
    let mut desk = AdmissionTx::open(view, tenant, [view.prefetch::<Workload>([key])])?;
    let Some(workload) = desk.workload(view, name)?.cloned() else {
        let problem = format!("tenant {tenant} has no workload {name}");
        return Err(ActionError::permanent(codes::UNKNOWN_WORKLOAD, problem).into());
    };
    match &workload.state {
        WorkloadState::Finished | WorkloadState::Rejected => return Ok(FinishOutcome::default()),
        WorkloadState::Waiting => {
            desk.change_line(view, &workload.workspace, |line| {
                line.waiting.retain(|waits| waits.workload != name);
            })?;
            desk.withdraw(view, name)?;
        }
        WorkloadState::Admitted | WorkloadState::Reclaimed { .. } => {
            desk.prefetch_end(view, &workload)?;
            desk.vacate(view, &workload, SettlementCause::Ended(name))?;
        }
    }
    desk.put_workload(Workload { state: WorkloadState::Finished, placed: Vec::new(), ..workload });
    desk.admit_waiting(view)?;
    let news = desk.save(view)?;
    Ok(FinishOutcome { news })
}

/// Returns the notice that a workload needs a larger node than the tenant has.
fn fits_no_node(workload: &Workload, decided: &Admission) -> Option<Notification> {
    let finding = decided.weighed.iter().find(|finding| finding.code == codes::NODES_TOO_SMALL)?;
    let about = format!("{}/{}", workload.tenant, workload.name);
    Some(Notification {
        id: format!("{about}.{}", codes::NODES_TOO_SMALL),
        kind: "workload.fits_no_node".into(),
        reason: None,
        tenant: workload.tenant.to_string(),
        to: vec!["tenant_owner".into(), "platform_ops".into()],
        text: format!("{about}: {}", finding.why),
        about,
        at: decided.at,
    })
}

impl AdmissionTx {
    /// Puts a workload into its queue.
    fn queue(
        &mut self,
        view: &mut View,
        workload: Workload,
        decided: PendingDecision,
    ) -> Result<Admission, Undecided> {
        let most =
            usize::try_from(self.rules.line_limit).unwrap_or(WorkspaceQueue::MOST).min(WorkspaceQueue::MOST);
        let line = self.queue_of(view, &workload.workspace)?;
        let (length, bytes) =
            (line.waiting.len(), serde_json::to_vec(line).map_or(usize::MAX, |line| line.len()));
        if length >= most || bytes > WorkspaceQueue::LONGEST {
            let problem = format!(
                "{length} workloads of workspace {} are queued, which is the limit",
                workload.workspace
            );
            return Err(ActionError::permanent(codes::LINE_FULL, problem).into());
        }
        let admission = self.record(decided.admission);
        let decision = Admission::key(&self.tenant.id, admission.number);
        let workload = Workload { decision, ..workload };
        self.insert_in_queue(view, &workload, None)?;
        self.put_workload(workload);
        Ok(admission)
    }

    /// Inserts a workload into the queue by priority, then age, then name.
    pub(super) fn insert_in_queue(
        &mut self,
        view: &mut View,
        workload: &Workload,
        cooling_until: Option<Timestamp>,
    ) -> Result<(), Undecided> {
        let waits = QueuedWorkload {
            workload: workload.name.clone(),
            priority: workload.priority,
            since: workload.submitted_at,
            entered_at: self.now,
            requests: workload.requests.clone(),
            together: workload.together,
            preemptible: workload.preemptible,
            class: Some(workload.class),
            demanded_at: None,
            cooling_until,
        };
        self.change_line(view, &workload.workspace, |line| {
            line.waiting.push(waits);
            line.waiting
                .sort_by(|a, b| (b.priority, a.since, &a.workload).cmp(&(a.priority, b.since, &b.workload)));
        })
    }

    /// Releases everything that a running workload uses. The demand of its reclaim gets the GPUs that it lacks; the rest is free.
    pub(super) fn vacate(
        &mut self,
        view: &mut View,
        workload: &Workload,
        cause: SettlementCause<'_>,
    ) -> Result<(), Undecided> {
        self.release_gpus(view, &workload.name, None, &workload.placed)?;
        for (resource, amount) in &workload.requests {
            self.use_less(&workload.workspace, resource, *amount)?;
        }
        let roster = self.roster_mut(view, &workload.workspace, &workload.name)?;
        roster.running.remove(&workload.name);
        for (kind, amount) in kinds(workload) {
            let resource = Resource::Gpu(kind.clone());
            self.settle_loans(view, &resource, cause)?;
            if let WorkloadState::Reclaimed { by } = workload.state {
                self.hand_over(view, &resource, by, workload, amount)?;
            }
        }
        Ok(())
    }
}
