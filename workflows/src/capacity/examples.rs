//! Examples of exhaustions that together reach every rung.

use super::{CapacityExhaustion, ExhaustionTerms, RungTerms};
use crate::{
    policy::{PlatformPolicy, Rung},
    tenancy::Gpus,
};
use engine::{DAY, HOUR};
use strum::VariantArray as _;

pub(super) fn all() -> Vec<CapacityExhaustion> {
    (0..Rung::VARIANTS.len()).filter_map(example).collect()
}

fn example(next: usize) -> Option<CapacityExhaustion> {
    let trigger = "the oldest request has waited for 2 h".to_owned();
    let tenants = vec!["acme".parse().ok()?];
    let mut one =
        CapacityExhaustion::new("eu-west".parse().ok()?, "H100".parse().ok()?, Gpus(8), trigger, tenants);
    let gates = PlatformPolicy::built_in().ok()?.approvals.capacity.clone();
    let climb = |rung: &Rung| {
        let gate = gates.get(rung);
        RungTerms {
            rung: *rung,
            seats: gate.map(|gate| gate.seats.clone()).unwrap_or_default(),
            within: gate.map_or(DAY, |gate| gate.within),
            procedure: gate.map(|gate| gate.procedure.clone()).unwrap_or_default(),
        }
    };
    one.terms = Some(ExhaustionTerms {
        policy: PlatformPolicy::built_in().ok()?.reference,
        ladder: Rung::VARIANTS.iter().map(climb).collect(),
        settle: HOUR,
        procure_within: 180 * DAY,
    });
    one.overdue.clone_from(&one.tenants);
    one.next = next;
    Some(one)
}
