//! The same program as the product, built with the tests. `UNDER_TEST=later` makes it a later version with another
//! onboarding, `UNDER_TEST=door` lets tests make their own calls on its platform, `UNDER_TEST=shifted` lets tests set
//! its clock, and `UNDER_TEST=agent` makes it the program `tenure-agent`.

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
