//! The problem codes of the API, with status, title and remedy. `docs/http-api.md` lists them.

use strum::VariantArray as _;

/// The code of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::VariantArray)]
pub(crate) enum ProblemCode {
    Malformed,
    DocumentInvalid,
    QueryInvalid,
    FilterMisread,
    EventUnknown,
    IdAmbiguous,
    NoToken,
    BadToken,
    Forbidden,
    CrossCluster,
    ForeignTenant,
    LoginOff,
    LoginRefused,
    LoginNoRole,
    LoginUnavailable,
    NotFound,
    NoRoute,
    NoMethod,
    TooLarge,
    TooSlow,
    MediaType,
    Stale,
    StaleRevision,
    StaleTag,
    HeaderUnsupported,
    Conflict,
    Contended,
    Busy,
    Finished,
    PastPivot,
    Unexpected,
    Unwinding,
    Already,
    SignalNotAwaited,
    RepairNotNow,
    RepairInvalid,
    RepairObservation,
    SamePerson,
    NeedsSecond,
    OwnRequest,
    NotEntitled,
    NotAPerson,
    Decided,
    VotedBefore,
    PlanChanged,
    ForRequester,
    NotSeparate,
    NotDelegated,
    NoGlass,
    GlassDestroys,
    NoVote,
    DecisionUnexplained,
    ReviewOwn,
    GroupExists,
    DelegationForeign,
    DigestMissing,
    ReasonMissing,
    NotWaiting,
    BatchEmpty,
    BatchTooMany,
    BatchUnseen,
    BatchChanged,
    KeyReused,
    KeyInUse,
    SecretShown,
    KeysOverlap,
    KeyOrphaned,
    UserExists,
    TokenExists,
    HoldPastPivot,
    OwnHold,
    HoldRefused,
    WorkloadRejected,
    WorkloadDiffers,
    LineFull,
    TenantLeaves,
    BeyondNominal,
    ReservationDiffers,
    NodeNotFree,
    ScheduleBuiltIn,
    ScheduleChanged,
    ScheduleRefused,
    Unknown,
    NoWorker,
    Unreadable,
    Destroyed,
    NeedsParent,
    TooManyStreams,
    RateExceeded,
    StoreFull,
    StoreUnavailable,
    StoreHeld,
    StoreFree,
    ClockSkewed,
    Stopping,
    Internal,
}

