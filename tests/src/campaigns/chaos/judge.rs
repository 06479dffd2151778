//! Checks the final state: by the records of the simulated platform, by the ledger, and by the journal.

use super::{
    Outcome, SLACK,
    load::Told,
    troubles::{Away, STOOD_STILL},
    watch::{Ended, Eyes, Held, Struck},
};
use crate::processes::World;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// States in which an execution has done all of its work.
const DONE: [&str; 6] = ["Active", "Restored", "Cleared", "Started", "LeftToOwner", "Superseded"];

impl Ended {
    fn done(&self) -> bool {
        self.reason == "completed" && DONE.contains(&self.state.as_str())
    }
}

/// Runs all checks.
pub(super) async fn judge(
    eyes: &Eyes,
    world: &World,
    told: &Told,
    (struck, away): (&[Struck], &Away),
    lease: Duration,
    outcome: &mut Outcome,
) {
    let executions = eyes.executions().await;
    ends(&executions, told, outcome);
    effects(&executions, &world.look("effects").await, outcome);
    left_behind(&executions, &world.look("snapshot").await, outcome);
    nodes(eyes, world, outcome).await;
    take_overs(eyes, struck, away, lease, outcome).await;
    late_results(eyes, struck, outcome).await;
    for refused in world.look("refused").await.as_array().into_iter().flatten() {
        // The world refused a second owner of a node, or an owner whose epoch is over.
        if ["node.owned", "node.epoch_old"].contains(&refused["code"].as_str().unwrap_or_default()) {
            outcome.wrong.push(format!("query of the simulated platform: {refused}"));
        }
        outcome.refused_outside += usize::from(refused["code"] == "call.fenced");
    }
}

/// Checks that every acknowledged start has one execution, with the right end.
fn ends(executions: &[Ended], told: &Told, outcome: &mut Outcome) {
    let mut by_subject: BTreeMap<&str, usize> = BTreeMap::new();
    for execution in executions {
        let Ended { id, workflow, subject, state, reason, took } = execution;
        let cancelled = subject.strip_prefix("tenant/").is_some_and(|tenant| told.cancelled.contains(tenant));
        if !(execution.done() || cancelled && reason == "cancelled") {
            outcome.wrong.push(format!("{workflow} {id} of {subject} is {reason} in {state}"));
        }
        let end = if execution.done() { state } else { reason };
        let took = Duration::from_millis(*took);
        outcome.ends.entry(format!("{workflow} {end}")).or_default().push(took);
        if workflow != "eviction" {
            *by_subject.entry(subject).or_default() += 1;
        }
    }
    outcome.ends.values_mut().for_each(|took| took.sort());
    for subject in told.ends.keys() {
        match by_subject.get(subject.as_str()) {
            Some(1) => {}
            count => outcome.wrong.push(format!("{subject} was requested once and exists {count:?} times")),
        }
    }
}

/// The slot of the step that makes a tier's class.
const SHARED: &str = "#class";

/// Checks that each key took effect once, and that completed executions left the same effects as undisturbed ones.
fn effects(executions: &[Ended], effects: &Value, outcome: &mut Outcome) {
    let mut left: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut shared = 0;
    for (key, count) in effects.as_object().into_iter().flatten() {
        outcome.keys += 1;
        if *count != json!(1) {
            outcome.wrong.push(format!("{key} took effect {count} times"));
        }
        // The first tenant makes the shared objects, and no other tenant owes them.
        if key.ends_with(SHARED) {
            shared += 1;
            continue;
        }
        // execution/state/number of entries/slot
        if let [execution, state, _, slot] = key.split('/').collect::<Vec<_>>()[..] {
            left.entry(execution).or_default().insert(format!("{state}/{slot}"));
        }
    }
    if shared == 0 {
        outcome.wrong.push(format!("nothing whose name ends with {SHARED} was created"));
    }
    // The first of each kind had ended before any fault began.
    let mut owed: BTreeMap<(&str, &str), &BTreeSet<String>> = BTreeMap::new();
    let nothing = BTreeSet::new();
    // The campaign also starts borrowers' workloads itself, so a start may find its workload running and change
    // nothing.
    let same_each_time = |execution: &&Ended| execution.done() && execution.workflow != "workload_start";
    for execution in executions.iter().filter(same_each_time) {
        let has = left.get(execution.id.as_str()).unwrap_or(&nothing);
        let owed = owed.entry((&execution.workflow, shape(execution))).or_insert(has);
        let lacks: Vec<_> = owed.difference(has).collect();
        outcome.owed += owed.len();
        if !lacks.is_empty() {
            let Ended { id, workflow, subject, .. } = execution;
            outcome
                .wrong
                .push(format!("{workflow} {id} of {subject} has completed, but {lacks:?} is missing"));
        }
    }
    for ((workflow, _), owed) in &owed {
        if owed.is_empty() {
            outcome.wrong.push(format!("no {workflow} has had any effect"));
        }
    }
}

/// Executions with the same work have the same shape.
fn shape(execution: &Ended) -> &'static str {
    let Some(tenant) = execution.subject.strip_prefix("tenant/") else { return "" };
    if tenant.starts_with("lender-") {
        return "lends";
    }
    let number = tenant.rsplit('-').next().and_then(|number| number.parse::<usize>().ok());
    if number.is_some_and(|number| number % 4 == 3) { "two nodes" } else { "one node" }
}

