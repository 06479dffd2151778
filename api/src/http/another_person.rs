//! Whether who agrees, reviews or releases is another person than who asked: by the rule that votes are counted by.
//!
//! Called by the routes that take a second person without a ballot. Invariant: the engine alone decides, from what is on record of
//! both credentials; `tenure serve --trial` lets everybody pass.

use crate::{
    auth::{Caller, parties, voting_person},
    http::problem::Problem,
    state::ServerState,
};
use engine::{Error, Person, Provenance, Refusal, find_tie_between};
use std::collections::BTreeSet;

/// Somebody who asked for something: with where their credential came from then, or comes from now where that was not recorded.
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

/// Where the credential of the caller comes from, and who put them into groups.
pub(in crate::http) async fn own_provenance(
    app: &ServerState,
    caller: &Caller,
) -> Result<Option<Provenance>, Problem> {
    let person = voting_person(&**app.engine.store(), &caller.name, caller).await?;
    Ok(person.and_then(|person| person.provenance).map(|from| *from))
}

/// Refuses a caller who is not another person than each of those who `asked`. Who has the very name of one is refused elsewhere, with
/// the code of that route.
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
