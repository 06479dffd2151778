//! Explains the changes between two policies in words, for readers of a diff before publication.

use super::duration;
use std::time::Duration;

/// A key prefix, with the meaning of a larger and of a smaller value. The longest matching prefix applies.
type Meaning = (&'static str, &'static str, &'static str);

const MEANINGS: [Meaning; 35] = [
    (
        "self_service.max_gpus",
        "wider: more is served without people",
        "narrower: less is served without people",
    ),
    (
        "approvals.onboarding.finance.above",
        "wider: finance is asked later",
        "narrower: finance is asked sooner",
    ),
    (
        "approvals.quota_increase.auto",
        "wider: larger increases need nobody",
        "narrower: people are asked sooner",
    ),
    (
        "approvals.quota_increase.capacity.above",
        "wider: capacity is asked later",
        "narrower: capacity is asked sooner",
    ),
    (
        "waits.waitlist",
        "longer: capacity is waited for longer before people are asked",
        "shorter: people are asked sooner",
    ),
    ("waits.patience", "longer: people have more time", "shorter: people have less time"),
    (
        "limits.max_replacements",
        "wider: more unfit nodes are replaced",
        "narrower: fewer unfit nodes are replaced",
    ),
    ("prices", "dearer", "cheaper"),
    ("quotas.borrowing_limit", "wider: more may be borrowed", "narrower: less may be borrowed"),
    ("quotas.lending_limit", "wider: more is lent", "narrower: less is lent"),
    ("capacity.buffer_gpus", "narrower: more is kept back", "wider: less is kept back"),
    ("capacity.threshold", "sooner: exhaustion is seen earlier", "later: exhaustion is seen later"),
    ("capacity.lasting", "later: exhaustion is acted on later", "sooner: exhaustion is acted on earlier"),
    ("capacity.oldest_waiter", "later: waiters are acted on later", "sooner: waiters are acted on earlier"),
    ("capacity.burst_cap", "wider: bursting may cost more", "narrower: bursting may cost less"),
    ("lending.max_duration", "wider: loans last longer", "narrower: loans end sooner"),
    (
        "lending.min_runtime",
        "wider: borrowers are protected longer",
        "narrower: borrowers are called back sooner",
    ),
    (
        "lending.cool_down",
        "narrower: victims wait longer before they borrow again",
        "wider: victims borrow again sooner",
    ),
    (
        "lending.thrash.reclaims",
        "wider: pairs are slowed down later",
        "narrower: pairs are slowed down sooner",
    ),
    ("lending.thrash.limit_share", "wider: slowed pairs borrow more", "narrower: slowed pairs borrow less"),
    ("reclaim.deadline", "weaker: lenders may wait longer", "stronger: lenders get their GPUs back sooner"),
    ("reclaim.grace", "gentler: victims have more time", "harsher: victims have less time"),
    ("reclaim.guard", "wider: more is disturbed without people", "narrower: people are asked sooner"),
    ("reclaim.confirm", "stricter: GPUs count as free later", "looser: GPUs count as free sooner"),
    ("reclaim.limits", "longer: the step may take more time", "shorter: the step may take less time"),
    (
        "admission.max_staleness",
        "looser: older observations admit work",
        "stricter: observations must be newer",
    ),
    ("admission.line_limit", "wider: more may wait", "narrower: fewer may wait"),
    (
        "sanitisation.concurrency",
        "faster: more nodes are cleaned at once",
        "slower: fewer nodes are cleaned at once",
    ),
    ("sanitisation.attempts", "wider: media are tried more often", "narrower: people are asked sooner"),
    (
        "offboarding.export_window",
        "longer: tenants have more time to fetch their data",
        "shorter: tenants have less time to fetch their data",
    ),
    (
        "offboarding.certificate_kept",
        "longer: certificates are kept longer",
        "shorter: certificates are kept for less time",
    ),
    ("priorities", "higher: goes before more", "lower: goes before less"),
    ("retention", "longer: data are kept longer", "shorter: data go sooner"),
    ("approvals", "more: more people, or more time", "fewer: fewer people, or less time"),
    ("offboarding.extension", "longer: the window grows by more", "shorter: the window grows by less"),
];

/// Scales from weak to strong, so that a step along them has a direction.
const SCALES: [(&[&str], &str, &str); 5] = [
    (
        &["none", "driver_scrub", "fill_verify", "mig_recreate", "gpu_reset"],
        "stricter: memory is cleaned more",
        "looser: memory is cleaned less",
    ),
    (&["clear", "purge", "destroy"], "stricter: media are cleaned more", "looser: media are cleaned less"),
    (&["block", "approve"], "looser: people may let it through", "stricter: nobody may let it through"),
    (&["false", "true"], "switched on", "switched off"),
    (
        &["Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"],
        "wider: more may be preempted",
        "narrower: less may be preempted",
    ),
];

/// Returns the meaning of a change of `key` from `old` to `new`.
pub(super) fn meaning(key: &str, old: Option<&str>, new: Option<&str>) -> String {
    let (Some(old), Some(new)) = (old, new) else {
        return if old.is_none() { "added" } else { "taken out" }.into();
    };
    if let Some(said) = SCALES.iter().find_map(|(scale, up, down)| {
        let place = |value: &str| scale.iter().position(|step| *step == value);
        let (old, new) = (place(old)?, place(new)?);
        Some(if new > old { *up } else { *down })
    }) {
        return said.into();
    }
    let fitting = MEANINGS.iter().filter(|(start, ..)| key.starts_with(start));
    let Some((_, up, down)) = fitting.max_by_key(|(start, ..)| start.len()) else { return "other".into() };
    match (size(old), size(new)) {
        (Some(old), Some(new)) if new > old => (*up).into(),
        (Some(old), Some(new)) if new < old => (*down).into(),
        _ => "other".into(),
    }
}

/// Returns the size of a number, a duration in seconds, or no limit.
fn size(text: &str) -> Option<f64> {
    if text == "unlimited" {
        return Some(f64::INFINITY);
    }
    duration::parse(text).as_ref().map(Duration::as_secs_f64).or_else(|| text.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_summary_shows_the_direction() {
        let said = |key, old, new| meaning(key, Some(old), Some(new));
        assert!(said("self_service.max_gpus", "8", "16").starts_with("wider"));
        assert!(said("quotas.borrowing_limit", "8", "unlimited").starts_with("wider"));
        assert!(said("reclaim.deadline", "20m", "15m").starts_with("stronger"));
        assert!(said("reclaim.scrub.sensitive", "gpu_reset", "none").starts_with("looser"));
        assert!(said("guards.end_of_tenant_in_use", "approve", "block").starts_with("stricter"));
        assert!(said("capacity.buffer_gpus.each", "0", "8").starts_with("narrower"));
        assert_eq!(meaning("pins[0].label", None, Some("hipaa")), "added");
    }
}
