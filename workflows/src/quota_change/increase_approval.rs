//! Decides if policy requires an approval for more GPUs, by the rules that its examples and explanations show.

use crate::{
    policy::{
        PlatformPolicy, RuleName,
        decisions::{ApprovalFor, QuotaAmountFacts, approval, decide_quota_amount},
    },
    quota_change::GpuHoldings,
    tenancy::Gpus,
};

fn gpus(amount: u64) -> Gpus {
    Gpus(u32::try_from(amount).unwrap_or(u32::MAX))
}

/// Returns true if `rule` refuses `more` GPUs to a tenant that bought `bought`.
pub(super) fn amount_fails(
    policy: &PlatformPolicy,
    rule: RuleName,
    stand: &GpuHoldings,
    (more, bought): (u64, Gpus),
) -> bool {
    let facts = QuotaAmountFacts {
        wanted: gpus(stand.nominal.saturating_add(more)),
        entitled: bought,
        owned: gpus(stand.owned),
        kept_back: gpus(stand.earmarked),
        ..QuotaAmountFacts::default()
    };
    decide_quota_amount(&facts, policy).fails(rule)
}

/// Returns true if `rule` requires an approval for `more` GPUs than `from`, where `free` are free.
pub(super) fn increase_asks(
    policy: &PlatformPolicy,
    rule: RuleName,
    from: u64,
    more: u64,
    free: Gpus,
) -> bool {
    let (from, to) = (gpus(from), gpus(from.saturating_add(more)));
    let ruling = approval(&ApprovalFor::QuotaIncrease { from, to, free }, policy);
    ruling.reasons.iter().any(|reason| reason.rule == rule.as_str() && reason.counts())
}
