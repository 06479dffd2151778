//! Which cases of the kit of conformance cannot apply to stores whose things have no amount and whose calls have no keys.

use tests::kit;

/// The case is about changing an amount.
const CHANGING: [&str; 6] =
    ["undo.change", "repeat.make_old", "repeat.undo", "slow.change_too", "fence.equal", "fence.per_step"];

/// Why the case cannot apply to a thing that is made and removed, and never changed.
#[must_use]
pub fn unchanging(case: &str) -> Option<&'static str> {
    let changing = CHANGING.contains(&case) || case.split('.').any(|part| part.starts_with("change"));
    changing.then_some("it has no amount to change")
}

/// Why the case cannot apply to a target that knows neither idempotency keys nor the epochs of steps; each thing bears the
/// epoch under which it was made, and nothing bears one afterwards.
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

/// Prints the subject's row and sees that nothing is broken or blank, and that it is as it is on record.
///
/// # Panics
/// When something is.
pub fn holds(table: &kit::Table) {
    println!("{table}");
    assert_eq!(table.broken(), Vec::<String>::new());
    assert_eq!(table.blank(), Vec::<String>::new());
    assert_eq!(table.on_record(), Ok(()));
}