impl ProblemCode {
    /// Returns the code with the given name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|code| code.facts().0 == name)
    }

    /// Returns true if a repetition of the request always gets the same answer. Other answers are not stored for an `Idempotency-Key`, because the client
    /// should retry.
    #[rustfmt::skip]
    pub(crate) fn is_final(self) -> bool {
        match self {
            Self::LoginUnavailable | Self::Stale | Self::StaleRevision | Self::StaleTag
            | Self::ScheduleChanged | Self::Conflict | Self::Contended | Self::Busy | Self::Unexpected
            | Self::Unwinding | Self::SignalNotAwaited | Self::RepairNotNow | Self::KeyInUse | Self::LineFull | Self::ScheduleRefused
            | Self::NoWorker | Self::TooManyStreams | Self::Unreadable | Self::StoreFull
            | Self::StoreUnavailable | Self::StoreHeld | Self::ClockSkewed | Self::Stopping | Self::TooSlow | Self::KeysOverlap
            | Self::RateExceeded | Self::NodeNotFree | Self::Internal => false,
            Self::Malformed | Self::DocumentInvalid | Self::QueryInvalid | Self::FilterMisread
            | Self::EventUnknown | Self::IdAmbiguous | Self::NoToken | Self::BadToken | Self::Forbidden
            | Self::CrossCluster | Self::ForeignTenant | Self::LoginOff | Self::LoginRefused
            | Self::LoginNoRole | Self::NotFound | Self::NoRoute | Self::NoMethod | Self::TooLarge
            | Self::MediaType | Self::HeaderUnsupported | Self::Finished | Self::PastPivot | Self::Already
            | Self::RepairInvalid | Self::RepairObservation | Self::SamePerson | Self::NeedsSecond | Self::OwnRequest
            | Self::NotEntitled | Self::Decided | Self::VotedBefore | Self::PlanChanged | Self::ForRequester
            | Self::NotSeparate | Self::NotDelegated | Self::NoGlass | Self::GlassDestroys | Self::NoVote
            | Self::DecisionUnexplained | Self::ReviewOwn | Self::GroupExists | Self::DelegationForeign
            | Self::DigestMissing | Self::ReasonMissing | Self::NotWaiting | Self::BatchEmpty
            | Self::BatchTooMany | Self::BatchUnseen | Self::BatchChanged | Self::KeyReused
            | Self::UserExists | Self::HoldPastPivot | Self::OwnHold | Self::HoldRefused
            | Self::WorkloadRejected | Self::WorkloadDiffers | Self::TenantLeaves | Self::BeyondNominal
            | Self::ReservationDiffers | Self::ScheduleBuiltIn | Self::Unknown | Self::Destroyed
            | Self::NeedsParent | Self::StoreFree | Self::NotAPerson | Self::SecretShown | Self::KeyOrphaned
            | Self::TokenExists => true,
        }
    }

    /// Returns the name, status, title and remedy.
    #[rustfmt::skip]
    #[expect(clippy::too_many_lines, reason = "a table: one line per code")]
    pub(crate) fn facts(self) -> (&'static str, u16, &'static str, &'static str) {
        match self {
            Self::Malformed => ("request.malformed", 400, "The request is malformed", "see `detail` and `errors`"),
            Self::DocumentInvalid => ("document.invalid", 422, "The document is invalid", "see `detail` and `errors`; nothing was applied"),
            Self::QueryInvalid => ("query.invalid", 400, "A query parameter is invalid", "`detail` names the valid parameters; `/openapi.json` describes them"),
            Self::FilterMisread => ("filter.misread", 400, "The filter is invalid", "correct it at the position in `detail`; the page \"search\" of the manual describes the syntax"),
            Self::EventUnknown => ("event.unknown_type", 422, "The event type is unknown", "`/openapi.json` lists the types"),
            Self::IdAmbiguous => ("id.ambiguous", 409, "The shortened id matches several executions", "give more characters of the id"),
            Self::NoToken => ("auth.no_token", 401, "The request has no token", "send `Authorization: Bearer TOKEN`; with the CLI, --token or TENURE_TOKEN"),
            Self::BadToken => ("auth.bad_token", 401, "The token is unknown, expired or revoked", "ask an admin for a token: `tenure user token add`, or `tenure user add` for a new user"),
            Self::Forbidden => ("auth.forbidden", 403, "Your roles do not allow this", "ask a user with one of the roles in `detail`"),
            Self::CrossCluster => ("auth.cross_cluster_attempt", 403, "The key belongs to another cluster", "use the key of this cluster; the attempt is in the audit"),
            Self::ForeignTenant => ("auth.foreign_tenant", 403, "Your token is bound to one tenant", "ask a user of the operator"),
            Self::LoginOff => ("login.not_offered", 404, "This sign-in method is disabled", "use a token of `tenure user add`, or ask an admin to configure `oidc`; see the page \"access\" of the manual"),
            Self::LoginRefused => ("login.refused", 401, "Authentication failed", "sign in again; `detail` says what failed"),
            Self::LoginNoRole => ("login.no_role", 403, "Your groups give you no role", "ask to join a group of `oidc.groups`; `detail` lists the groups that the provider sent"),
            Self::LoginUnavailable => ("login.unavailable", 503, "The identity provider does not answer", "try again; existing sessions and tokens of `tenure user add` still work"),
            Self::NotFound => ("resource.not_found", 404, "The resource does not exist", "list the resources of this type; a tenant's token only sees resources of its tenant"),
            Self::NoRoute => ("route.unknown", 404, "The path is unknown", "`/openapi.json` lists the paths"),
            Self::NoMethod => ("route.method", 405, "The path does not support this method", "`/openapi.json` lists the methods"),
            Self::TooLarge => ("request.too_large", 413, "The request is too large", "split it; http.body_limit_bytes is the limit of a body"),
            Self::TooSlow => ("request.timeout", 408, "The request was not received in time", "send it again, faster or in parts; http.read_timeout is the limit"),
            Self::MediaType => ("request.media_type", 415, "The content type is not supported", "send JSON or YAML, without Content-Encoding"),
            Self::Stale => ("execution.stale", 409, "The execution has changed", "read it again"),
            Self::StaleRevision => ("request.stale_revision", 412, "The revision in If-Match is not current", "read it again, then repeat the request if it still applies"),
            Self::StaleTag => ("request.stale_tag", 412, "The version in If-Match is not current", "read it again, then repeat the request if it still applies"),
            Self::HeaderUnsupported => ("header.unsupported", 400, "The route does not support this header", "remove it; /openapi.json lists the headers of each route"),
            Self::Conflict => ("request.conflict", 409, "The resource has changed", "read it again and repeat the request"),
            Self::Contended => ("request.contended", 503, "Too many concurrent changes", "repeat the request after the delay in Retry-After; nothing was changed"),
            Self::Busy => ("execution.busy", 409, "Another open execution blocks this request", "wait for the execution in `detail`, or cancel it"),
            Self::Finished => ("execution.finished", 409, "The execution has finished", "a finished execution accepts no commands"),
            Self::PastPivot => ("execution.past_pivot", 409, "The execution is past its point of no return", "let it continue; if it is parked, use `retry`"),
            Self::Unexpected => ("execution.unexpected", 409, "The execution does not accept this command now", "see its state: `tenure executions show`"),
            Self::Unwinding => ("execution.unwinding", 409, "The execution is already being rolled back", "wait until it has finished"),
            Self::Already => ("execution.already", 409, "The command is already in effect", "nothing to do"),
            Self::SignalNotAwaited => ("signal.not_awaited", 409, "The execution does not wait for this signal now", "`detail` names the signal that it waits for; nothing was changed"),
            Self::RepairNotNow => ("repair.not_now", 409, "The execution does not allow this repair now", "`detail` says what to do first"),
            Self::RepairInvalid => ("repair.invalid", 422, "The repair is invalid", "`detail` names the field and its error; nothing was changed"),
            Self::RepairObservation => ("repair.observation", 422, "The outcome of this step cannot be stated by hand", "remove the cause and run `tenure executions retry`, which runs the step again; if the step may be left out, accept an exception with `tenure repair skip`"),
            Self::SamePerson => ("repair.same_person", 403, "You cannot confirm your own command", "ask another person who may repair: `tenure proposals second`"),
            Self::NeedsSecond => ("repair.needs_second", 409, "The command needs a second person", "propose it by itself, and let another person confirm it: `tenure proposals list`"),
            Self::OwnRequest => ("approval.own_request", 403, "You cannot decide on your own request", "ask another person with one of the required roles"),
            Self::NotEntitled => ("approval.not_entitled", 403, "None of your roles may decide on this approval", "ask a user with one of the roles in `detail`"),
            Self::NotAPerson => ("approval.not_a_person", 403, "A service account cannot decide on this approval", "ask a person with one of the required roles, with a token or session of their own"),
            Self::Decided => ("approval.decided", 409, "The approval is already decided", "resume the execution, which then follows the decision, or cancel it"),
            Self::VotedBefore => ("approval.voted_before", 409, "You have already voted", "another person must decide"),
            Self::PlanChanged => ("approval.plan_changed", 409, "The plan has changed since you read it", "read the approval again, then decide"),
            Self::ForRequester => ("approval.for_requester", 403, "A delegate of the requester cannot decide on the request", "ask another person with one of the required roles"),
            Self::NotSeparate => ("approval.not_separate", 403, "The vote does not come from a separate person", "let an admin run `tenure user enrol NAME`, claim with `tenure login --enrol CODE` or sign in through the identity provider, and vote again; for a trial, `tenure serve --trial`"),
            Self::NotDelegated => ("approval.not_delegated", 403, "No delegation lets you vote for this user", "`tenure delegations list` shows the delegations in effect; ask the user or an admin for one"),
            Self::NoGlass => ("approval.no_break_glass", 403, "Break-glass decisions are not allowed for you", "ask a user in `break_glass` of the policy, or the approvers"),
            Self::GlassDestroys => ("approval.destroys", 403, "A destruction needs more than one approver", "ask the approvers; only a policy with `destroys: true` allows one person to decide"),
            Self::NoVote => ("approval.no_vote", 409, "You have no vote to withdraw", "`tenure approvals show` lists the votes"),
            Self::DecisionUnexplained => ("approval.reason_missing", 422, "The decision has no reason", "send `reason` with at least the length in `detail`"),
            Self::ReviewOwn => ("review.own", 403, "You cannot review your own decision", "ask a person who neither decided nor requested, and is no delegate of either"),
            Self::GroupExists => ("group.exists", 409, "The group already exists", "choose another name, or change the members of the group"),
            Self::DelegationForeign => ("delegation.not_yours", 403, "You may not end this delegation", "ask the delegator, the delegate or an admin"),
            Self::DigestMissing => ("approval.digest_missing", 422, "The decision names no plan", "send the `digest` of the plan that you read"),
            Self::ReasonMissing => ("request.reason_missing", 422, "A reason is required", "send `reason`"),
            Self::BatchEmpty => ("batch.empty", 422, "The filter of the batch is empty, or matches no execution", "select executions with `filter`; preview them with GET /v1/executions"),
            Self::BatchTooMany => ("batch.too_many", 422, "More executions match than `cap` allows", "narrow the filter, or raise `cap`"),
            Self::BatchUnseen => ("batch.unseen", 422, "The batch has no preview", "send the request with `dry_run` first, then with the `digest` of its answer"),
            Self::BatchChanged => ("batch.changed", 409, "The matching executions have changed since the preview", "read `preview`, and send its digest to confirm"),
            Self::NotWaiting => ("approval.not_waiting", 404, "The execution does not wait for an approval", "`tenure approvals list` shows the open approvals"),
            Self::KeyReused => ("idempotency.key_reused", 422, "The idempotency key was used for another request", "use a new key"),
            Self::KeyInUse => ("idempotency.in_progress", 409, "A request with this idempotency key is in progress", "repeat the request after a moment"),
            Self::SecretShown => ("idempotency.secret_shown", 409, "The first answer contained a secret, which is not stored", "the first request took effect: if its secret is lost, revoke it and send the request under a new key"),
            Self::KeysOverlap => ("cluster_key.overlaps", 409, "The cluster already has two valid keys", "wait until the older one expires; `overlap` 0 ends both, `lost` replaces a key that was never delivered"),
            Self::KeyOrphaned => ("cluster_key.orphaned", 409, "The cluster has no owner", "nothing to do: the next owner of the cluster gets a new key"),
            Self::UserExists => ("user.exists", 409, "The user already exists", "choose another name, or remove the user first"),
            Self::TokenExists => ("token.exists", 409, "The user already has a token with this name", "choose another name, or remove that token first"),
            Self::HoldPastPivot => ("hold.past_pivot", 409, "The destruction has already begun", "`still_there` lists the data that still exists: preserve it outside of Tenure"),
            Self::OwnHold => ("hold.own", 403, "You cannot release your own legal hold", "ask another person who may release holds"),
            Self::HoldRefused => ("hold.refused", 409, "The legal hold cannot be placed or released", "`detail` names the rule"),
            Self::WorkloadRejected => ("workload.rejected", 422, "The workload can never be admitted in this form", "correct the fields in `weighed`, and send it again under the same name"),
            Self::WorkloadDiffers => ("workload.differs", 409, "A workload with other content already has this name", "choose another name; only a rejected workload can be corrected under its name"),
            Self::TenantLeaves => ("tenant.leaves", 409, "The tenant is being offboarded", "cancel the offboarding before its destruction begins, or wait until it has finished"),
            Self::LineFull => ("line.full", 409, "The queue of the workspace is full", "wait until it is shorter, or raise admission.line_limit in the policy"),
            Self::BeyondNominal => ("reservation.beyond_nominal", 422, "The reservations exceed the nominal quota of the workspace", "reserve less, or raise the quota first"),
            Self::ReservationDiffers => ("reservation.differs", 409, "A reservation with other terms already has this name", "choose another name, or remove the reservation first"),
            Self::NodeNotFree => ("node.not_free", 409, "The node is not free", "offboard the tenant of the node (`tenure tenant offboard`), then free the node once it is sanitised"),
            Self::ScheduleBuiltIn => ("schedule.built_in", 409, "The schedule is built in", "pause it, or publish a policy with other times for the sweep"),
            Self::ScheduleChanged => ("schedule.changed", 412, "The version of the schedule in If-Match is not current", "read it again, then repeat the request if it still applies"),
            Self::ScheduleRefused => ("schedule.refused", 409, "The schedule does not accept this command now", "see `detail`, and the page \"schedules\" of the manual"),
            Self::Unknown => ("ledger.missing", 404, "The ledger has no such entry", "check the names; `detail` says which one is unknown"),
            Self::NoWorker => ("execution.no_worker", 409, "This version does not know the workflow or its schema", "run a version of Tenure that does"),
            Self::Unreadable => ("execution.unreadable", 500, "A stored record cannot be read", "`tenure store check` names it; other records are not affected"),
            Self::Destroyed => ("execution.destroyed", 410, "The content was destroyed with the tenant's record key", "nothing to do: offboarding destroys it; the list and the audit still have its metadata"),
            Self::NeedsParent => ("execution.needs_parent", 409, "The workflow runs only as a child", "start the parent workflow"),
            Self::TooManyStreams => ("stream.too_many", 429, "Too many streams are open", "close one, or try again later; http.streams and http.streams_per_token are the limits"),
            Self::RateExceeded => ("rate.exceeded", 429, "Too many requests from one caller", "wait for the delay in Retry-After; http.rate and http.rate_burst are the limits"),
            Self::StoreFull => ("store.full", 507, "The disk is full", "free disk space; nothing is lost, and work continues without a restart"),
            Self::StoreUnavailable => ("store.unavailable", 503, "The store does not answer", "repeat with the same Idempotency-Key; see /readyz"),
            Self::StoreHeld => ("store.held", 503, "The store is on hold", "try again later; users of the operator see the reason, and how to release it, with `tenure store held`"),
            Self::StoreFree => ("store.not_held", 409, "The store is not on hold in this way", "check it: `tenure store held`"),
            Self::ClockSkewed => ("clock.skewed", 503, "The clocks of the server and the database differ", "synchronise both with NTP; the server accepts requests when they agree"),
            Self::Stopping => ("server.stopping", 503, "The server is stopping", "repeat the request after a moment"),
            Self::Internal => ("server.error", 500, "Internal error", "report it with the request id; the log has the details"),
        }
    }
}

/// Returns the name, status, title and remedy of every code.
#[must_use]
pub fn codes() -> Vec<(&'static str, u16, &'static str, &'static str)> {
    ProblemCode::VARIANTS.iter().map(|code| code.facts()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_named_once() {
        let mut names: Vec<_> = codes().into_iter().map(|(name, ..)| name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
