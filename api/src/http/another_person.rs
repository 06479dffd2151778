//! Checks that the caller of a confirmation, a review or a release is not the requester, by the same rule as votes.
//!
//! Called by routes that need a second person but have no approval. Invariant: the engine decides, from the recorded provenance of both credentials. `tenure
//! serve --trial` accepts every pair.

use crate::{
    auth::{Caller, parties, voting_person},
    http::problem::Problem,
    state::ServerState,
};
use engine::{Error, Person, Provenance, Refusal, find_tie_between};
use std::collections::BTreeSet;

/// Returns a requester with the recorded provenance of their credential, or its present provenance if none was recorded.
pub(in crate::http) async fn recorded_person(
    app: &ServerState,
    name: &str,
    recorded: Option<Provenance>,
) -> Result<Person, Problem> {
    let provenance = match recorded {
        Some(recorded) => Some(recorded),
        None => {
            let names = BTreeSet::from([name.to_owned()]);
            parties(&**app.engine.store(), &names).await?.remove(name)
        }
    };
    Ok(Person::new(name.to_owned(), Vec::<String>::new()).with_provenance(provenance.map(Box::new)))
}

/// Returns the provenance of the caller's credential and of the caller's group memberships.
pub(in crate::http) async fn own_provenance(
    app: &ServerState,
    caller: &Caller,
) -> Result<Option<Provenance>, Problem> {
    let person = voting_person(&**app.engine.store(), &caller.name, caller).await?;
    Ok(person.and_then(|person| person.provenance).map(|from| *from))
}

/// Rejects a caller who is not separate from each of the `asked` persons. Equal names are rejected by the route, with its own code.
pub(in crate::http) async fn require_another_person(
    app: &ServerState,
    caller: &Caller,
    asked: Vec<Person>,
) -> Result<(), Problem> {
    if !app.engine.separation().is_enforced() {
        return Ok(());
    }
    let others: Vec<Person> = asked.into_iter().filter(|person| person.name != caller.name).collect();
    let found = voting_person(&**app.engine.store(), &caller.name, caller).await?;
    let person = found.unwrap_or_else(|| caller.person());
    match find_tie_between(&person, &others) {
        Some(tie) => Err(Error::from(Refusal::NotSeparate { person: caller.name.clone(), tie }).into()),
        None => Ok(()),
    }
}
