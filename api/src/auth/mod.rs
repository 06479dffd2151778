//! Authentication and authorisation. Default deny: a request without a permit is rejected.
//!
//! Invariant: no secret is stored; a token is stored as its SHA-256 and compared in constant time.

mod bootstrap;
mod caller;
mod collections;
mod delegation;
mod enrolment;
mod group;
mod person;
pub mod policy;
mod provenance;
mod role;
mod rotation;
mod session;
mod stored_token;
mod user;
mod verb;

pub(crate) use bootstrap::{end_bootstrap_token, explain_end};
pub(crate) use caller::{Caller, Denied, authenticate, expiry, reauthenticate};
pub(crate) use delegation::{
    Delegation, NewDelegation, add_delegation, delegations_to, end_delegation, parties, voting_person,
};
pub(crate) use enrolment::{Enrolment, NewEnrolment, claim, enrol, enrolling};
pub(crate) use group::{Group, add_group, change_group, groups_of, remove_group};
pub(crate) use person::Person;
pub use role::Role;
pub(crate) use rotation::rotate_token;
pub(crate) use session::{
    Session, SignIn, begin_session, challenge_of, end_session, redeem_sign_in, store_sign_in,
};
pub(crate) use stored_token::{
    NewToken, StoredToken as KeptToken, issue_token, record_expiries, remove_token, tokens_of,
};
pub(crate) use user::{NewUser, User, UserKind, add_user, ensure_admin, remove_user};
pub use verb::Verb;
