//! The same program as the product, built with these tests.

fn main() -> std::process::ExitCode {
    cli::main()
}
