//! Every code that a problem of HTTP can carry: the one table, listed in `docs/http-api.md`.

use strum::VariantArray as _;

/// What a problem is about.
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
    /// The code of that name, if there is one.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::VARIANTS.iter().copied().find(|code| code.facts().0 == name)
    }

    /// Whether asking the same again, with nothing changed, is told the same. Where it is not, or may not be in a moment, the answer is
    /// not kept for an `Idempotency-Key`: its remedy is to ask again.
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

    /// Name, status, title, and what to do.
    #[rustfmt::skip]
    #[expect(clippy::too_many_lines, reason = "a table: one line a code")]
    pub(crate) fn facts(self) -> (&'static str, u16, &'static str, &'static str) {
        match self {
            Self::Malformed => ("request.malformed", 400, "The request cannot be read", "read the detail, and errors where there are any"),
            Self::DocumentInvalid => ("document.invalid", 422, "The document is not valid", "read the detail, and errors where there are any; nothing of the document was applied"),
            Self::QueryInvalid => ("query.invalid", 400, "A parameter of the address is not valid", "use the parameters that the detail names; `/v1/openapi.json` describes each"),
            Self::FilterMisread => ("filter.misread", 400, "The filter cannot be read", "mend it at the position named; the manual, page search, has the words"),
            Self::EventUnknown => ("event.unknown_type", 422, "Nothing is done on events of this type", "`/v1/openapi.json` lists the types"),
            Self::IdAmbiguous => ("id.ambiguous", 409, "The shortened id has several meanings", "write more digits of it"),
            Self::NoToken => ("auth.no_token", 401, "The request carries no token", "send `Authorization: Bearer TOKEN`; with the CLI, --token or TENURE_TOKEN"),
            Self::BadToken => ("auth.bad_token", 401, "The token is not known", "ask an admin for `tenure user token add`, or for `tenure user add`"),
            Self::Forbidden => ("auth.forbidden", 403, "Your roles do not allow this", "ask someone who holds one of the roles named"),
            Self::CrossCluster => ("auth.cross_cluster_attempt", 403, "The key is another cluster's", "use the key that this cluster was given; the attempt is on record"),
            Self::ForeignTenant => ("auth.foreign_tenant", 403, "Your token is bound to one tenant", "ask someone who works for the platform"),
            Self::LoginOff => ("login.not_offered", 404, "Nobody signs in this way here", "use a token of `tenure user add`, or let an admin set `oidc`: the manual, page access"),
            Self::LoginRefused => ("login.refused", 401, "What was sent proves nobody", "sign in again; the detail says what was wrong"),
            Self::LoginNoRole => ("login.no_role", 403, "You may do nothing here", "ask for a group that `oidc.groups` names; the detail lists those that the provider named"),
            Self::LoginUnavailable => ("login.unavailable", 503, "The identity provider does not answer", "try again; who has signed in already works on, and tokens of `tenure user add` work too"),
            Self::NotFound => ("resource.not_found", 404, "There is no such thing", "list what there is; a tenant's token sees that tenant's things alone"),
            Self::NoRoute => ("route.unknown", 404, "Nothing is served at this address", "`/v1/openapi.json` lists the addresses"),
            Self::NoMethod => ("route.method", 405, "The address does not take this method", "`/v1/openapi.json` lists the methods"),
            Self::TooLarge => ("request.too_large", 413, "The request is too large", "split it; http.body_limit_bytes is the bound of a body"),
            Self::TooSlow => ("request.timeout", 408, "The request did not come in time", "send it again, faster or in parts; http.read_timeout is the bound"),
            Self::MediaType => ("request.media_type", 415, "The content type is not taken here", "send JSON or YAML, without a Content-Encoding"),
            Self::Stale => ("execution.stale", 409, "The execution has moved on", "read it again"),
            Self::StaleRevision => ("request.stale_revision", 412, "The execution is not at the revision of If-Match", "read it again and decide anew"),
            Self::StaleTag => ("request.stale_tag", 412, "It is not at the version of If-Match", "read it again and decide anew"),
            Self::HeaderUnsupported => ("header.unsupported", 400, "The header is not taken here", "leave it out; /openapi.json says which headers a route takes"),
            Self::Conflict => ("request.conflict", 409, "Something has changed meanwhile", "read it again and repeat the request"),
            Self::Contended => ("request.contended", 503, "Too many changes at once", "repeat the request after the time that Retry-After says; nothing was changed"),
            Self::Busy => ("execution.busy", 409, "Another open execution stands in the way", "wait for the execution named, or cancel it"),
            Self::Finished => ("execution.finished", 409, "The execution has finished", "nothing is left to be done with it"),
            Self::PastPivot => ("execution.past_pivot", 409, "The execution is past its point of no return", "let it go on; `retry` when it is parked"),
            Self::Unexpected => ("execution.unexpected", 409, "The execution does not take this now", "look at its state with `tenure executions show`"),
            Self::Unwinding => ("execution.unwinding", 409, "The execution is being rolled back already", "wait until it has finished"),
            Self::Already => ("execution.already", 409, "The request is already in force", "nothing needs to be done"),
            Self::SignalNotAwaited => ("signal.not_awaited", 409, "The execution does not wait for the signal now", "the detail names the signal that is awaited now; nothing was changed"),
            Self::RepairNotNow => ("repair.not_now", 409, "The execution cannot be mended so, as it stands", "the detail says what comes first"),
            Self::RepairInvalid => ("repair.invalid", 422, "The repair is not one that can be made", "the detail names the field and what is wrong with it; nothing was changed"),
            Self::RepairObservation => ("repair.observation", 422, "Nobody can state what only the step itself observes or decides", "remove the cause and run `tenure executions retry`, which looks again; a step that may be left out is accepted as an exception with `tenure repair skip`"),
            Self::SamePerson => ("repair.same_person", 403, "Nobody agrees to a command of their own", "ask another person who may repair: `tenure proposals second`"),
            Self::NeedsSecond => ("repair.needs_second", 409, "The command needs a second person", "give it by itself, and let another person agree: `tenure proposals list`"),
            Self::OwnRequest => ("approval.own_request", 403, "Nobody decides on a request of their own", "ask another person who holds one of the roles asked for"),
            Self::NotEntitled => ("approval.not_entitled", 403, "None of your roles is asked for", "ask someone who holds one of the roles named"),
            Self::NotAPerson => ("approval.not_a_person", 403, "A service decides nothing that takes people", "ask a person who holds one of the roles asked for, with a token or session of their own"),
            Self::Decided => ("approval.decided", 409, "The approval is decided", "resume the execution, which then follows the ruling, or cancel it"),
            Self::VotedBefore => ("approval.voted_before", 409, "You have decided already", "another person must decide"),
            Self::PlanChanged => ("approval.plan_changed", 409, "The plan is not the one you read", "read the approval again and decide anew"),
            Self::ForRequester => ("approval.for_requester", 403, "Nobody decides who stands in for the requester", "ask another person who holds one of the roles asked for"),
            Self::NotSeparate => ("approval.not_separate", 403, "The vote is not that of another person", "let an admin run `tenure user enrol NAME`, claim with `tenure login --enrol CODE` or sign in through the identity provider, and vote again; for a trial, `tenure serve --trial`"),
            Self::NotDelegated => ("approval.not_delegated", 403, "No delegation lets you vote for them", "`tenure delegations list` shows those in force; ask them, or an admin, for one"),
            Self::NoGlass => ("approval.no_break_glass", 403, "You may not decide alone", "ask someone whom the policy's `break_glass` names, or those who hold a seat"),
            Self::GlassDestroys => ("approval.destroys", 403, "Nobody destroys alone", "ask those who hold a seat; policy would have to say `destroys: true`"),
            Self::NoVote => ("approval.no_vote", 409, "There is no vote to take back", "`tenure approvals show` lists the votes that stand"),
            Self::DecisionUnexplained => ("approval.reason_missing", 422, "The decision does not say why", "send `reason`, as long as the detail says"),
            Self::ReviewOwn => ("review.own", 403, "Nobody reviews a decision of their own", "ask somebody who neither decided nor asked, and stands in for neither"),
            Self::GroupExists => ("group.exists", 409, "There is such a group already", "choose another name, or change its members"),
            Self::DelegationForeign => ("delegation.not_yours", 403, "The delegation is not yours to end", "ask who delegated, who stands in, or an admin"),
            Self::DigestMissing => ("approval.digest_missing", 422, "The decision names no plan", "send the `digest` of the plan that was read"),
            Self::ReasonMissing => ("request.reason_missing", 422, "A reason is required", "send `reason`"),
            Self::BatchEmpty => ("batch.empty", 422, "The batch names no execution, or every one", "say with filter which executions are meant; look at them with GET /v1/executions"),
            Self::BatchTooMany => ("batch.too_many", 422, "More executions match than the cap", "narrow the filter, or raise cap"),
            Self::BatchUnseen => ("batch.unseen", 422, "The batch was not looked at", "ask with dry_run, and send the digest of the answer"),
            Self::BatchChanged => ("batch.changed", 409, "Other executions match than were seen", "look at preview, and send its digest if these are meant"),
            Self::NotWaiting => ("approval.not_waiting", 404, "The execution waits for no approval", "`tenure approvals list` shows those that do"),
            Self::KeyReused => ("idempotency.key_reused", 422, "The key was used for a different request", "use a new key"),
            Self::KeyInUse => ("idempotency.in_progress", 409, "A request under this key is being answered", "repeat it in a moment"),
            Self::SecretShown => ("idempotency.secret_shown", 409, "The answer showed a secret, which is not kept", "what was made the first time stands: take it back if its secret is lost, and ask under a new key"),
            Self::KeysOverlap => ("cluster_key.overlaps", 409, "Two keys of the cluster hold already", "wait until the earlier one has ended; an overlap of 0 ends both, `lost` replaces a key that was never handed on"),
            Self::KeyOrphaned => ("cluster_key.orphaned", 409, "The cluster is nobody's any more", "nothing: whoever has the cluster next is given a key of their own"),
            Self::UserExists => ("user.exists", 409, "There is such a user already", "choose another name, or remove the user first"),
            Self::TokenExists => ("token.exists", 409, "The user has a token of that name already", "choose another name, or remove that token first"),
            Self::HoldPastPivot => ("hold.past_pivot", 409, "The hold comes too late", "what still exists is listed in still_there: preserve it outside of Tenure"),
            Self::OwnHold => ("hold.own", 403, "Nobody releases a hold of their own", "ask another person who may release holds"),
            Self::HoldRefused => ("hold.refused", 409, "The hold cannot be placed or released", "the detail names the rule"),
            Self::WorkloadRejected => ("workload.rejected", 422, "The workload can never be admitted as it is", "correct what `weighed` says, and send it again under the same name"),
            Self::WorkloadDiffers => ("workload.differs", 409, "There is such a workload with another content", "choose another name; only a rejected request can be corrected under its name"),
            Self::TenantLeaves => ("tenant.leaves", 409, "The tenant leaves", "nothing: its offboarding has begun; cancel that before destruction begins to let it work again"),
            Self::LineFull => ("line.full", 409, "The workspace's line is full", "wait until it is shorter, or raise admission.line_limit in the policy"),
            Self::BeyondNominal => ("reservation.beyond_nominal", 422, "More would be promised than the workspace has", "reserve less, or raise the quota first"),
            Self::ReservationDiffers => ("reservation.differs", 409, "There is such a reservation with other terms", "choose another name, or remove the reservation first"),
            Self::NodeNotFree => ("node.not_free", 409, "The node is not free", "a node in use is given up by its tenant first (`tenure tenant offboard`), and then freed once it is sanitised"),
            Self::ScheduleBuiltIn => ("schedule.built_in", 409, "The schedule is built in", "pause it, or publish a policy with other times for a sweep"),
            Self::ScheduleChanged => ("schedule.changed", 412, "The schedule is not at the version of If-Match", "read it again and decide anew"),
            Self::ScheduleRefused => ("schedule.refused", 409, "The schedule does not take this now", "read the detail; the manual, page schedules, has the rest"),
            Self::Unknown => ("ledger.missing", 404, "The books have no such thing", "check the names: the detail says which of them there is not"),
            Self::NoWorker => ("execution.no_worker", 409, "This version does not know the workflow or its schema", "run a version of Tenure that does"),
            Self::Unreadable => ("execution.unreadable", 500, "Something stored cannot be read", "`tenure store check` names it; the others go on"),
            Self::Destroyed => ("execution.destroyed", 410, "Its content was destroyed with its tenant's record key", "nothing: that is what offboarding is for; the list still says what it was, and the audit what happened"),
            Self::NeedsParent => ("execution.needs_parent", 409, "The workflow runs only as a child", "start the workflow that starts it"),
            Self::TooManyStreams => ("stream.too_many", 429, "Too many streams are open", "end one, or ask again later; http.streams and http.streams_per_token are the bounds"),
            Self::RateExceeded => ("rate.exceeded", 429, "Too many requests of one caller", "wait as long as Retry-After says; http.rate and http.rate_burst are the bounds"),
            Self::StoreFull => ("store.full", 507, "The disk is full", "make room; nothing is lost, and work goes on by itself"),
            Self::StoreUnavailable => ("store.unavailable", 503, "The store does not answer", "repeat with the same Idempotency-Key; see /readyz"),
            Self::StoreHeld => ("store.held", 503, "The store is held", "ask again later; for those who work for the platform: `tenure store held` says why, and how to let it go"),
            Self::StoreFree => ("store.not_held", 409, "The store is not held so", "look at it again: `tenure store held`"),
            Self::ClockSkewed => ("clock.skewed", 503, "The server's clock is not that of the database", "have both clocks kept by NTP; the server takes requests again once they agree"),
            Self::Stopping => ("server.stopping", 503, "The server is stopping", "repeat in a moment"),
            Self::Internal => ("server.error", 500, "The server has a fault", "report it with the request id; the log has the rest"),
        }
    }
}

/// Every code that a problem can carry, with its status, title and remedy.
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
