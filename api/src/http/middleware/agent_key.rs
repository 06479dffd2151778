//! Authenticates the agents of a cluster by their key.

use crate::{
    http::problem::{Problem, code::ProblemCode, denial::Requester},
    state::SharedState,
};
use program::token::Token;

/// Accepts a token that is the agents' key of the cluster in `path`. A key of another cluster is rejected, and the attempt is recorded (S-6).
pub(in crate::http) fn authorize_agent(
    app: &SharedState,
    path: &str,
    token: Option<&Token>,
) -> Result<(), Problem> {
    let agents = &app.agents;
    let named = path.trim_start_matches("/v1/agents/").split('/').next().unwrap_or_default();
    let opens = |cluster: &str| -> Result<bool, Problem> {
        let hashes = agents.hashes(cluster).map_err(|why| {
            tracing::error!(cluster, why, "cannot read the keys of agents");
            Problem::new(
                ProblemCode::StoreUnavailable,
                format!("cannot read the agents' keys of cluster {cluster}"),
            )
        })?;
        // Compares all hashes, so that timing reveals nothing.
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
                "an agent used its key on another cluster"
            );
            let detail = format!("the agents' key of cluster {other} is not valid for cluster {named}");
            let whose = Requester::named(format!("agents of cluster {other}"));
            return Err(Problem::new(ProblemCode::CrossCluster, detail).to(whose));
        }
    }
    Err(Problem::new(ProblemCode::BadToken, format!("the token is not the agents' key of cluster {named}")))
}
