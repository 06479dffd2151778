//! Leases tasks: tenants take turns, each task goes to one process at a time, with a new epoch each time.

use super::{
    error::unavailable,
    fair_queue::Due,
    row::{self, to_i64, to_u32, to_u64, to_uuid},
    shared::Shared,
};
use crate::{Epoch, Error, Lease, TaskId, Timestamp, sync::lock_unpoisoned};
use sqlx::{Row as _, postgres::PgRow};
use std::{sync::atomic::Ordering, time::Duration};

/// The due tasks, earliest first: all of them, unless there is a backlog.
const EARLIEST: &str = "SELECT tenant, available, execution, visit, slot FROM tasks \
    WHERE available <= $1 AND (SELECT count(*) = 0 FROM hold) ORDER BY available LIMIT $2";
/// In a backlog: tenants with due tasks, found by one index step each, with their earliest tasks.
const DUE: &str = "\
WITH RECURSIVE tenants AS (
    (SELECT tenant FROM tasks WHERE (SELECT count(*) = 0 FROM hold) ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT t.tenant FROM tasks t WHERE t.tenant > tenants.tenant ORDER BY t.tenant LIMIT 1)
    FROM tenants WHERE tenants.tenant IS NOT NULL
)
SELECT due.tenant, due.available, due.execution, due.visit, due.slot
FROM tenants CROSS JOIN LATERAL (
    SELECT tenant, available, execution, visit, slot FROM tasks
    WHERE tasks.tenant = tenants.tenant AND available <= $1
    ORDER BY available, execution, visit, slot LIMIT $2
) due";
/// In a backlog: tasks whose holder has crashed. They were begun, so they do not wait behind others.
const LAPSED: &str = "SELECT tenant, available, execution, visit, slot FROM tasks \
    WHERE holder IS NOT NULL AND available <= $1 AND (SELECT count(*) = 0 FROM hold) ORDER BY available LIMIT $2";

/// Takes the tasks that no other process has taken meanwhile; none if this process was fenced, or if the database is behind a commit that was seen.
/// Each is found by its key and locked there, whatever the database estimates for the table's size.
const TAKE: &str = "\
WITH wanted AS (
    SELECT t.place FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) w(execution, visit, slot)
    CROSS JOIN LATERAL (SELECT t.ctid AS place FROM tasks t
        WHERE t.execution = w.execution AND t.visit = w.visit AND t.slot = w.slot AND t.available <= $4
            AND (SELECT count(*) = 0 FROM hold) AND (SELECT sequence >= $7 FROM head)
            AND EXISTS (SELECT FROM engines WHERE id = $8 AND ended_at IS NULL)
        FOR UPDATE SKIP LOCKED) t
)
UPDATE tasks t
SET epoch = nextval('epochs'), holder = $5, until = $6, available = greatest(t.due, $6), deliveries = t.deliveries + 1
WHERE t.ctid = ANY (ARRAY (SELECT place FROM wanted))
RETURNING t.execution, t.visit, t.slot, t.due, t.body, t.deliveries, t.epoch";

const RENEW: &str = "UPDATE tasks SET until = greatest(until, $5), available = greatest(due, until, $5) \
    WHERE execution = $1 AND visit = $2 AND slot = $3 AND epoch = $4";
/// Notifies others: a returned task may be one that another process waited for.
const RELEASE: &str = "WITH freed AS (UPDATE tasks SET holder = NULL, epoch = NULL, until = NULL, due = $5, available = $5, \
    deliveries = $6 WHERE execution = $1 AND visit = $2 AND slot = $3 AND epoch = $4 RETURNING 1) \
    SELECT pg_notify($7, '') FROM freed";
const HASTEN: &str = "UPDATE tasks SET due = least(due, $4), available = least(due, $4) \
    WHERE execution = $1 AND visit = $2 AND slot = $3 AND epoch IS NULL";

/// With fewer due tasks there is no backlog.
const BACKLOG_FROM: usize = 256;

