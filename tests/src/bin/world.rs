//! `world --listen 127.0.0.1:PORT --log FILE [--slow MS] [--faults FILE|JSON]`: the simulated platform, stored in FILE.
//!
//! Prints `listening on ADDR` when it accepts calls; port 0 uses any free port.

use backends::simulated::{LocalWorld, Script};
use std::{env, error::Error, fs, path::Path, sync::Arc, time::Duration};
use tokio::net::TcpListener;

const USAGE: &str = "usage: world --listen ADDR:PORT [--log FILE] [--slow MS] [--faults FILE|JSON]";

#[derive(Default)]
struct Options {
    listen: Option<String>,
    log: Option<String>,
    slow: Duration,
    script: Script,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut options = Self::default();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or(USAGE)?;
            match name.as_str() {
                "--listen" => options.listen = Some(value),
                "--log" => options.log = Some(value),
                "--slow" => options.slow = Duration::from_millis(value.parse()?),
                "--faults" if value.trim_start().starts_with('{') => {
                    options.script = serde_json::from_str(&value)?
                }
                "--faults" => options.script = serde_json::from_str(&fs::read_to_string(&value)?)?,
                unknown => return Err(format!("{unknown} is not an option; {USAGE}").into()),
            }
        }
        Ok(options)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::read(env::args().skip(1))?;
    let world = match &options.log {
        Some(path) => LocalWorld::persistent(Path::new(path))?,
        None => LocalWorld::new(),
    };
    world.script(options.script);
    let listener = TcpListener::bind(options.listen.ok_or(USAGE)?).await?;
    println!("listening on {}", listener.local_addr()?);
    tests::servers::world::serve(listener, Arc::new(world), options.slow).await?;
    Ok(())
}
