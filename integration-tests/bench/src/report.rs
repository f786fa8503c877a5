//! The table for people and the JSON for machines.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::arguments::Kind;
use crate::bounds::{Bound, Verdict};
use crate::carrying::{self, Carrying};
use crate::figures::Times;
use crate::measured::{Measured, Slice, Taken};
use crate::profile::Profile;
use crate::verify::Verified;

/// Everything that may be printed, because it was verified.
pub struct Report<'a> {
    pub measured: &'a Measured,
    pub carrying: Vec<Carrying>,
    pub bounds: Vec<Bound>,
    pub profiles: Vec<Profile>,
    pub verified: BTreeMap<Kind, Verified>,
    pub rounds: usize,
    pub slice: Duration,
    pub quick: bool,
}

/// Says on standard error what goes on.
pub fn progress(what: &str) {
    // Nobody needs to listen.
    let _ = writeln!(std::io::stderr(), "{what}");
}

impl Report<'_> {
    /// Prints the table and writes the JSON.
    pub fn write(&self, json: &Path) -> anyhow::Result<()> {
        let mut text = serde_json::to_string_pretty(&self.json())?;
        text.push('\n');
        std::fs::write(json, text)?;
        let mut stdout = std::io::stdout();
        write!(stdout, "{self}")?;
        writeln!(stdout, "\n{}", json.display())?;
        Ok(())
    }

    fn json(&self) -> Value {
        let slices: Vec<_> = self
            .measured
            .slices
            .iter()
            .map(|(slice, taken)| {
                json!({
                    "name": slice.name(),
                    "workload": slice.workload,
                    "callers": slice.callers,
                    "proxy_noise": self.measured.noise.get(slice),
                    "targets": taken.iter().map(|(kind, taken)| (kind.name(), taken)).collect::<BTreeMap<_, _>>(),
                })
            })
            .collect();
        let (empty, existing) = self.measured.ready_seconds.unzip();
        json!({
            "rounds": self.rounds,
            "slice_seconds": self.slice.as_secs_f64(),
            "quick": self.quick,
            "processors": std::thread::available_parallelism().map_or(0, usize::from),
            "bounds": self.bounds,
            "carrying": self.carrying,
            "slices": slices,
            "memory": by_name(&self.measured.memory),
            "ready_seconds": {"empty": empty, "existing": existing},
            "verified": by_name(&self.verified),
            "profiles": self.profiles,
        })
    }

    fn slices(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (slice, taken) in &self.measured.slices {
            writeln!(f, "\n{}", slice.name())?;
            if *slice == Slice::PACED {
                paced(f, taken)?;
            } else {
                answers(f, taken)?;
            }
            if let Some(noise) = self.measured.noise.get(slice) {
                writeln!(
                    f,
                    "  noise (proxy, largest less smallest round): CPU {:.0} %, p50 {:.0} %",
                    noise.cpu * 100.0,
                    noise.latency_p50 * 100.0
                )?;
            }
        }
        Ok(())
    }

    fn processes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nCPU by process, µs an answer (user + kernel; sleeps of its threads an answer)"
        )?;
        for (slice, taken) in &self.measured.slices {
            for (kind, taken) in taken.iter().filter(|(kind, _)| kind.is_switchboard()) {
                let mut parts = String::new();
                for part in &taken.processes {
                    write!(
                        parts,
                        "  {} {:.1}+{:.1} ({:.2})",
                        part.name, part.user_us, part.system_us, part.sleeps
                    )?;
                }
                writeln!(f, "  {kind:<6} {}:{parts}", slice.name())?;
            }
        }
        Ok(())
    }

    fn memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nmemory{:>18} {:>14} {:>10}",
            "idle MiB", "KiB a stream", "streams"
        )?;
        for (kind, memory) in &self.measured.memory {
            write!(
                f,
                "  {kind:<10} {:>11.1} {:>14.1} {:>10}",
                mebibytes(memory.idle_bytes()),
                memory.bytes_per_stream() / 1024.0,
                memory.streams
            )?;
            let parts = memory.idle.iter().filter(|_| memory.idle.len() > 1);
            for (name, bytes) in parts.chain(&memory.stores_idle) {
                write!(f, "  {name} {:.1}", mebibytes(*bytes))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn bounds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nbounds")?;
        for bound in &self.bounds {
            let goal = bound
                .goal
                .map_or(String::new(), |goal| format!(" (goal {goal})"));
            let proxy = bound
                .proxy
                .map_or(String::new(), |proxy| format!(" (bare proxy {proxy:.2})"));
            writeln!(
                f,
                "  {:<4} {:<6} {:<6} {:<42} {:>8.2} {} ≤ {}{goal}{proxy}",
                match bound.verdict {
                    Verdict::Kept => "pass",
                    Verdict::Missed => "MISS",
                    Verdict::Unclear => "?",
                },
                bound.number,
                bound.target,
                bound.what,
                bound.figure,
                bound.unit,
                bound.at_most,
            )?;
        }
        let unclear = |bound: &Bound| bound.verdict == Verdict::Unclear;
        if self.bounds.iter().any(unclear) {
            writeln!(
                f,
                "  ? the bare proxy does not keep it either: this machine is not quiet enough to tell"
            )?;
        }
        Ok(())
    }

    fn profiles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for profile in &self.profiles {
            writeln!(
                f,
                "\nwhere the time goes: {}, {}",
                profile.kind,
                profile.slice.name()
            )?;
            match &profile.lines {
                Some(lines) => lines.iter().try_for_each(|line| writeln!(f, "  {line}"))?,
                None => writeln!(f, "  no `perf` here; see CPU by process above")?,
            }
        }
        Ok(())
    }
}

