//! Observes the database: holders of tasks over time, refusals, and the owner of each node. It asks no server.

use crate::servers::postgres::Client;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Mutex,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Triggers record each change of a task's holder, and each result accepted from a server without the lease. Every server
/// sends its name to the database, and a lease contains the name of its holder.
const WATCH: &str = "\
CREATE SCHEMA watched;
CREATE TABLE watched.handed_over (at bigint, execution uuid, visit bigint, slot bigint, old bigint, new bigint);
CREATE TABLE watched.renewed (at bigint, execution uuid, visit bigint, slot bigint, epoch bigint);
CREATE TABLE watched.stolen (at bigint, execution uuid, visit bigint, slot bigint, holder text, taker text);
CREATE FUNCTION watched.handed_over() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO watched.handed_over VALUES ((extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        OLD.execution, OLD.visit, OLD.slot, OLD.epoch, NEW.epoch);
    RETURN NULL;
END $$;
CREATE FUNCTION watched.renewed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO watched.renewed VALUES ((extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        NEW.execution, NEW.visit, NEW.slot, NEW.epoch);
    RETURN NULL;
END $$;
CREATE FUNCTION watched.stolen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO watched.stolen VALUES ((extract(epoch FROM clock_timestamp()) * 1000)::bigint,
        OLD.execution, OLD.visit, OLD.slot, OLD.holder, current_setting('application_name'));
    RETURN NULL;
END $$;
CREATE TRIGGER handed_over AFTER UPDATE OF epoch ON tenure.tasks FOR EACH ROW
    WHEN (OLD.epoch IS NOT NULL AND NEW.epoch IS NOT NULL AND NEW.epoch <> OLD.epoch)
    EXECUTE FUNCTION watched.handed_over();
CREATE TRIGGER renewed AFTER UPDATE OF until ON tenure.tasks FOR EACH ROW
    WHEN (NEW.epoch = OLD.epoch)
    EXECUTE FUNCTION watched.renewed();
CREATE TRIGGER stolen AFTER DELETE ON tenure.tasks FOR EACH ROW
    WHEN (OLD.epoch IS NOT NULL AND current_setting('application_name') <> 'tenure ' || split_part(OLD.holder, '/', 1))
    EXECUTE FUNCTION watched.stolen();";

/// Returns milliseconds since 1970, by this machine's clock, which the database uses as well.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// One lease: the task as `execution|visit|slot`, and its epoch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Held {
    pub(super) task: String,
    pub(super) epoch: u64,
}

/// A fault, and the tasks that its server held when it began.
#[derive(Clone, Debug)]
pub(super) struct Struck {
    pub(super) kind: &'static str,
    /// The time, in milliseconds since 1970.
    pub(super) at: u64,
    pub(super) held: BTreeSet<Held>,
}

/// An execution, open or ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) id: String,
    pub(super) workflow: String,
    pub(super) subject: String,
    pub(super) state: String,
    /// The reason of its state.
    pub(super) reason: String,
    /// Milliseconds from its start to its last commit.
    pub(super) took: u64,
}

/// Queries the database, with retries.
#[derive(Debug)]
pub(super) struct Eyes {
    client: Client,
    waited_for: Mutex<BTreeMap<String, tokio::sync::oneshot::Sender<String>>>,
}

impl Eyes {
    /// Installs the triggers in the schema that a server has made.
    pub(super) async fn open(client: Client) -> Self {
        let eyes = Self { client, waited_for: Mutex::default() };
        eyes.ask(WATCH).await;
        eyes
    }

    /// Returns one answer, if the database is available.
    pub(super) async fn try_ask(&self, sql: &str) -> io::Result<Vec<Vec<String>>> {
        let (client, sql) = (self.client.clone(), sql.to_owned());
        let said = tokio::task::spawn_blocking(move || client.sql(&sql)).await;
        let said = said.map_err(io::Error::other)??;
        let columns = |line: &str| line.split('|').map(str::to_owned).collect();
        Ok(said.lines().map(columns).collect())
    }

