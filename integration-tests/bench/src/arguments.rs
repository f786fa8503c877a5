//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::Serialize;

use crate::measured::Slice;

/// Compares Switchboard with a direct call and a bare proxy, and refuses to print figures when an answer or a bill is wrong.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: Run,
}

/// A part of the run alone, or what the program starts of itself.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// The bare one-hop proxy. Prints `LISTENING ADDR` when it is ready.
    #[command(hide = true)]
    Proxy {
        /// Where requests go.
        upstream: SocketAddr,
    },
    /// Only what carrying a stream costs a chunk: seconds, and nothing is started.
    Carrying,
    /// Becomes another program that ends when this one's parent does.
    #[command(hide = true, trailing_var_arg = true)]
    Under {
        program: PathBuf,
        #[arg(allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

/// A run.
#[derive(Debug, Args)]
pub struct Run {
    /// About a minute, with short slices: for development, not for the record.
    #[arg(long)]
    pub quick: bool,
    /// Rounds that count; one more comes first, as a warm-up. 5, with `--quick` 2.
    #[arg(long)]
    pub rounds: Option<usize>,
    /// Length of a slice in milliseconds. 2000, with `--quick` 500.
    #[arg(long)]
    pub slice_ms: Option<u64>,
    /// Slow streams open at once while memory is measured. 8000 need 20,000 file descriptors a process.
    #[arg(long, default_value_t = 1000)]
    pub streams: usize,
    /// What is compared.
    #[arg(long, value_delimiter = ',', default_values_t = Kind::ALL)]
    pub targets: Vec<Kind>,
    /// What is measured of each: `alone`, `whole`, `chunks`, `burst`, `paced`. All of it.
    #[arg(long, value_delimiter = ',', value_parser = Slice::named)]
    pub slices: Vec<Slice>,
    /// Where `switchboard` and `fake-upstream` lie: beside this program.
    #[arg(long)]
    pub programs: Option<PathBuf>,
    /// Where data directories are made: on a real disk, or syncing costs nothing. The directory above the programs'.
    #[arg(long)]
    pub directory: Option<PathBuf>,
    /// Where the JSON goes. `bench.json` in that directory.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Profiles with `perf` where a bound on CPU is missed.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub profile: bool,
}

/// What is between load and upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing.
    Direct,
    /// The bare proxy.
    Proxy,
    /// Switchboard in one process, on SQLite and memory.
    One,
    /// Switchboard with a process a role, on PostgreSQL and Redis.
    Split,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Direct, Self::Proxy, Self::One, Self::Split];

    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Proxy => "proxy",
            Self::One => "one",
            Self::Split => "split",
        }
    }

    /// Whether it keeps books.
    pub fn is_switchboard(self) -> bool {
        matches!(self, Self::One | Self::Split)
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
