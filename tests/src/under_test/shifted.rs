//! A server whose clock has an offset from a file, so that a test can set the time.

use engine::{BoxFuture, Clock, Engine, InvalidWorkflow, SystemClock};
use std::{fs, path::PathBuf, sync::Arc, time::Duration};
use store::Timestamp;
use workflows::platform::Platform;

/// The variable that names the file.
pub const FILE: &str = "UNDER_TEST_CLOCK";

/// The variable that gives the server a second clock without the offset, so that it notices a jump.
pub const NOTICES: &str = "UNDER_TEST_CLOCK_NOTICES";

/// How often a sleeper reads the file again.
const LOOK: Duration = Duration::from_millis(50);

/// The machine's clock plus an offset in milliseconds, read from a file at each use.
#[derive(Clone, Debug)]
pub struct ShiftedClock {
    file: PathBuf,
}

impl Clock for ShiftedClock {
    fn now(&self) -> Timestamp {
        let shift = fs::read_to_string(&self.file).ok().and_then(|text| text.trim().parse::<i64>().ok());
        Timestamp(SystemClock.now().0.saturating_add_signed(shift.unwrap_or(0)))
    }

    fn monotonic(&self) -> Option<Duration> {
        std::env::var_os(NOTICES).and_then(|_| SystemClock.monotonic())
    }

    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            // As with the machine's clock: a sleep is never longer than requested, even if the clock is set back meanwhile.
            let (began, span) = (tokio::time::Instant::now(), at.since(self.now()));
            loop {
                let left = at.since(self.now()).min(span.saturating_sub(began.elapsed()));
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left.min(LOOK)).await;
            }
        })
    }

    fn entropy(&self) -> [u8; 10] {
        SystemClock.entropy()
    }
}

/// Returns the product's engine, with the clock of the file that [`FILE`] names.
///
/// # Errors
/// If a workflow is invalid.
///
/// # Panics
/// If the variable is not set.
pub fn registered(engine: Engine<Platform>) -> Result<Engine<Platform>, InvalidWorkflow> {
    let file = std::env::var_os(FILE).expect("UNDER_TEST_CLOCK names a file").into();
    let clock = Arc::new(ShiftedClock { file });
    workflows::registered(Engine::new(engine.store().clone(), clock, engine.platform().clone()))
}
