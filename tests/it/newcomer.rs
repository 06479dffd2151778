//! The tutorial, as a newcomer types it.

use crate::served::{TENURE, page};
use std::{path::Path, time::Duration};
use tests::newcomer::{Newcomer, WITHIN, Walk};

/// The newcomer has only the program and its pages: reading everything and copying every command takes at most ten minutes.
#[test]
fn every_command_of_the_tutorial_works_in_its_order_on_a_folder_that_is_new() {
    let walk = Walk::of(&page("tutorial.md"));
    assert!(walk.blocks() >= 12, "{}", walk.blocks());
    let said = Newcomer::begins(&walk.script, Path::new(TENURE)).ended();
    assert!(walk.told(&said, Duration::ZERO) < WITHIN);
}
