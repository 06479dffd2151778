//! Ownership of nodes: a line in the node's comment, and a reservation for the tenant's account. Cordons are drains
//! with our reason.
//!
//! Slurm writes comments unconditionally, so this backend compares the epoch between a read and a write; only the
//! read-back detects two concurrent writers. Drains that were set or changed by others are not touched.

use crate::slurm::{
    BACKEND, ChangeReport, SlurmCluster, change_report, not_kept,
    owner_label::{escaped, plain, word_of},
    responses::Node,
    unsupported, within,
};
use async_trait::async_trait;
use engine::ActionError;
use std::collections::BTreeSet;
use workflows::platform::{
    CallMetadata, FieldSwap, FoundObject, IsolationKind, Kubernetes, Manifest, ObjectRef, Ownership,
    ProbeFinding, codes, tenant_name,
};

/// The prefix of our drain reasons.
const OUR_DRAIN: &str = "tenure ";
/// The message for Kubernetes objects, which Slurm does not have.
const NO_OBJECTS: &str = "a slurm cluster has nodes and accounts, and no objects of Kubernetes";

/// Our line in a node's comment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    owner: Option<String>,
    epoch: u64,
    /// The highest epoch of an ownership that has ended or was cancelled.
    spent: u64,
    /// The steps that hold the node drained.
    held_by: BTreeSet<String>,
    /// Text written by others.
    others: String,
}

impl Line {
    fn read(comment: &str) -> Self {
        let number = |key| word_of(comment, key).and_then(|n| n.parse().ok()).unwrap_or_default();
        let held = word_of(comment, "held").unwrap_or_default().split(',').filter(|step| !step.is_empty());
        let others = match comment.split_once(" | ") {
            Some((ours, others)) if ours.starts_with("tenure ") => others,
            _ if comment.starts_with("tenure ") => "",
            _ => comment,
        };
        Self {
            owner: word_of(comment, "owner").filter(|owner| !owner.is_empty()).map(plain),
            epoch: number("epoch"),
            spent: number("spent"),
            held_by: held.map(plain).collect(),
            others: others.to_owned(),
        }
    }

    fn text(&self) -> String {
        let held: Vec<String> = self.held_by.iter().map(|step| escaped(step)).collect();
        let owner = self.owner.as_deref().map(escaped).unwrap_or_default();
        let ours =
            format!("tenure owner={owner} epoch={} spent={} held={}", self.epoch, self.spent, held.join(","));
        if self.others.is_empty() { ours } else { format!("{ours} | {}", self.others) }
    }

    fn ownership(&self) -> Ownership {
        let cordoned = !self.held_by.is_empty();
        Ownership { tenant: self.owner.clone(), owner_epoch: self.epoch, cordoned }
    }

    fn is_of(&self, of: &Ownership) -> bool {
        self.owner == of.tenant && self.epoch == of.owner_epoch
    }
}

#[async_trait]
impl Kubernetes for SlurmCluster {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    async fn apply(&self, _manifest: &Manifest, _stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        Err(unsupported(NO_OBJECTS))
    }

    async fn patch(&self, _manifest: &Manifest, _stamp: &CallMetadata) -> Result<FoundObject, ActionError> {
        Err(unsupported(NO_OBJECTS))
    }

    async fn compare_and_set(
        &self,
        _place: &ObjectRef,
        _tenant: &str,
        _swap: &FieldSwap,
        _stamp: &CallMetadata,
    ) -> Result<FoundObject, ActionError> {
        Err(unsupported(NO_OBJECTS))
    }

    async fn read(
        &self,
        _place: &ObjectRef,
        _stamp: &CallMetadata,
    ) -> Result<Option<FoundObject>, ActionError> {
        Ok(None)
    }

    async fn delete(&self, _place: &ObjectRef, _uid: &str, _stamp: &CallMetadata) -> Result<(), ActionError> {
        Ok(())
    }

    async fn take_node(
        &self,
        _cluster: &str,
        node: &str,
        to: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        within(stamp, true, self.kept(|| self.taken(node, to, stamp))).await
    }

    async fn cordon_node(
        &self,
        _cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        within(stamp, true, self.kept(|| self.cordoned(node, of, stamp))).await
    }

    async fn uncordon_node(
        &self,
        _cluster: &str,
        node: &str,
        of: &Ownership,
        by: &str,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        within(stamp, true, self.kept(|| self.uncordoned(node, of, by, stamp))).await
    }

    async fn return_node(
        &self,
        _cluster: &str,
        node: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<Ownership, ActionError> {
        within(stamp, true, self.kept(|| self.given_back(node, of, stamp))).await
    }

    async fn probe_isolation(
        &self,
        _cluster: &str,
        _tenant: &str,
        _workspace: &str,
        _kind: IsolationKind,
        _stamp: &CallMetadata,
    ) -> Result<ProbeFinding, ActionError> {
        Err(unsupported("slurm isolates no network, and there is nothing to probe"))
    }
}

impl SlurmCluster {
    async fn node(&self, name: &str) -> Result<(Node, Line), ActionError> {
        let Some(node) = self.rest.node(name).await? else {
            return Err(ActionError::permanent(codes::OBJECT_MISSING, format!("slurm knows no node {name}")));
        };
        let line = Line::read(&node.comment);
        Ok((node, line))
    }

    /// Writes the line of a node and reads it back.
    async fn write(&self, name: &str, line: &Line) -> Result<(), ActionError> {
        let (node, comment) = (format!("NodeName={name}"), format!("Comment={}", line.text()));
        self.tools.scontrol(&["update", &node, &comment]).await?;
        if self.node(name).await?.1 == *line {
            Ok(())
        } else {
            Err(not_kept(&format!("the comment of node {name}")))
        }
    }

