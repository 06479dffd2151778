//! The state of the GPUs, in a file that every call reads and writes under a lock.
//!
//! The fields, with their defaults: `driver` (`"570.124.06"`), `init` (0; the code that initialisation returns), `fail` (none; by function:
//! `code`, `after` = successful calls before it, `times` = 0 is unlimited, `late` = answer it after the call took effect, `slow_ms`), `gpus`
//! (eight). Of a GPU: `uuid`, `name`, `memory_mib` (81559), `mig_capable` (true), `mig_needs_reset` (false), `mig_current` and `mig_pending`
//! (0), `ecc` (true), `corrected`, `uncorrected`, `uncorrected_total` (0), `retired_single`, `retired_double` (null: it remaps rows
//! instead), `retired_pending` (false), `remapped_corrected`, `remapped_uncorrected`, `remap_pending`, `remap_failed` (0), `recovery` (0;
//! null: the driver does not report it), `lost` (false), `flip_at` (null; the byte of its memory that always reads with a flipped bit),
//! `processes` (`pid`, `kind` = `compute`, `graphics` or `mps`, `memory_mib`, `gi`, `ci`), `instances` (`id`, `profile`, `start`, `size`,
//! `compute` = `id`, `profile`, `start`, `size`). `log` lists the changes in order.

use crate::{
    abi::{Return, SUCCESS, UNINITIALIZED, UNKNOWN, own_path},
    json::Json,
};
use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

/// The initialisations of the library by this process, minus its shutdowns.
pub(crate) static INITIALISED: AtomicU32 = AtomicU32::new(0);

/// A machine's GPUs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Host {
    pub(crate) driver: String,
    pub(crate) init: Return,
    pub(crate) fail: BTreeMap<String, Failure>,
    pub(crate) gpus: Vec<Gpu>,
    pub(crate) log: Vec<String>,
}

/// A function that fails.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    code: Return,
    after: u64,
    times: u64,
    late: bool,
    slow_ms: u64,
    seen: u64,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gpu {
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) memory_mib: u64,
    pub(crate) mig_capable: bool,
    pub(crate) mig_needs_reset: bool,
    pub(crate) mig_current: u32,
    pub(crate) mig_pending: u32,
    pub(crate) ecc: bool,
    pub(crate) corrected: u64,
    pub(crate) uncorrected: u64,
    pub(crate) uncorrected_total: u64,
    pub(crate) retired_single: Option<u64>,
    pub(crate) retired_double: Option<u64>,
    pub(crate) retired_pending: bool,
    pub(crate) remapped: [u64; 4],
    pub(crate) recovery: Option<u64>,
    pub(crate) lost: bool,
    pub(crate) flip_at: Option<u64>,
    pub(crate) processes: Vec<Process>,
    pub(crate) instances: Vec<Instance>,
}

/// A process that has a GPU open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) kind: String,
    pub(crate) memory_mib: u64,
    pub(crate) gi: Option<u32>,
    pub(crate) ci: Option<u32>,
}

/// A GPU instance, or a compute instance in one, which has none of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instance {
    pub(crate) id: u32,
    pub(crate) profile: u32,
    pub(crate) start: u32,
    pub(crate) size: u32,
    pub(crate) compute: Vec<Instance>,
}

const REMAPPED: [&str; 4] = ["remapped_corrected", "remapped_uncorrected", "remap_pending", "remap_failed"];

impl Gpu {
    fn of(number: usize, json: &Json) -> Self {
        let flag = |key: &str, default: bool| json.get(key).map_or(default, |_| json.yes(key));
        Self {
            uuid: json.text("uuid").unwrap_or_else(|| format!("GPU-00000000-0000-4000-8000-{number:012x}")),
            name: json.text("name").unwrap_or_else(|| "NVIDIA H100 80GB HBM3 (stand-in)".to_owned()),
            memory_mib: json.number("memory_mib").unwrap_or(81_559),
            mig_capable: flag("mig_capable", true),
            mig_needs_reset: flag("mig_needs_reset", false),
            mig_current: json.small("mig_current").unwrap_or(0),
            mig_pending: json.small("mig_pending").or(json.small("mig_current")).unwrap_or(0),
            ecc: flag("ecc", true),
            corrected: json.number("corrected").unwrap_or(0),
            uncorrected: json.number("uncorrected").unwrap_or(0),
            uncorrected_total: json.number("uncorrected_total").unwrap_or(0),
            retired_single: json.number("retired_single"),
            retired_double: json.number("retired_double"),
            retired_pending: flag("retired_pending", false),
            remapped: REMAPPED.map(|key| json.number(key).unwrap_or(0)),
            recovery: if json.get("recovery").is_some() { json.number("recovery") } else { Some(0) },
            lost: flag("lost", false),
            flip_at: json.number("flip_at"),
            processes: json.list("processes").iter().map(Process::of).collect(),
            instances: json.list("instances").iter().map(Instance::of).collect(),
        }
    }

