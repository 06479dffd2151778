//! The nodes of a tenant as one reservation of its account, so that a job may span them and no other tenant's runs there.
//!
//! Slurm 22.05 takes no `nodes+=` for a reservation: the whole list is written, and read back. `Duration=UNLIMITED` means a
//! year, so an end far away is written instead.

use super::{ChangeReport, SlurmCluster, change_report, not_kept};
use engine::ActionError;
use std::collections::BTreeSet;
use workflows::platform::codes;

/// For whom the nodes of a tenant are kept once it has no account any more, until they are returned.
const KEEPER: &str = "root";
/// When a reservation of ours would end by itself.
const FAR_AWAY: &str = "EndTime=2099-01-01T00:00:00";

impl SlurmCluster {
    /// The nodes of the reservation of this name; `None` when there is none.
    async fn reserved(&self, name: &str) -> Result<Option<BTreeSet<String>>, ActionError> {
        let all = self.rest.reservations().await?;
        let Some(found) = all.into_iter().find(|one| one.name == name) else { return Ok(None) };
        if found.accounts != name && !(found.accounts.is_empty() && found.users == KEEPER) {
            let why = format!(
                "reservation {name} is for {:?} {:?}: it was left as it is",
                found.accounts, found.users
            );
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        Ok(Some(found.nodes.into_iter().collect()))
    }

    /// Adds a node to the reservation of an account, which is made with its first node; says whether it was not there.
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

    /// Takes a node out of the reservation of an account, which goes with its last node; says whether it was there.
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

    /// Keeps the nodes of an account that goes from everybody: they are cleaned before another has them.
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

    /// Deletes a reservation; one that is gone is gone, one that jobs use is `node.busy`.
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