    async fn taken(
        &self,
        name: &str,
        to: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<ChangeReport<Ownership>, ActionError> {
        let Some(tenant) = &to.tenant else {
            return Err(ActionError::permanent(
                codes::REFUSED,
                format!("{name}: a node is taken for a tenant"),
            ));
        };
        let _turn = self.turns.of(&format!("node/{name}")).await;
        let (_, mut line) = self.node(name).await?;
        let mut wrote = false;
        if !line.is_of(to) {
            let seen = line.spent.max(line.epoch);
            if to.owner_epoch <= seen {
                let why = format!("{name} is at owner epoch {seen}, and {} came", to.owner_epoch);
                return Err(ActionError::permanent(codes::EPOCH_OLD, why));
            }
            if let Some(owner) = &line.owner {
                let why = format!("{name} is of {owner:?} at epoch {}", line.epoch);
                return Err(ActionError::permanent(codes::NODE_OWNED, why));
            }
            line.owner = Some(tenant.clone());
            line.epoch = to.owner_epoch;
            if !stamp.dry_run {
                self.write(name, &line).await?;
                wrote = true;
            }
        }
        if !stamp.dry_run {
            wrote |= self.reserve(&tenant_name(tenant)?, name).await?;
        }
        Ok(change_report(wrote, line.ownership()))
    }

    async fn cordoned(
        &self,
        name: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<ChangeReport<Ownership>, ActionError> {
        let _turn = self.turns.of(&format!("node/{name}")).await;
        let (node, mut line) = self.node(name).await?;
        if !line.is_of(of) {
            return Ok(change_report(false, line.ownership()));
        }
        let new = line.held_by.insert(stamp.step.clone());
        if stamp.dry_run {
            return Ok(change_report(false, line.ownership()));
        }
        if new {
            self.write(name, &line).await?;
        }
        // A node that is already drained keeps its reason.
        let drains = !node.is_drained();
        if drains {
            let (at, reason) =
                (format!("NodeName={name}"), format!("Reason={OUR_DRAIN}{}", escaped(&stamp.step)));
            self.tools.scontrol(&["update", &at, "State=DRAIN", &reason]).await?;
            if !self.node(name).await?.0.is_drained() {
                return Err(not_kept(&format!("the drain of node {name}")));
            }
        }
        Ok(change_report(new || drains, line.ownership()))
    }

    async fn uncordoned(
        &self,
        name: &str,
        of: &Ownership,
        by: &str,
        stamp: &CallMetadata,
    ) -> Result<ChangeReport<Ownership>, ActionError> {
        let _turn = self.turns.of(&format!("node/{name}")).await;
        let (node, mut line) = self.node(name).await?;
        if !line.is_of(of) {
            return Ok(change_report(false, line.ownership()));
        }
        let held = line.held_by.remove(by);
        if stamp.dry_run {
            return Ok(change_report(false, line.ownership()));
        }
        // The drain is lifted before the line is written, so that a retry after a partial failure finds the remaining
        // work.
        let lifted = line.held_by.is_empty() && self.resume(&node).await?;
        if held {
            self.write(name, &line).await?;
        }
        Ok(change_report(held || lifted, line.ownership()))
    }

    /// Lifts a drain with our reason. Returns true if there was one.
    async fn resume(&self, node: &Node) -> Result<bool, ActionError> {
        if !node.is_drained() || !node.reason.starts_with(OUR_DRAIN) {
            return Ok(false);
        }
        self.tools.scontrol(&["update", &format!("NodeName={}", node.name), "State=RESUME"]).await?;
        let (now, _) = self.node(&node.name).await?;
        if now.is_drained() {
            Err(not_kept(&format!("the end of the drain of node {}", node.name)))
        } else {
            Ok(true)
        }
    }

    async fn given_back(
        &self,
        name: &str,
        of: &Ownership,
        stamp: &CallMetadata,
    ) -> Result<ChangeReport<Ownership>, ActionError> {
        let _turn = self.turns.of(&format!("node/{name}")).await;
        let (node, mut line) = self.node(name).await?;
        let before = line.clone();
        let ours = line.is_of(of);
        line.spent = line.spent.max(of.owner_epoch);
        if ours {
            line.owner = None;
            line.held_by.clear();
        }
        if stamp.dry_run {
            return Ok(change_report(false, line.ownership()));
        }
        // The reservation keeps other tenants away. It is removed before the line is cleared, because the line shows if
        // work remains.
        let mut wrote = false;
        if let (true, Some(tenant)) = (ours, &of.tenant) {
            wrote |= self.unreserve(&tenant_name(tenant)?, name).await?;
            wrote |= self.resume(&node).await?;
        }
        if line != before {
            self.write(name, &line).await?;
            wrote = true;
        }
        Ok(change_report(wrote, line.ownership()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_line_of_a_node_is_read_back_and_keeps_the_text_of_others() {
        let line = Line {
            owner: Some("acme".into()),
            epoch: 3,
            spent: 2,
            held_by: BTreeSet::from(["0A/Draining/1/x".into(), "0B/Other/0".into()]),
            others: "rack 7 | see ticket".into(),
        };
        assert_eq!(Line::read(&line.text()), line);
        assert_eq!(Line::read("rack 7"), Line { others: "rack 7".into(), ..Line::default() });
        assert_eq!(Line::read(&Line::default().text()), Line::default());
    }
}
