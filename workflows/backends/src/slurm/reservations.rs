//! One reservation per tenant for the nodes of its account, so that its jobs can span them and no other tenant's jobs
//! run there.
//!
//! Slurm 22.05 rejects `nodes+=` for a reservation, so the complete list is written and read back. `Duration=UNLIMITED`
//! means one year, so a distant end time is written instead.

use super::{ChangeReport, SlurmCluster, change_report, not_kept};
use engine::ActionError;
use std::collections::BTreeSet;
use workflows::platform::codes;

/// The user that holds the reservation of a removed account until its nodes are returned.
const KEEPER: &str = "root";
/// The end time of our reservations.
const FAR_AWAY: &str = "EndTime=2099-01-01T00:00:00";

impl SlurmCluster {
    /// Returns the nodes of a reservation; `None` if it does not exist.
    async fn reserved(&self, name: &str) -> Result<Option<BTreeSet<String>>, ActionError> {
        let all = self.rest.reservations().await?;
        let Some(found) = all.into_iter().find(|one| one.name == name) else { return Ok(None) };
        if found.accounts != name && !(found.accounts.is_empty() && found.users == KEEPER) {
            let why = format!(
                "reservation {name} is for {:?} {:?}, so it was not changed",
                found.accounts, found.users
            );
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        Ok(Some(found.nodes.into_iter().collect()))
    }

    /// Adds a node to an account's reservation and creates the reservation for the first node. Returns true if the node
    /// was added.
    pub(super) async fn reserve(&self, account: &str, node: &str) -> Result<bool, ActionError> {
        let _turn = self.turns.of(&format!("reservation/{account}")).await;
        let there = self.reserved(account).await?;
        let name = format!("ReservationName={account}");
        match there {
            Some(nodes) if nodes.contains(node) => return Ok(false),
            Some(mut nodes) => {
                nodes.insert(node.to_owned());
                self.tools.scontrol(&["update", &name, &listed(&nodes)]).await?;
            }
            None => {
                let (accounts, nodes) = (format!("Accounts={account}"), format!("Nodes={node}"));
                self.tools.scontrol(&["create", &name, &accounts, "StartTime=now", FAR_AWAY, &nodes]).await?;
            }
        }
        match self.reserved(account).await? {
            Some(nodes) if nodes.contains(node) => Ok(true),
            Some(_) | None => Err(not_kept(&format!("reservation {account}"))),
        }
    }

    /// Removes a node from an account's reservation and deletes the reservation with its last node. Returns true if the
    /// node was removed.
    pub(super) async fn unreserve(&self, account: &str, node: &str) -> Result<bool, ActionError> {
        let _turn = self.turns.of(&format!("reservation/{account}")).await;
        let Some(mut nodes) = self.reserved(account).await?.filter(|nodes| nodes.contains(node)) else {
            return Ok(false);
        };
        nodes.remove(node);
        let name = format!("ReservationName={account}");
        if nodes.is_empty() {
            self.remove_reservation(account).await?;
        } else {
            self.tools.scontrol(&["update", &name, &listed(&nodes)]).await?;
        }
        match self.reserved(account).await? {
            Some(nodes) if nodes.contains(node) => Err(not_kept(&format!("reservation {account}"))),
            Some(_) | None => Ok(true),
        }
    }

    /// Reserves the nodes of a removed account for no tenant, so that they are sanitised before their next use.
    pub(super) async fn keep_reserved(&self, account: &str) -> Result<(), ActionError> {
        self.kept(|| self.kept_back(account)).await
    }

    async fn kept_back(&self, account: &str) -> Result<ChangeReport<()>, ActionError> {
        let _turn = self.turns.of(&format!("reservation/{account}")).await;
        let all = self.rest.reservations().await?;
        if !all.iter().any(|one| one.name == account && one.accounts == account) {
            return Ok(change_report(false, ()));
        }
        let (name, users) = (format!("ReservationName={account}"), format!("Users={KEEPER}"));
        self.tools.scontrol(&["update", &name, &users, "Accounts="]).await?;
        Ok(change_report(true, ()))
    }

    /// Deletes a reservation. An absent reservation is success; one with jobs fails with `node.busy`.
    pub(super) async fn remove_reservation(&self, name: &str) -> Result<(), ActionError> {
        match self.tools.scontrol(&["delete", &format!("ReservationName={name}")]).await {
            Err(error) if error.code != codes::OBJECT_MISSING => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

fn listed(nodes: &BTreeSet<String>) -> String {
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    format!("Nodes={}", nodes.join(","))
}
