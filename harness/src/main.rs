//! The program `sparring`.

fn main() -> std::process::ExitCode {
    sparring::cli::main()
}
