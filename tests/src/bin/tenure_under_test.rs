//! The same program as the product, so that tests find it beside them. With `UNDER_TEST=later` it is a later version, in
//! which the onboarding is another; with `UNDER_TEST=door` tests have calls of their own made on its platform; with
//! `UNDER_TEST=shifted` tests move its clock. With `UNDER_TEST=agent` it is the program `tenure-agent`.

use engine::{Engine, InvalidWorkflow};
use workflows::platform::Platform;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    match std::env::var("UNDER_TEST").as_deref() {
        Ok("later") => cli::main_with(later),
        Ok("agent") => agent::main(),
        Ok("door") => cli::main_with(tests::under_test::door::open),
        Ok("shifted") => cli::main_with(tests::under_test::shifted::registered),
        _ => cli::main(),
    }
}

fn later(engine: Engine<Platform>) -> Result<Engine<Platform>, InvalidWorkflow> {
    engine.with_workflow::<tests::under_test::later::Later>()
}
