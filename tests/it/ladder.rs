//! The short examples of the engine run to their ends.

#[path = "../../engine/examples/approval.rs"]
mod approval;
#[path = "../../engine/examples/child.rs"]
mod child;
#[path = "../../engine/examples/fan_out.rs"]
mod fan_out;
#[path = "../../engine/examples/hello.rs"]
mod hello;
#[path = "../../engine/examples/schedule.rs"]
mod schedule;

#[test]
fn every_short_example_runs_to_its_end() {
    hello::main().unwrap();
    approval::main().unwrap();
    fan_out::main().unwrap();
    child::main().unwrap();
    schedule::main().unwrap();
}