    fn json(&self) -> Json {
        let number = |value: u64| Json::Number(value.into());
        let perhaps = |value: Option<u64>| value.map_or(Json::Null, number);
        let mut json = Json::map([
            ("uuid", Json::Text(self.uuid.clone())),
            ("name", Json::Text(self.name.clone())),
            ("memory_mib", number(self.memory_mib)),
            ("mig_capable", Json::Bool(self.mig_capable)),
            ("mig_needs_reset", Json::Bool(self.mig_needs_reset)),
            ("mig_current", number(self.mig_current.into())),
            ("mig_pending", number(self.mig_pending.into())),
            ("ecc", Json::Bool(self.ecc)),
            ("corrected", number(self.corrected)),
            ("uncorrected", number(self.uncorrected)),
            ("uncorrected_total", number(self.uncorrected_total)),
            ("retired_single", perhaps(self.retired_single)),
            ("retired_double", perhaps(self.retired_double)),
            ("retired_pending", Json::Bool(self.retired_pending)),
            ("recovery", perhaps(self.recovery)),
            ("lost", Json::Bool(self.lost)),
            ("flip_at", perhaps(self.flip_at)),
            ("processes", Json::List(self.processes.iter().map(Process::json).collect())),
            ("instances", Json::List(self.instances.iter().map(Instance::json).collect())),
        ]);
        if let Json::Map(entries) = &mut json {
            let remapped = REMAPPED.into_iter().zip(self.remapped);
            entries.extend(remapped.map(|(key, value)| (key.to_owned(), number(value))));
        }
        json
    }
}

impl Process {
    fn of(json: &Json) -> Self {
        Self {
            pid: json.small("pid").unwrap_or(1),
            kind: json.text("kind").unwrap_or_else(|| "compute".to_owned()),
            memory_mib: json.number("memory_mib").unwrap_or(0),
            gi: json.small("gi"),
            ci: json.small("ci"),
        }
    }

    fn json(&self) -> Json {
        let perhaps = |value: Option<u32>| value.map_or(Json::Null, |value| Json::Number(value.into()));
        Json::map([
            ("pid", Json::Number(self.pid.into())),
            ("kind", Json::Text(self.kind.clone())),
            ("memory_mib", Json::Number(self.memory_mib.into())),
            ("gi", perhaps(self.gi)),
            ("ci", perhaps(self.ci)),
        ])
    }
}

impl Instance {
    fn of(json: &Json) -> Self {
        let number = |key: &str| json.small(key).unwrap_or(0);
        Self {
            id: number("id"),
            profile: number("profile"),
            start: number("start"),
            size: number("size"),
            compute: json.list("compute").iter().map(Self::of).collect(),
        }
    }

    fn json(&self) -> Json {
        let number = |value: u32| Json::Number(value.into());
        Json::map([
            ("id", number(self.id)),
            ("profile", number(self.profile)),
            ("start", number(self.start)),
            ("size", number(self.size)),
            ("compute", Json::List(self.compute.iter().map(Self::json).collect())),
        ])
    }
}

impl Host {
    fn of(json: &Json) -> Self {
        let fail =
            if let Some(Json::Map(entries)) = json.get("fail") { entries.clone() } else { BTreeMap::new() };
        let gpus =
            if let Some(Json::List(gpus)) = json.get("gpus") { gpus.clone() } else { vec![Json::Null; 8] };
        let log = json.list("log").iter();
        let log = log.filter_map(|line| if let Json::Text(line) = line { Some(line.clone()) } else { None });
        Self {
            driver: json.text("driver").unwrap_or_else(|| "570.124.06".to_owned()),
            init: json.small("init").unwrap_or(SUCCESS),
            fail: fail.iter().map(|(function, json)| (function.clone(), Failure::of(json))).collect(),
            gpus: gpus.iter().enumerate().map(|(number, json)| Gpu::of(number, json)).collect(),
            log: log.collect(),
        }
    }