impl Shared {
    pub(super) async fn lease(
        &self,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, Error> {
        let until = now.after(ttl);
        let mut leases = Vec::new();
        while leases.len() < limit {
            let wanted = limit.saturating_sub(leases.len());
            let due = self.due(now, wanted).await?;
            if due.len() == 0 {
                break;
            }
            let all = due.len() <= wanted;
            let chosen = lock_unpoisoned(&self.fair_queue).choose(due, wanted);
            let mut taken = self.lease_tasks(&chosen, holder, now, until).await?;
            // Another process took them all and returns for more before this one. Or there were more earlier.
            let none = taken.is_empty();
            if none {
                self.check_watermark().await.map_err(|error| unavailable(&error))?;
            }
            let place = |lease: &Lease| chosen.iter().position(|id| *id == lease.task.id);
            taken.sort_by_key(place);
            leases.extend(taken);
            if none || all {
                break;
            }
        }
        Ok(leases)
    }

    async fn due(&self, now: Timestamp, limit: usize) -> Result<Due, Error> {
        let few = limit.saturating_mul(4).max(BACKLOG_FROM);
        let mut due = Due::default();
        let mut rows = self.query_due(EARLIEST, now, few).await?;
        if rows.len() >= few {
            due.lapsed = self.query_due(LAPSED, now, limit).await?.into_iter().map(|(_, _, id)| id).collect();
            // The oldest tasks might all be of one tenant; the others get their turns.
            rows = self.query_due(DUE, now, limit).await?;
        }
        for (tenant, available, id) in rows {
            if !due.lapsed.contains(&id) {
                due.others.entry(tenant).or_default().push_back((available, id));
            }
        }
        due.others.values_mut().for_each(|tasks| tasks.make_contiguous().sort_unstable());
        Ok(due)
    }

    async fn query_due(
        &self,
        sql: &'static str,
        now: Timestamp,
        most: usize,
    ) -> Result<Vec<(String, i64, TaskId)>, Error> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let found = |row: &PgRow| Ok((row.try_get("tenant")?, row.try_get("available")?, row::task_id(row)?));
        self.with_retries(|| async move {
            let rows = sqlx::query(sql).bind(to_i64(now.0)).bind(most).fetch_all(&self.pool).await?;
            rows.iter().map(found).collect::<Result<_, sqlx::Error>>()
        })
        .await
    }

    /// Not repeated if its answer is lost: the lease then has no holder, and expires.
    async fn lease_tasks(
        &self,
        wanted: &[TaskId],
        holder: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Vec<Lease>, Error> {
        let executions: Vec<_> = wanted.iter().map(|id| to_uuid(id.execution)).collect();
        let visits: Vec<i64> = wanted.iter().map(|id| i64::from(id.visit)).collect();
        let slots: Vec<i64> = wanted.iter().map(|id| i64::from(id.slot)).collect();
        let query = sqlx::query(TAKE).bind(executions).bind(visits).bind(slots).bind(to_i64(now.0));
        let seen = to_i64(self.seen.load(Ordering::Acquire));
        let rows =
            query.bind(holder).bind(to_i64(until.0)).bind(seen).bind(self.id).fetch_all(&self.pool).await;
        let lease = |found: &PgRow| {
            Ok(Lease {
                task: row::task(found)?,
                holder: holder.into(),
                epoch: Epoch(to_u64(found.try_get("epoch")?)),
                deliveries: to_u32(found.try_get("deliveries")?),
                until,
            })
        };
        let leases = rows.and_then(|rows| rows.iter().map(lease).collect::<Result<_, sqlx::Error>>());
        leases.map_err(|error| unavailable(&error))
    }

    pub(super) async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), Error> {
        let renewed = self
            .with_retries(|| async move {
                let query = lease_statement(RENEW, task, epoch).bind(to_i64(until.0));
                Ok(query.execute(&self.pool).await?.rows_affected())
            })
            .await?;
        if renewed == 0 { Err(Error::Fenced { task, epoch }) } else { Ok(()) }
    }

    pub(super) async fn release(
        &self,
        task: TaskId,
        epoch: Epoch,
        due: Timestamp,
        deliveries: u32,
    ) -> Result<(), Error> {
        self.with_retries(|| async move {
            let query = lease_statement(RELEASE, task, epoch).bind(to_i64(due.0)).bind(i64::from(deliveries));
            let query = query.bind(self.channel());
            query.execute(&self.pool).await.map(drop)
        })
        .await
    }

    pub(super) async fn hasten(&self, task: TaskId, due: Timestamp) -> Result<bool, Error> {
        let hastened = self
            .with_retries(|| async move {
                let query = task_statement(HASTEN, task).bind(to_i64(due.0));
                Ok(query.execute(&self.pool).await?.rows_affected())
            })
            .await?;
        Ok(hastened > 0)
    }
}

type Statement = sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments>;

fn task_statement(sql: &'static str, task: TaskId) -> Statement {
    sqlx::query(sql).bind(to_uuid(task.execution)).bind(i64::from(task.visit)).bind(i64::from(task.slot))
}

fn lease_statement(sql: &'static str, task: TaskId, epoch: Epoch) -> Statement {
    task_statement(sql, task).bind(to_i64(epoch.0))
}
