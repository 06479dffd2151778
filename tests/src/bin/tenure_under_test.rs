//! The same program as the product, so that tests find it beside them. With `UNDER_TEST=later` it is a later version, in
//! which the onboarding is another.

use engine::{Engine, Unsound};
use workflows::platform::Platform;

fn main() -> std::process::ExitCode {
    match std::env::var("UNDER_TEST").as_deref() {
        Ok("later") => api::main_with(later),
        _ => api::main(),
    }
}

fn later(engine: Engine<Platform>) -> Result<Engine<Platform>, Unsound> {
    engine.with::<tests::later::Later>()
}
