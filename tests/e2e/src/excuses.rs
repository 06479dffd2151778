//! Cases of the conformance kit that cannot apply to stores without amounts and idempotency keys.

use tests::kit;

/// Cases about changing an amount.
const CHANGING: [&str; 6] =
    ["undo.change", "repeat.make_old", "repeat.undo", "slow.change_too", "fence.equal", "fence.per_step"];

/// Returns why the case cannot apply to an object that is made and removed, and never changed.
#[must_use]
pub fn unchanging(case: &str) -> Option<&'static str> {
    let changing = CHANGING.contains(&case) || case.split('.').any(|part| part.starts_with("change"));
    changing.then_some("it has no amount to change")
}

/// Returns why the case cannot apply to a target without idempotency keys and step epochs; each object contains the epoch
/// of its creation, and no later one.
#[must_use]
pub fn keyless(case: &str) -> Option<&'static str> {
    match case {
        "repeat.key_reused" => {
            Some("the target has no idempotency keys: each call reads before it changes an object")
        }
        "fence.make" => Some("epochs are stored on the object, and the other object is a different one"),
        "fence.undone" => {
            Some("a removed object has no epoch: only the lease of the engine prevents a late call")
        }
        _ => None,
    }
}

/// Returns why the case cannot apply to keys, which are all made the same way.
#[must_use]
pub fn alike(case: &str) -> Option<&'static str> {
    let same = ["make.foreign", "repeat.make_unequal", "twins.make_rivals", "dry_run.make_refused"];
    same.contains(&case).then_some("objects of one name are equal: there is no other owner to reject")
}

/// Prints the subject's row, and checks that nothing is broken or blank and that it equals the record.
///
/// # Panics
/// If a check fails.
pub fn holds(table: &kit::Table) {
    println!("{table}");
    assert_eq!(table.broken(), Vec::<String>::new());
    assert_eq!(table.blank(), Vec::<String>::new());
    assert_eq!(table.on_record(), Ok(()));
}
