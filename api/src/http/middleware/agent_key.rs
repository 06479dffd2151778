//! Lets in the agents of a cluster by their key.

use crate::{
    http::problem::{Problem, code::ProblemCode, denial::Requester},
    state::SharedState,
};
use program::token::Token;

/// Lets in the holder of a key of the cluster that `path` names. A key of another cluster opens nothing here, and the attempt is
/// put on record (S-6).
pub(in crate::http) fn authorize_agent(
    app: &SharedState,
    path: &str,
    token: Option<&Token>,
) -> Result<(), Problem> {
    let agents = &app.agents;
    let named = path.trim_start_matches("/v1/agents/").split('/').next().unwrap_or_default();
    let opens = |cluster: &str| -> Result<bool, Problem> {
        let hashes = agents.hashes(cluster).map_err(|why| {
            tracing::error!(cluster, why, "the keys of a cluster's agents cannot be read");
            Problem::new(
                ProblemCode::StoreUnavailable,
                format!("the keys of cluster {cluster} cannot be read"),
            )
        })?;
        // All are compared, so that the time tells nothing.
        Ok(token.is_some_and(|token| hashes.iter().fold(false, |found, hash| found | token.matches(hash))))
    };
    if opens(named)? {
        return Ok(());
    }
    for other in agents.clusters().filter(|other| *other != named) {
        if opens(other)? {
            tracing::warn!(
                code = "auth.cross_cluster_attempt",
                key_of = other,
                at = path,
                "the key of the agents of one cluster was used on another"
            );
            let detail = format!("the key of the agents of cluster {other} opens nothing of cluster {named}");
            let whose = Requester::named(format!("agents of cluster {other}"));
            return Err(Problem::new(ProblemCode::CrossCluster, detail).to(whose));
        }
    }
    Err(Problem::new(ProblemCode::BadToken, format!("the token is no key of the agents of cluster {named}")))
}
