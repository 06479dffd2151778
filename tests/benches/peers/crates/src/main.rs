//! Other engines that are available as crates, with the same five steps: `peers steno IN_FLIGHT SECONDS` in memory, `peers duroxide DB
//! IN_FLIGHT SECONDS` on SQLite with its default settings. Prints a row like the bench `load`.

mod closed;
mod duroxide;
mod steno;

/// Each of the five steps returns about 200 bytes of JSON, as Tenure's do.
fn result(step: usize) -> serde_json::Value {
    serde_json::json!({ "step": step, "pad": "x".repeat(180) })
}

#[tokio::main]
async fn main() {
    let said: Vec<String> = std::env::args().skip(1).collect();
    let number = |text: &str| text.parse().expect("a number");
    match said.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["steno", in_flight, seconds] => steno::run(number(in_flight), number(seconds)).await,
        ["duroxide", db, in_flight, seconds] => duroxide::run(db, number(in_flight), number(seconds)).await,
        _ => panic!("peers steno IN_FLIGHT SECONDS, or peers duroxide DB IN_FLIGHT SECONDS"),
    }
}