/// Checks that undone executions have left nothing.
fn left_behind(executions: &[Ended], snapshot: &Value, outcome: &mut Outcome) {
    let back = executions.iter().filter(|execution| execution.reason == "cancelled");
    let back: BTreeSet<&str> =
        back.filter_map(|execution| execution.subject.strip_prefix("tenant/")).collect();
    for (address, thing) in snapshot.as_object().into_iter().flatten() {
        let tenant = thing["tenant"].as_str().unwrap_or_default();
        if back.contains(tenant) {
            outcome.wrong.push(format!("{address} remains of {tenant}, whose onboarding was undone"));
        }
    }
}

/// Checks that ledger and platform agree on the owner of each node.
async fn nodes(eyes: &Eyes, world: &World, outcome: &mut Outcome) {
    let (ours, theirs) = (eyes.owners().await, owners(world).await);
    for node in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        if ours.get(node) != theirs.get(node) {
            let (ours, theirs) = (ours.get(node), theirs.get(node));
            outcome.wrong.push(format!("node {node}: the ledger has {ours:?}, the platform has {theirs:?}"));
        }
    }
    outcome.owned = theirs.len();
}

/// Returns the owner of each node, as the nodes report it, by the node's id.
async fn owners(world: &World) -> BTreeMap<String, String> {
    let owners = world.look("owners").await;
    let owner = |(address, owner): (&String, &Value)| {
        Some((address.rsplit('/').next()?.to_owned(), owner["tenant"].as_str()?.to_owned()))
    };
    owners.as_object().into_iter().flatten().filter_map(owner).collect()
}

/// Checks the invariants that hold at any moment.
pub(super) async fn look(eyes: &Eyes, world: &World, outcome: &mut Outcome) {
    outcome.looks += 1;
    let mut found: Vec<String> =
        world.look("violations").await.as_array().into_iter().flatten().map(Value::to_string).collect();
    let (before, theirs) = (eyes.owners().await, owners(world).await);
    let differs = |ours: &BTreeMap<String, String>, (node, theirs): (&String, &String)| {
        ours.get(node).is_some_and(|ours| ours != theirs)
    };
    if theirs.iter().any(|pair| differs(&before, pair)) {
        // Its owner may have changed between the two reads.
        let after = eyes.owners().await;
        let two =
            theirs.iter().filter(|pair| differs(&before, *pair) && before.get(pair.0) == after.get(pair.0));
        found.extend(two.map(|(node, owner)| {
            format!("node {node} is {owner}'s, and the ledger gave it to {:?}", after.get(node))
        }));
    }
    found.retain(|wrong| !outcome.wrong.contains(wrong));
    outcome.wrong.extend(found);
}

/// Measures for how long each task of an affected server had no possible worker. A lease expires by itself; after that, the time in
/// which the database is away does not count.
async fn take_overs(eyes: &Eyes, struck: &[Struck], away: &Away, lease: Duration, outcome: &mut Outcome) {
    let (handed_over, leased, renewed) =
        (eyes.handed_over().await, eyes.leased().await, eyes.renewed().await);
    let ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
    let longest = lease + SLACK;
    for Struck { kind, at, held } in struck {
        let taken = outcome.taken.entry(*kind).or_default();
        taken.troubles += 1;
        taken.held += held.len();
        for lease in held {
            match handed_over.get(lease) {
                Some(then) => {
                    // A server that returned and renewed a lease that was still free holds it from then on.
                    let at = renewed.get(lease).copied().filter(|again| *again > at + ms * 2).unwrap_or(*at);
                    let lapsed = at.saturating_add(ms);
                    let gone =
                        away.iter().map(|(from, to)| (*to).min(*then).saturating_sub((*from).max(lapsed)));
                    let gone: u64 = gone.sum();
                    let after = Duration::from_millis(then.saturating_sub(at).saturating_sub(gone));
                    taken.after.push(after);
                    if after > longest {
                        outcome.wrong.push(late(lease, kind, after, (at, *then), away));
                    }
                }
                None if leased.contains(lease) => {
                    outcome.wrong.push(format!(
                        "{} was held by a server that was {kind}, and no server took it over",
                        lease.task
                    ));
                }
                // Writes on their way to the database have arrived, or the server was back in time.
                None => taken.settled += 1,
            }
        }
    }
    outcome.taken.values_mut().for_each(|taken| taken.after.sort());
    outcome.wrong.extend(
        eyes.stolen()
            .await
            .iter()
            .map(|result| format!("a result was accepted from a server without the lease: {result}")),
    );
}

fn late(lease: &Held, kind: &str, after: Duration, (at, then): (u64, u64), away: &Away) -> String {
    let since = |moment: u64| moment.saturating_sub(at);
    let falls = away.iter().filter(|(from, to)| *to > at && *from < then);
    let falls: Vec<_> = falls.map(|(from, to)| (since(*from), since(*to))).collect();
    format!(
        "{} of a server that was {kind} was taken over after {after:.1?}: {} ms later, with the database away in {falls:?}",
        lease.task,
        since(then)
    )
}

/// Late results were refused, and the journals of their executions say so.
async fn late_results(eyes: &Eyes, struck: &[Struck], outcome: &mut Outcome) {
    let handed_over = eyes.handed_over().await;
    let refused = eyes.refused().await;
    outcome.refused = refused.len();
    let leases: BTreeSet<_> = refused.into_iter().filter_map(|(_, lease)| lease).collect();
    for Struck { held, .. } in struck.iter().filter(|struck| struck.kind == STOOD_STILL) {
        let lost: Vec<_> = held.iter().filter(|lease| handed_over.contains_key(lease)).collect();
        outcome.late.0 += lost.len();
        outcome.late.1 += lost.iter().filter(|lease| leases.contains(**lease)).count();
    }
    if outcome.late.1 == 0 {
        outcome.wrong.push("no refusal of a late result is in the journal".into());
    }
}
