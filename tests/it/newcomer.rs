//! The tutorial, as a newcomer types it.

use crate::served::{TENURE, page};
use std::{path::Path, time::Duration};
use tests::newcomer::{Newcomer, WITHIN, Walk};

/// The newcomer has only the program and its pages: reading everything and copying every command takes at most ten minutes.
#[test]
fn every_command_of_the_tutorial_works_in_order_in_a_new_folder() {
    let walk = Walk::of(&page("tutorial.md"));
    assert!(walk.blocks() >= 12, "{}", walk.blocks());
    let said = Newcomer::begins(&walk.script, Path::new(TENURE)).ended();
    assert!(walk.told(&said, Duration::ZERO) < WITHIN);
}
