//! x
use crate::exit::{Exit, Failure};
pub(crate) async fn run() -> Result<Exit, Failure> {
    Ok(Exit::Done)
}
