//! Examples that policies carry.

use workflows::policy::*;

/// S-50, S-107.
#[test]
fn the_built_in_policy_decides_as_its_examples_say() {
    let outcomes = test(PlatformPolicy::BUILT_IN).unwrap_or_else(|invalid| panic!("{invalid}"));

    let wrong: Vec<_> = outcomes.iter().filter(|outcome| !outcome.passed).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(outcomes.len() >= 45, "{}", outcomes.len());
}
