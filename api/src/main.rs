//! The program `tenure`.

fn main() -> std::process::ExitCode {
    api::main()
}
