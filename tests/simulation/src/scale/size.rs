//! The simulated size, and its arguments on the command line.

use super::costs::{Costs, PLACES};

/// The simulated size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Servers.
    pub nodes: u16,
    /// Tasks that each works on at once: `engine.concurrency`.
    pub places: usize,
    /// Open executions.
    pub executions: u32,
    /// Simulated minutes.
    pub minutes: u64,
    /// The source of all random numbers.
    pub seed: u64,
    /// The number of tenants, with equally many executions each.
    pub tenants: u16,
    /// Timers that fall due each second.
    pub rate: u64,
    /// Steps that follow each of those.
    pub steps: u8,
    /// Additional timers that fall due within one minute.
    pub herd: u32,
    /// If not 0, each node only commits, with this number of parallel writers.
    pub writers: u16,
    /// True if there are faults.
    pub trouble: bool,
    /// The costs of the database and the nodes.
    pub costs: Costs,
    /// The way in which nodes look for work.
    pub design: Design,
    /// The deliberate defect.
    pub broken: Broken,
}

/// The way in which nodes look for work: present or proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// A notified node, or one whose wait is over, looks after a random delay of up to this number of microseconds for each
    /// node, once for all notifications in between.
    pub pause: u64,
    /// A query uses only the time index as long as no more tasks are due than are wanted, and returns no more rows than
    /// are wanted.
    pub lean: bool,
    /// A node that got less than it wanted does not look again at once. Nor does a node that had free places already and
    /// gets another one.
    pub content: bool,
    /// Query and lease are one statement, so that no node finds a task that another is leasing.
    pub at_once: bool,
}

impl Design {
    /// The behaviour of the engine and the store.
    pub const PRESENT: Self = Self { pause: 0, lean: false, content: false, at_once: false };
    /// The proposal of `docs/evidence/scale.md`.
    pub const PROPOSED: Self = Self { pause: 1_000, lean: true, content: true, at_once: true };
}

/// Deliberate defects of the protocol, to check that the laws detect them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// None.
    Nothing,
    /// A result is accepted whatever its epoch.
    EpochCheck,
    /// A found task is leased although another node has it by then.
    TakeCheck,
    /// A lease does not expire.
    Lapse,
}

impl Size {
    /// A thousand nodes, ten million executions, ten minutes with all faults, on a large database.
    #[must_use]
    pub fn large() -> Self {
        Self {
            nodes: 1_000,
            places: PLACES,
            executions: 10_000_000,
            minutes: 10,
            seed: 1,
            tenants: 1_000,
            rate: 100,
            steps: 3,
            herd: 1_000_000,
            writers: 0,
            trouble: true,
            costs: Costs::large(),
            design: Design::PRESENT,
            broken: Broken::Nothing,
        }
    }
}

/// Reads a command line.
///
/// # Errors
/// A sentence that names the argument and the valid ones.
pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Size, String> {
    let mut arguments = arguments.into_iter();
    let mut size = Size::large();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = |most: u64| match value.parse::<u64>() {
            Ok(number) if number <= most => Ok(number),
            _ => Err(format!("{name}: {value:?} is not a number up to {most}")),
        };
        match name.as_str() {
            "--nodes" => size.nodes = u16::try_from(number(10_000)?.max(1)).unwrap(),
            "--places" => size.places = usize::try_from(number(100_000)?.max(1)).unwrap(),
            "--round-trips" => size.costs.round_trips = number(100)?.max(8),
            "--executions" => size.executions = u32::try_from(number(100_000_000)?).unwrap(),
            "--minutes" => size.minutes = number(600)?.max(1),
            "--seed" => size.seed = number(u64::MAX)?,
            "--tenants" => size.tenants = u16::try_from(number(60_000)?.max(1)).unwrap(),
            "--rate" => size.rate = number(1_000_000)?,
            "--steps" => size.steps = u8::try_from(number(100)?).unwrap(),
            "--herd" => size.herd = u32::try_from(number(100_000_000)?).unwrap(),
            "--writers" => size.writers = u16::try_from(number(10_000)?).unwrap(),
            "--machine" => {
                size.costs = match value.as_str() {
                    "large" => Costs::large(),
                    "measured" => Costs::measured(),
                    _ => return Err(format!("--machine {value}: one of large, measured")),
                }
            }
            "--trouble" => size.trouble = number(1)? == 1,
            "--processors" => size.costs.processors = number(1_024)?.max(1),
            "--round-trip-us" => size.costs.round_trip = number(1_000_000)?,
            "--sync-us" => size.costs.sync = number(1_000_000)?,
            "--design" => {
                size.design = match value.as_str() {
                    "present" => Design::PRESENT,
                    "proposed" => Design::PROPOSED,
                    _ => return Err(format!("--design {value}: one of present, proposed")),
                }
            }
            _ => {
                return Err(format!(
                    "{name} is not known: --nodes, --places, --executions, --minutes, --seed, --tenants, --rate, --steps, --herd, --writers, --trouble 0|1, --machine large|measured, --processors, --round-trip-us, --round-trips, --sync-us, --design present|proposed"
                ));
            }
        }
    }
    Ok(size)
}
