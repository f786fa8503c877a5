//! The command line, from words to what is printed and the exit code.

mod admin;
mod catalogues;
mod connecting;
mod fake;
mod process;
mod reading;
mod starting;
mod stopped;

use std::process::ExitCode;

use clap::Parser as _;
use switchboard::cli::{self, Cli};

use fake::Fake;

/// What a command left behind.
struct Done {
    exit: u8,
    out: String,
    err: String,
}

impl Done {
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

fn parse(words: &[&str]) -> Cli {
    Cli::try_parse_from(std::iter::once(&"switchboard").chain(words)).unwrap()
}

/// Runs a command as the program does.
async fn run(words: &[&str]) -> Done {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code = cli::run(parse(words), &mut out, &mut err).await;
    let exit = (0..=4).find(|exit| ExitCode::from(*exit) == code).unwrap();
    Done {
        exit,
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}

/// Runs an admin command over scripted services in this process.
async fn administer(fake: &Fake, words: &[&str]) -> Done {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let done = cli::administer(fake.clients(), parse(words), &mut out, &mut err).await;
    let exit = match done {
        Ok(exit) => exit,
        Err(error) => {
            err.extend_from_slice(error.to_string().as_bytes());
            error.exit()
        }
    };
    Done {
        exit: exit.code(),
        out: String::from_utf8(out).unwrap(),
        err: String::from_utf8(err).unwrap(),
    }
}
