//! Creates changes from the history, with records and approvals as needed by streams.

use super::{
    Subscriptions,
    change::{ApprovalStates, Change, ChangeKind, EntryGroup, passed},
};
use crate::state::ServerState;
use engine::{ApprovalRecord, Error};
use futures_util::{StreamExt as _, stream};
use std::collections::{BTreeMap, BTreeSet};
use store::{ExecutionId, Record, Sequence};

/// The number of entries per read, unless one commit has more.
pub(crate) const PAGE: usize = 256;
/// The number of executions read at once.
const AT_ONCE: usize = 8;

/// The present state of a changed execution.
struct CurrentState {
    record: Record,
    written: Vec<(Sequence, ApprovalRecord)>,
}

/// Returns the changes of these groups that are `wanted`.
pub(crate) async fn read_changes(
    app: &ServerState,
    asking: &ApprovalStates,
    wanted: &Subscriptions,
    groups: &[EntryGroup],
) -> Result<Vec<Change>, Error> {
    let mut touched: BTreeMap<ExecutionId, BTreeSet<String>> = BTreeMap::new();
    for group in groups.iter().filter(|group| !group.is_of_nobody()) {
        let asks = wanted.has_approvals() && asking.may(&group.entries);
        if asks || wanted.has(group.execution) {
            let states = passed(&group.entries).into_iter().map(ToOwned::to_owned);
            touched.entry(group.execution).or_default().extend(states);
        }
    }
    let read = stream::iter(touched).map(|(id, passed)| async move {
        known(app, asking, wanted, (id, &passed)).await.map(|known| (id, known))
    });
    let read: Vec<Result<(ExecutionId, Option<CurrentState>), Error>> =
        read.buffered(AT_ONCE).collect().await;
    let known: BTreeMap<ExecutionId, Option<CurrentState>> = read.into_iter().collect::<Result<_, _>>()?;
    let separation = app.engine.separation();
    let change = |group: &EntryGroup| match group.forgotten() {
        Some(forgotten) => {
            let (execution, position) = (forgotten.execution, group.position);
            Some(Change { execution, position, what: ChangeKind::Forgotten(forgotten) })
        }
        None => {
            let known = known.get(&group.execution)?.as_ref()?;
            Some(group.change(&known.record, &known.written, separation))
        }
    };
    Ok(groups.iter().filter_map(change).collect())
}

/// Returns the execution and its approvals; `None` if no stream needs it, or it cannot be read.
async fn known(
    app: &ServerState,
    asking: &ApprovalStates,
    wanted: &Subscriptions,
    (id, passed): (ExecutionId, &BTreeSet<String>),
) -> Result<Option<CurrentState>, Error> {
    let mut record = match app.engine.store().load(id).await {
        Ok(Some(record)) => record,
        // Removed since, or unreadable, which the routes of executions report.
        Ok(None) | Err(store::Error::Corrupt { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    record.body = Vec::new();
    let asks = wanted.has_approvals() && asking.concerns(&record.workflow, passed);
    if !asks && !wanted.has(id) {
        return Ok(None);
    }
    let written = match asks {
        true => match app.engine.approval_versions(id).await {
            Err(Error::Store(store::Error::Corrupt { .. })) => Vec::new(),
            written => written?,
        },
        false => Vec::new(),
    };
    Ok(Some(CurrentState { record, written }))
}