    fn json(&self) -> Json {
        let fail = self.fail.iter().map(|(function, failure)| (function.clone(), failure.json()));
        Json::map([
            ("driver", Json::Text(self.driver.clone())),
            ("init", Json::Number(self.init.into())),
            ("fail", Json::Map(fail.collect())),
            ("gpus", Json::List(self.gpus.iter().map(Gpu::json).collect())),
            ("log", Json::List(self.log.iter().cloned().map(Json::Text).collect())),
        ])
    }

    /// Returns the configured failure of this call of a function, if any.
    fn failing(&mut self, function: &str) -> Option<(Return, bool)> {
        let failure = self.fail.get_mut(function)?;
        failure.seen += 1;
        let due = failure.seen > failure.after
            && (failure.times == 0 || failure.seen <= failure.after + failure.times);
        (due && failure.code != SUCCESS).then_some((failure.code, failure.late))
    }
}

impl Failure {
    fn of(json: &Json) -> Self {
        let number = |key: &str| json.number(key).unwrap_or(0);
        Self {
            code: json.small("code").unwrap_or(SUCCESS),
            after: number("after"),
            times: number("times"),
            late: json.yes("late"),
            slow_ms: number("slow_ms"),
            seen: number("seen"),
        }
    }

    fn json(&self) -> Json {
        Json::map([
            ("code", Json::Number(self.code.into())),
            ("after", Json::Number(self.after.into())),
            ("times", Json::Number(self.times.into())),
            ("late", Json::Bool(self.late)),
            ("slow_ms", Json::Number(self.slow_ms.into())),
            ("seen", Json::Number(self.seen.into())),
        ])
    }
}

/// The folder of the state, and of GPU memory.
pub(crate) fn path() -> PathBuf {
    if let Some(path) = env::var_os("TENURE_STAND_IN_STATE") {
        return path.into();
    }
    PathBuf::from(own_path().unwrap_or_default()).with_file_name("gpus.json")
}

/// Changes the state in `path` without the driver.
///
/// # Errors
/// If the file or its lock file cannot be opened.
pub fn edit(path: &Path, change: impl FnOnce(&str) -> String) -> io::Result<()> {
    let lock = File::create(path.with_extension("lock"))?;
    lock.lock()?;
    keep(path, &change(&fs::read_to_string(path)?))
}

/// Returns the state twice, the stored one and one to change; no other process has it while the lock file is held.
fn open() -> Option<(File, Option<Host>, Host)> {
    let path = path();
    let lock = File::create(path.with_extension("lock")).ok()?;
    lock.lock().ok()?;
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(_) => return None,
    };
    let json = if text.trim().is_empty() { Json::Null } else { Json::parse(&text)? };
    let host = Host::of(&json);
    // A file written by hand is written again with all fields.
    let before = text.contains("\"log\"").then(|| host.clone());
    Some((lock, before, host))
}

/// Replaces the file atomically: a kill leaves the old or the new state.
fn keep(path: &Path, text: &str) -> io::Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, text)?;
    fs::rename(fresh, path)
}

/// Performs a call on the current GPUs, and stores its changes.
pub(crate) fn answer(function: &str, act: impl FnOnce(&mut Host) -> Result<(), Return>) -> Return {
    let Some(mut opened) = open() else { return UNKNOWN };
    let slow_ms = opened.2.fail.get(function).map_or(0, |failure| failure.slow_ms);
    if slow_ms > 0 {
        // Other processes continue meanwhile.
        drop(opened);
        thread::sleep(Duration::from_millis(slow_ms));
        let Some(again) = open() else { return UNKNOWN };
        opened = again;
    }
    let (_lock, before, mut host) = opened;
    let code = match host.failing(function) {
        Some((code, false)) => code,
        Some((code, true)) => act(&mut host).err().unwrap_or(code),
        None => act(&mut host).err().unwrap_or(SUCCESS),
    };
    if before.as_ref() == Some(&host) {
        return code;
    }
    let kept = keep(&path(), &host.json().print());
    if kept.is_ok() { code } else { UNKNOWN }
}

/// Like [`answer`], for calls that require an initialised library.
pub(crate) fn nvml(function: &str, act: impl FnOnce(&mut Host) -> Result<(), Return>) -> Return {
    if INITIALISED.load(Ordering::SeqCst) == 0 {
        return UNINITIALIZED;
    }
    answer(function, act)
}
