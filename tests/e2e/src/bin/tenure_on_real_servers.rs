//! The same program as the product, so that tests find it beside them.

fn main() -> std::process::ExitCode {
    cli::main()
}
