//! The same program as the product, so that tests find it beside them. With `UNDER_TEST=later` it is a later version, in
//! which the onboarding is another; with `UNDER_TEST=door` tests have calls of their own made on its platform; with
//! `UNDER_TEST=shifted` tests move its clock.

use engine::{Engine, Unsound};
use workflows::platform::Platform;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    match std::env::var("UNDER_TEST").as_deref() {
        Ok("later") => api::main_with(later),
        Ok("door") => api::main_with(tests::under_test::door::open),
        Ok("shifted") => api::main_with(tests::under_test::shifted::registered),
        _ => api::main(),
    }
}

fn later(engine: Engine<Platform>) -> Result<Engine<Platform>, Unsound> {
    engine.with::<tests::under_test::later::Later>()
}
