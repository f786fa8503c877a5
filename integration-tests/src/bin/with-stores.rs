//! Starts PostgreSQL and Redis for one command and tells it where they are: the contract suites of the crates run on both
//! stores where `SWITCHBOARD_TEST_DATABASE_URL` and `SWITCHBOARD_TEST_REDIS_URL` are set.
//!
//! Its exit code is the command's.

use std::process::ExitCode;

use anyhow::Context as _;
use switchboard_integration_tests::stores::Stores;
use tokio::process::Command;

fn main() -> anyhow::Result<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let program = words
        .next()
        .context("usage: with-stores COMMAND [ARGUMENT]…")?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let stores = Stores::start().await?;
        let status = Command::new(&program)
            .args(words)
            .env("SWITCHBOARD_TEST_DATABASE_URL", &stores.database_url)
            .env("SWITCHBOARD_TEST_REDIS_URL", &stores.redis_url)
            .kill_on_drop(true)
            .status()
            .await
            .with_context(|| format!("cannot start {}", program.display()))?;
        stores.stop().await?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
    })
}
