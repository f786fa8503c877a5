//! What the kernel knows of a process: CPU, context switches, memory.

use std::fs;
use std::ops::{Add, AddAssign, Sub};

use anyhow::Context as _;
use serde::Serialize;

/// What a process has used since its start. The kernel counts in ticks of 10 ms: slices must be long beside that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Used {
    /// Seconds in user mode, all threads.
    pub user_seconds: f64,
    /// Seconds in the kernel, all threads.
    pub system_seconds: f64,
    /// How often its threads went to sleep.
    pub sleeps: u64,
}

impl Used {
    /// Of one process; threads that ended are counted in CPU, not in sleeps.
    pub fn by(pid: u32) -> anyhow::Result<Self> {
        let stat = Stat::of(pid)?;
        Ok(Self {
            user_seconds: seconds(stat.user),
            system_seconds: seconds(stat.system),
            sleeps: sleeps(pid),
        })
    }

    /// Of a process and its children, ended ones included: a PostgreSQL server.
    pub fn by_family(pid: u32) -> anyhow::Result<Self> {
        let parent = Stat::of(pid)?;
        let mut used = Self {
            user_seconds: seconds(parent.user + parent.ended_user),
            system_seconds: seconds(parent.system + parent.ended_system),
            sleeps: sleeps(pid),
        };
        for child in children(pid)? {
            // It may have ended just now, and is then in its parent's count the next time.
            used += Self::by(child).unwrap_or_default();
        }
        Ok(used)
    }
}

impl Add for Used {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            user_seconds: self.user_seconds + other.user_seconds,
            system_seconds: self.system_seconds + other.system_seconds,
            sleeps: self.sleeps + other.sleeps,
        }
    }
}

impl AddAssign for Used {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Used {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            user_seconds: self.user_seconds - before.user_seconds,
            system_seconds: self.system_seconds - before.system_seconds,
            sleeps: self.sleeps.saturating_sub(before.sleeps),
        }
    }
}

/// Resident memory of a process, bytes.
pub fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse::<u64>().ok())
        .with_context(|| format!("/proc/{pid}/status has no VmRSS"))?;
    Ok(kib * 1024)
}

/// Resident memory of a process's children and itself. Pages they share are counted in each.
pub fn resident_bytes_of_family(pid: u32) -> anyhow::Result<u64> {
    let children = children(pid)?;
    let others = children
        .into_iter()
        .filter_map(|child| resident_bytes(child).ok());
    Ok(resident_bytes(pid)? + others.sum::<u64>())
}

/// The fields of `/proc/PID/stat` (proc(5)) that are needed, in ticks.
struct Stat {
    parent: u32,
    user: u64,
    system: u64,
    ended_user: u64,
    ended_system: u64,
}

impl Stat {
    fn of(pid: u32) -> anyhow::Result<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat"))
            .with_context(|| format!("process {pid}"))?;
        Self::read(&text).with_context(|| format!("/proc/{pid}/stat: `{text}`"))
    }

    fn read(text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses and may have any character in it.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<_> = rest.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        Some(Self {
            parent: u32::try_from(number(1)?).ok()?,
            user: number(11)?,
            system: number(12)?,
            ended_user: number(13)?,
            ended_system: number(14)?,
        })
    }
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

fn sleeps(pid: u32) -> u64 {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    let of_task = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    tasks.flatten().filter_map(of_task).sum()
}

fn children(parent: u32) -> anyhow::Result<Vec<u32>> {
    let all = fs::read_dir("/proc")?.flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Ok(pids
        .filter(|pid| Stat::of(*pid).is_ok_and(|stat| stat.parent == parent))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "42 (a) b) S 7 42 42 0 -1 0 1 2 3 4 100 50 10 5 20 0 3 0 9";
        let stat = Stat::read(text).unwrap();
        assert_eq!((stat.parent, stat.user, stat.system), (7, 100, 50));
        assert_eq!((stat.ended_user, stat.ended_system), (10, 5));
    }

    #[test]
    fn this_process_has_memory_and_a_parent() {
        let pid = std::process::id();
        assert!(resident_bytes(pid).unwrap() > 100_000);
        assert!(Used::by(pid).unwrap().sleeps < u64::MAX);
    }
}
