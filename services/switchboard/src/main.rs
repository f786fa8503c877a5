//! The `switchboard` program.

use std::process::ExitCode;

use clap::Parser as _;
use switchboard::cli::Cli;

/// Many small allocations from many threads: the system's allocator costs a tenth of a request. How it is set up stands in
/// `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // TLS to upstreams, databases and collectors uses one provider; it must be chosen before the first client is made.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => {
            let code = runtime.block_on(switchboard::cli::run(
                cli,
                &mut std::io::stdout(),
                &mut std::io::stderr(),
            ));
            // A blocking task that does not end must not hold the exit.
            runtime.shutdown_timeout(std::time::Duration::from_secs(2));
            code
        }
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "cannot start: {error}");
            ExitCode::FAILURE
        }
    }
}
