//! An operator's tool behind a hook, as a program: the request on standard input, the answer on standard output.
//!
//! `house FOLDER`

use serde_json::Value;
use std::{
    io::{self, Read, Write},
    process::ExitCode,
};
use tests::kit::house::House;

fn main() -> io::Result<ExitCode> {
    let folder = std::env::args().nth(1).ok_or(io::ErrorKind::InvalidInput)?;
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let request: Value = serde_json::from_str(&text)?;
    let Some(verdict) = House::at(folder.as_ref())?.troubled(&request)? else { std::process::abort() };
    let said = match &verdict.said {
        Value::String(garbage) => garbage.clone(),
        said => said.to_string(),
    };
    io::stdout().write_all(said.as_bytes())?;
    Ok(ExitCode::from(u8::try_from(verdict.code).unwrap_or(1)))
}
