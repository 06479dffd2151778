//! Opening a store and starting its threads.

use super::{
    Embedded, IMPORTING, Opened, Options,
    commit::writer::{self, Inbox, Writer},
    event::EventCount,
    folder::{
        boot, deliveries, failed,
        identity::{self, Provenance},
        lock::Lock,
        space::Space,
        watermark,
    },
    format::{codec, key},
    handle::ROOM,
    index::{CacheTrim, Index},
    journal::segment::{self, Segment},
    maintenance,
    memtable::Memtable,
    recovery::{Recovered, recover},
    shared::{Counters, Shared},
    tasks::{Tasks, TasksBuilder},
    threads::{checkpoint, indexer, monitor, readers::Readers, segment_preparer},
};
use crate::{Error, ExecutionId, Hold, Sequence};
use std::{
    collections::{BTreeMap, VecDeque},
    fs, io,
    ops::Bound,
    path::Path,
    sync::{Arc, Mutex, RwLock, atomic::AtomicUsize, mpsc},
    thread,
};
use tokio::sync::{Semaphore, mpsc::unbounded_channel};

/// The most openings of the original since the copy was made. Targets know its epochs, and refuse lower ones.
pub(crate) const RESTORED_OPENS: u64 = 1 << 16;

type Unreadable = BTreeMap<ExecutionId, String>;

impl Embedded {
    /// Opens the store in `dir`, or creates one. Blocks while it reads the index and the journal.
    ///
    /// # Errors
    /// Returns [`Error::Refused`] if the folder is in use, was written by a newer version, or is damaged beyond
    /// repair; [`Error::Unavailable`] if the file system fails.
    pub fn open(dir: &Path, options: Options) -> Result<Opened, Error> {
        open(dir, options)
    }
}

fn open(dir: &Path, options: Options) -> Result<Opened, Error> {
    fs::create_dir_all(dir).map_err(|error| failed("make", dir, &error))?;
    let lock = Lock::take(dir)?;
    if dir.join(IMPORTING).exists() {
        let why =
            format!("an import into {} was interrupted; run `tenure store import` again", dir.display());
        return Err(Error::Refused { why });
    }
    let unknown = |error: io::Error| failed("determine the place of", dir, &error);
    let doubt = place_in_doubt(dir, &options);
    let lost_writes = boot::may_have_lost_writes(dir);
    let more = if doubt.is_some() { RESTORED_OPENS } else { 0 };
    let Recovered { index, segment, sequence, opens, mut report, backlog } = recover(dir, &options, more)?;
    let (mut tasks, unreadable) = restore_tasks(dir, &index, opens)?;
    report.unreadable = unreadable.len() as u64;
    if lost_writes {
        // Delivery counts were never synced. An additional probe does no harm.
        tasks.count_all();
    }
    // The first opening may have crashed before it marked its place; without a commit there is no work.
    let doubt = doubt.filter(|_| sequence > Sequence(0));
    let held = load_hold(dir, doubt, &mut tasks).map_err(unknown)?;
    let deliveries =
        deliveries::Log::open(dir, &tasks).map_err(|error| failed("rewrite deliveries in", dir, &error))?;
    boot::opened(dir).map_err(|error| failed("write BOOT in", dir, &error))?;
    let head = watermark::Writer::open(dir).map_err(|error| failed("open HEAD in", dir, &error))?;
    head.write(watermark::Watermark { sequence, opens })
        .map_err(|error| failed("write HEAD in", dir, &error))?;
    let shared = Arc::new(Shared {
        dir: dir.to_owned(),
        space: Space::new(dir, &options),
        options,
        memtable: RwLock::new(Memtable::new(sequence)),
        tasks: Mutex::new(tasks),
        index: RwLock::new(Arc::new(index)),
        deliveries: Mutex::new(deliveries),
        hold: Mutex::new(held),
        unreadable: Mutex::new(unreadable),
        counters: Counters {
            since_checkpoint: backlog.bytes.into(),
            snapshot: backlog.snapshot.into(),
            ..Counters::default()
        },
        problems: Mutex::default(),
        opens,
        published: EventCount::default(),
        applied: EventCount::default(),
        mode_changed: EventCount::default(),
        files: Mutex::new(()),
        run_mode: 0.into(),
        _lock: lock,
    });
    let store =
        start(&shared, segment, head).map_err(|error| failed("start the threads for", dir, &error))?;
    tracing::info!("{} {report}", dir.display());
    Ok(Opened { store, report })
}

/// Returns why the store in `dir` is held, if the folder cannot prove that it is the original. A new folder is not
/// held.
fn place_in_doubt(dir: &Path, options: &Options) -> Option<String> {
    if !options.notice_copies {
        return None;
    }
    let provenance = identity::provenance(dir);
    let is_new = provenance == Provenance::Unmarked && !segment::folder(dir).exists();
    provenance.doubt(dir).filter(|_| !is_new)
}

/// Returns why the store in `dir` leases nothing. A folder in doubt is held from here on, even if it was held before.
fn load_hold(dir: &Path, doubt: Option<String>, tasks: &mut Tasks) -> io::Result<Option<Hold>> {
    let mut hold = maintenance::read(dir)?;
    if let Some(why) = doubt {
        tasks.count_all();
        deliveries::Log::open(dir, tasks)?.sync()?;
        let before = hold.map(|hold| format!("; it was held before: {}", hold.why)).unwrap_or_default();
        let copied = Hold::starting_now(format!("{why}{before}"));
        maintenance::write(dir, &copied)?;
        hold = Some(copied);
    }
    identity::record(dir)?;
    if let Some(hold) = &hold {
        tracing::warn!(why = hold.why, "the store is held: no work runs until an operator releases it");
    }
    Ok(hold)
}

