//! Where the time goes, when a bound is missed: `perf` on the processes during one more slice. Without `perf`, or without the
//! right to use it, the split by process, user and kernel stands alone.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::arguments::Kind;
use crate::measured::Slice;

/// Symbols shown.
const SHOWN: usize = 25;

/// The hottest places of one slice.
#[derive(Debug, Serialize)]
pub struct Profile {
    pub kind: Kind,
    pub slice: Slice,
    /// `PERCENT PROGRAM SYMBOL`, hottest first; absent where `perf` cannot be used.
    pub lines: Option<Vec<String>>,
}

/// A running `perf record`.
pub struct Recording {
    perf: Child,
    data: PathBuf,
}

impl Recording {
    /// None when there is no `perf`.
    pub fn start(directory: &Path, pids: &[u32]) -> Option<Self> {
        let data = directory.join("perf.data");
        let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
        let perf = Command::new("perf")
            .args(["record", "-q", "-F", "997", "-o"])
            .arg(&data)
            .args(["-p", &pids.join(",")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        Some(Self { perf, data })
    }

    /// Ends it and reads what it found.
    pub fn lines(mut self) -> Option<Vec<String>> {
        let pid = Pid::from_raw(i32::try_from(self.perf.id()).ok()?)?;
        // It may have ended by itself, for want of permission.
        let _ = kill_process(pid, Signal::INT);
        self.perf.wait().ok()?;
        let report = Command::new("perf")
            .args([
                "report",
                "--stdio",
                "--no-children",
                "-g",
                "none",
                "-s",
                "comm,sym",
                "-i",
            ])
            .arg(&self.data)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&report.stdout);
        let lines: Vec<_> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .take(SHOWN)
            .map(str::to_owned)
            .collect();
        (!lines.is_empty()).then_some(lines)
    }
}
