//! `make bench`: what Switchboard costs, beside a direct call and a bare one-hop proxy, in one interleaved run (PERF-1 to
//! PERF-3).
//!
//! Everything is a real process in a release build: the upstream, the proxy (this program once more), Switchboard in one
//! process on SQLite, Switchboard with a process a role on PostgreSQL and Redis. Everything a request needs is on: key
//! check, limits, slots, strict hold, budgets, prices, settlement, usage row.
//!
//! Invariant: no figure leaves this program unless every answer had the right bytes, and usage rows, charges, balance and
//! ledger are exactly what the upstream served. A bound that is missed is printed as such and fails nothing: machines
//! differ, and a timed test is no test.

mod answer;
mod arguments;
mod bounds;
mod caller;
mod carrying;
mod catalogue;
mod child;
mod figures;
mod load;
mod measure;
mod measured;
mod memory;
mod process;
mod profile;
mod proxy;
mod report;
mod start;
mod target;
mod verify;
mod workload;

/// The scenarios' own sources, not their crate: that one links all of Switchboard, and a release build of it takes minutes.
#[path = "../../src"]
#[expect(dead_code, unused_imports, reason = "the scenarios use the rest")]
mod scenarios {
    pub mod chaos;
    pub mod stores;
}
use scenarios::chaos;
use scenarios::stores;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use crate::arguments::{Arguments, Command};

/// As in Switchboard, so that the proxy has the same start.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Some(Command::Proxy { upstream }) => proxy::run(upstream),
        Some(Command::Under { program, arguments }) => child::become_program(&program, &arguments),
        Some(Command::Carrying) => carrying::print(),
        None => measure::run(&arguments.run),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing can be done about a closed standard error.
            let _ = writeln!(std::io::stderr(), "switchboard-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