    /// Returns one answer, once the database is available.
    pub(super) async fn ask(&self, sql: &str) -> Vec<Vec<String>> {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.try_ask(sql).await {
                Ok(rows) => return rows,
                Err(error) => assert!(Instant::now() < deadline, "{sql}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the tasks that the server of this name holds.
    pub(super) async fn held(&self, server: &str) -> BTreeSet<Held> {
        let sql = format!(
            "SELECT execution, visit, slot, epoch FROM tenure.tasks WHERE holder LIKE '{server}/%' AND epoch IS NOT NULL"
        );
        self.ask(&sql).await.iter().filter_map(|row| held(row)).collect()
    }

    /// Returns every change of holder: the time in milliseconds since 1970, by the former holder.
    pub(super) async fn handed_over(&self) -> BTreeMap<Held, u64> {
        let sql = "SELECT execution, visit, slot, old, min(at) FROM watched.handed_over GROUP BY 1, 2, 3, 4";
        let rows = self.ask(sql).await;
        rows.iter().filter_map(|row| Some((held(row)?, row.get(4)?.parse().ok()?))).collect()
    }

    /// Returns the time of each lease's last renewal, in milliseconds since 1970.
    pub(super) async fn renewed(&self) -> BTreeMap<Held, u64> {
        let sql = "SELECT execution, visit, slot, epoch, max(at) FROM watched.renewed GROUP BY 1, 2, 3, 4";
        let rows = self.ask(sql).await;
        rows.iter().filter_map(|row| Some((held(row)?, row.get(4)?.parse().ok()?))).collect()
    }

    /// Returns every lease that is valid, or has expired without a new holder.
    pub(super) async fn leased(&self) -> BTreeSet<Held> {
        let sql = "SELECT execution, visit, slot, epoch FROM tenure.tasks WHERE epoch IS NOT NULL";
        self.ask(sql).await.iter().filter_map(|row| held(row)).collect()
    }

    /// Returns results that were accepted from a server without the lease.
    pub(super) async fn stolen(&self) -> Vec<String> {
        let sql = "SELECT s.execution, s.visit, s.slot, s.holder, s.taker, e.workflow, e.state FROM watched.stolen s \
            LEFT JOIN tenure.executions e ON e.id = s.execution";
        self.ask(sql).await.into_iter().map(|row| row.join(" ")).collect()
    }

    /// Returns the refusals of late results in the journal: the execution and its lease.
    pub(super) async fn refused(&self) -> Vec<(String, Option<Held>)> {
        let sql = "SELECT execution, convert_from(detail, 'UTF8') FROM tenure.journal WHERE event = 'fenced'";
        let lease = |detail: &str| {
            let detail: serde_json::Value = serde_json::from_str(detail).ok()?;
            let task = detail["task"].as_str()?.replace('/', "|");
            Some(Held { task, epoch: detail["epoch"].as_u64()? })
        };
        let rows = self.ask(sql).await;
        rows.into_iter()
            .filter_map(|row| Some((row.first()?.clone(), lease(&row.get(1..)?.join("|")))))
            .collect()
    }

    /// Returns the owner of each node in the ledger, by the node's id.
    pub(super) async fn owners(&self) -> BTreeMap<String, String> {
        let sql = "SELECT id, convert_from(body, 'UTF8')::jsonb->>'owner' FROM tenure.documents \
            WHERE collection = 'nodes' AND convert_from(body, 'UTF8')::jsonb->>'owner' IS NOT NULL";
        let rows = self.ask(sql).await;
        rows.into_iter().filter_map(|row| Some((row.first()?.clone(), row.get(1)?.clone()))).collect()
    }

    /// Returns every execution.
    pub(super) async fn executions(&self) -> Vec<Ended> {
        let sql = "SELECT id, workflow, subject, state, CASE WHEN open THEN phase ELSE reason END, \
            updated_at - created_at FROM tenure.executions ORDER BY id";
        let ended = |row: Vec<String>| {
            let [id, workflow, subject, state, reason, took] = <[String; 6]>::try_from(row).ok()?;
            Some(Ended { id, workflow, subject, state, reason, took: took.parse().ok()? })
        };
        self.ask(sql).await.into_iter().filter_map(ended).collect()
    }

    /// Returns the final state of the onboarding or reclaim of `subject`; `None` after `within`.
    pub(super) async fn ended(&self, subject: &str, within: Duration) -> Option<String> {
        let (tell, told) = tokio::sync::oneshot::channel();
        self.waited_for.lock().unwrap().insert(subject.to_owned(), tell);
        tokio::time::timeout(within, told).await.ok()?.ok()
    }

    /// Reports ends to their waiters, without end.
    pub(super) async fn look_out(&self) {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let subjects: Vec<_> = self.waited_for.lock().unwrap().keys().cloned().collect();
            if subjects.is_empty() {
                continue;
            }
            let sql = format!(
                "SELECT subject, state FROM tenure.executions WHERE workflow IN ('onboarding', 'reclaim') AND NOT open \
                 AND subject = ANY('{{{}}}')",
                subjects.join(",")
            );
            for row in self.try_ask(&sql).await.unwrap_or_default() {
                let waiting = self.waited_for.lock().unwrap().remove(&row[0]);
                _ = waiting.map(|waiting| waiting.send(row[1].clone()));
            }
        }
    }
}

fn held(row: &[String]) -> Option<Held> {
    let task = row.get(..3)?.join("|");
    Some(Held { task, epoch: row.get(3)?.parse().ok()? })
}
