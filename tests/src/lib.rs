//! What the tests share: processes that can be killed, the simulated world as one of them, and the big campaigns.

pub mod account;
pub mod books;
pub mod calls;
pub mod campaign;
pub mod pairs;
pub mod preemption;
pub mod processes;
pub mod traces;
pub mod world;