impl Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} rounds of {:.1} s a slice, interleaved; medians, and p99 of the least disturbed round (median); every answer compared to the byte{}{}",
            self.rounds,
            self.slice.as_secs_f64(),
            if self.quick {
                "; --quick: not for the record"
            } else {
                ""
            },
            if cfg!(debug_assertions) {
                "; a debug build: its figures mean nothing"
            } else {
                ""
            },
        )?;
        for (kind, verified) in &self.verified {
            writeln!(
                f,
                "{kind}: {} usage rows, tokens, charges ({} nano-USD), costs, balance and ledger are what the upstream served",
                verified.usage_rows, verified.charged_nanos
            )?;
        }
        self.slices(f)?;
        self.processes(f)?;
        self.memory(f)?;
        writeln!(
            f,
            "\ncarrying a streamed answer, a chunk (PERF-2)\n{}",
            carrying::HEAD
        )?;
        for figures in &self.carrying {
            writeln!(f, "{figures}")?;
        }
        self.bounds(f)?;
        self.profiles(f)
    }
}

fn answers(f: &mut fmt::Formatter<'_>, all: &BTreeMap<Kind, Taken>) -> fmt::Result {
    writeln!(
        f,
        "  {:<8} {:>10} {:>9} {:>9} {:>9} {:>10} {:>9} {:>10} {:>9} {:>11}",
        "",
        "answers/s",
        "p50 µs",
        "p90 µs",
        "p99 µs",
        "added p50",
        "× proxy's",
        "CPU µs",
        "× proxy",
        "stores' CPU"
    )?;
    let p50 = |kind| all.get(&kind).map(|taken: &Taken| taken.latency.p50_us);
    let direct = p50(Kind::Direct).unwrap_or_default();
    let proxy_added = p50(Kind::Proxy).map(|p50| p50 - direct);
    let proxy_cpu = all.get(&Kind::Proxy).map(|taken| taken.cpu_us);
    for (kind, taken) in all {
        let added = taken.latency.p50_us - direct;
        writeln!(
            f,
            "  {kind:<8} {:>10.0} {:>9.1} {:>9.1} {:>9.1} {:>10.1} {:>9} {:>10.1} {:>9} {:>11.1}",
            taken.answers_per_second,
            taken.latency.p50_us,
            taken.latency.p90_us,
            taken.latency.p99_us,
            added,
            times(added, proxy_added),
            taken.cpu_us,
            times(taken.cpu_us, proxy_cpu),
            taken.stores_cpu_us,
        )?;
    }
    Ok(())
}

fn paced(f: &mut fmt::Formatter<'_>, all: &BTreeMap<Kind, Taken>) -> fmt::Result {
    writeln!(
        f,
        "  {:<8} {:>14} {:>16} {:>12} {:>16} {:>9} {:>13} {:>9} {:>11}",
        "",
        "1st tok p50 ms",
        "1st tok p99 ms",
        "gap p50 ms",
        "gap p99 ms",
        "× direct",
        "CPU µs/stream",
        "× proxy",
        "stores' CPU"
    )?;
    let direct = all.get(&Kind::Direct).map(|taken| taken.gap.p99_us);
    let proxy = all.get(&Kind::Proxy).map(|taken| taken.cpu_us);
    for (kind, taken) in all {
        writeln!(
            f,
            "  {kind:<8} {:>14.2} {:>16} {:>12.2} {:>16} {:>9} {:>13.0} {:>9} {:>11.0}",
            taken.first_token.p50_us / 1000.0,
            tail(taken.first_token),
            taken.gap.p50_us / 1000.0,
            tail(taken.gap),
            times(taken.gap.p99_us, direct),
            taken.cpu_us,
            times(taken.cpu_us, proxy),
            taken.stores_cpu_us,
        )?;
    }
    Ok(())
}

/// A tail in milliseconds, with the median over rounds.
fn tail(times: Times) -> String {
    let [least, median] = [times.p99_us, times.p99_median_us].map(|us| us / 1000.0);
    format!("{least:.2} ({median:.2})")
}

fn times(figure: f64, of: Option<f64>) -> String {
    match of {
        Some(of) if of > 0.0 && figure > 0.0 => format!("{:.2}", figure / of),
        _ => "-".to_owned(),
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

fn by_name<T>(all: &BTreeMap<Kind, T>) -> BTreeMap<&'static str, &T> {
    all.iter()
        .map(|(kind, value)| (kind.name(), value))
        .collect()
}
