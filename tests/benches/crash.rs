//! `cargo bench -p tests --bench crash`: 200 tenants onboarded at once, with more requests than GPUs, while the server is killed
//! every 2 s for 60 s. Prints the observations; exits non-zero on a violation.

use std::{path::Path, process::ExitCode, time::Duration};
use tests::campaigns::crash::{Size, run};

#[tokio::main]
async fn main() -> ExitCode {
    let Ok(dir) = tempfile::tempdir() else { return ExitCode::FAILURE };
    let size = Size {
        tenants: 200,
        nodes: 776,
        killing: Duration::from_secs(60),
        every: Duration::from_secs(2),
        rest: Duration::from_secs(120),
    };
    let (tenure, world) = (env!("CARGO_BIN_EXE_tenure-under-test"), env!("CARGO_BIN_EXE_world"));
    let outcome = run(Path::new(tenure), Path::new(world), dir.path(), size).await;
    println!("{outcome}");
    if outcome.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