/// Reads all tasks of the index, with their delivery counts.
fn restore_tasks(dir: &Path, index: &Index, opens: u64) -> Result<(Tasks, Unreadable), Error> {
    const STEP: usize = 256;
    let delivered = deliveries::read(dir);
    let mut tasks = TasksBuilder::new(opens);
    let mut unreadable = Unreadable::new();
    let (first, to) = key::all_tasks();
    let mut from = Bound::Included(first);
    let mut owners = TenantLookup::new(index);
    let mut trim = CacheTrim::default();
    loop {
        let rows = index.range(from.as_ref().map(Vec::as_slice), &to, STEP)?;
        for (key, value) in &rows {
            let Some(key::Name::Task(id)) = key::parse(key) else { continue };
            trim.sample_key(key);
            trim.sample_key(&key::record(id.execution));
            match codec::task(id, key, value.as_ref()) {
                Ok((task, since)) => {
                    let deliveries = delivered.count(id, since);
                    tasks.add(id, task.due, since, deliveries, owners.tenant_of(id.execution)?);
                }
                Err(why) => {
                    unreadable.insert(id.execution, format!("task {id} is unreadable: {why}"));
                }
            }
        }
        match rows.last() {
            Some((key, _)) if rows.len() == STEP => from = Bound::Excluded(key.to_vec()),
            Some(_) | None => break,
        }
    }
    index.trim_cache(&trim)?;
    Ok((tasks.build(), unreadable))
}

/// Finds the tenants of executions, which are requested in order. If most of them have tasks, records are read in
/// batches.
struct TenantLookup<'a> {
    index: &'a Index,
    ahead: VecDeque<(ExecutionId, String)>,
    /// The size of a batch, and how many of the last batch had tasks.
    step: usize,
    used: usize,
}

impl<'a> TenantLookup<'a> {
    const MOST: usize = 64;

    fn new(index: &'a Index) -> Self {
        Self { index, ahead: VecDeque::new(), step: 1, used: 1 }
    }

    /// Returns an empty tenant if there is no record, or an unreadable one.
    fn tenant_of(&mut self, execution: ExecutionId) -> Result<&str, Error> {
        while self.ahead.pop_front_if(|(id, _)| *id < execution).is_some() {}
        if self.ahead.is_empty() {
            self.read(execution)?;
        }
        self.used = self.used.saturating_add(1);
        Ok(match self.ahead.front() {
            Some((id, tenant)) if *id == execution => tenant,
            Some(_) | None => "",
        })
    }

    fn read(&mut self, from: ExecutionId) -> Result<(), Error> {
        // If most executions have finished, reading the records between those with tasks is wasted.
        let step = if self.used.saturating_mul(2) >= self.step { self.step * 2 } else { self.step / 2 };
        (self.step, self.used) = (step.clamp(1, Self::MOST), 0);
        let (from, to) = (key::record(from), key::all_records().1);
        for (key, value) in self.index.range(Bound::Included(&from), &to, self.step)? {
            let Some(id) = key::trailing_id(&key) else { continue };
            self.ahead.push_back((id, codec::record_tenant(&key, value.as_ref()).unwrap_or_default()));
        }
        Ok(())
    }
}

fn start(shared: &Arc<Shared>, segment: Segment, head: watermark::Writer) -> io::Result<Embedded> {
    let (inbox, commits) = unbounded_channel();
    let (prepared, blanks) = mpsc::sync_channel(0);
    let (wanted, wanting) = mpsc::sync_channel(1);
    let (readers, mut threads) = Readers::start(shared.options.readers)?;
    let spawn =
        |name: &str, run: Box<dyn FnOnce() + Send>| thread::Builder::new().name(name.into()).spawn(run);
    let writer = Arc::new(Mutex::new(Writer::new(shared.clone(), blanks, segment)));
    let waiting = Arc::new(AtomicUsize::new(0));
    let commits = Inbox { work: commits, waiting: waiting.clone() };
    let its = writer.clone();
    // The writer is first: it is joined before the others are stopped.
    threads.insert(0, spawn("store-write", Box::new(move || writer::run(&its, commits)))?);
    let mine = shared.clone();
    threads.push(spawn("store-prepare", Box::new(move || segment_preparer::run(&mine, &prepared)))?);
    let mine = shared.clone();
    threads.push(spawn("store-index", Box::new(move || indexer::run(&mine)))?);
    let mine = shared.clone();
    threads.push(spawn("store-checkpoint", Box::new(move || checkpoint::run(&mine, &wanting)))?);
    let mine = shared.clone();
    threads.push(spawn("store-watch", Box::new(move || monitor::run(&mine, &head)))?);
    let units = (shared.options.inbox_bytes / ROOM).max(crate::COMMIT_LIMIT / ROOM);
    Ok(Embedded {
        shared: shared.clone(),
        inbox,
        writer,
        waiting,
        room: Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS))),
        readers: Mutex::new(Some(Arc::new(readers))),
        wanted: Mutex::new(Some(wanted)),
        threads: Mutex::new(threads),
    })
}
