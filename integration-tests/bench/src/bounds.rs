//! The bounds of PERF-1, PERF-2, PERF-3 and of the start, and how the measured figures stand to them.

use serde::Serialize;

use crate::arguments::Kind;
use crate::measured::{Measured, Slice, Taken};

/// One bound.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// Of the specification.
    pub number: &'static str,
    pub target: Kind,
    pub what: &'static str,
    pub unit: &'static str,
    pub figure: f64,
    pub at_most: f64,
    /// What we want to reach.
    pub goal: Option<f64>,
    /// What the bare proxy takes of it in the same run, where that tells how quiet the machine was.
    pub proxy: Option<f64>,
    pub verdict: Verdict,
    /// The slice to be profiled when it is missed.
    #[serde(skip)]
    slice: Option<Slice>,
}

/// How a figure stands to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Kept,
    Missed,
    /// The bare proxy does not keep it either: something else stood still or ran beside, and nothing can be told of ours.
    Unclear,
}

/// Sets the figures beside their bounds. What was not measured has no line.
pub fn check(measured: &Measured) -> Vec<Bound> {
    let mut bounds = Bounds(measured, Vec::new());
    bounds.whole_answers();
    bounds.large_requests();
    bounds.streams();
    bounds.memory();
    bounds.start();
    bounds.1
}

/// Where a profile says why.
pub fn to_be_profiled(bounds: &[Bound]) -> Vec<(Kind, Slice)> {
    let missed = bounds
        .iter()
        .filter(|bound| bound.verdict == Verdict::Missed);
    let mut all: Vec<_> = missed
        .filter_map(|bound| Some((bound.target, bound.slice?)))
        .collect();
    all.dedup();
    all
}

/// Number, what, unit.
type Name = (&'static str, &'static str, &'static str);

struct Bounds<'a>(&'a Measured, Vec<Bound>);

impl Bounds<'_> {
    fn taken(&self, slice: Slice, kind: Kind) -> Option<&Taken> {
        self.0.slices.get(&slice)?.get(&kind)
    }

    fn add(
        &mut self,
        (number, what, unit): Name,
        target: Kind,
        figure: Option<f64>,
        (at_most, goal): (f64, Option<f64>),
        slice: Option<Slice>,
    ) {
        let Some(figure) = figure else { return };
        self.1.push(Bound {
            number,
            target,
            what,
            unit,
            figure,
            at_most,
            goal,
            proxy: None,
            verdict: if figure <= at_most {
                Verdict::Kept
            } else {
                Verdict::Missed
            },
            slice,
        });
    }

    /// What a stream's slowest hundredth adds to a direct call's. Such a figure is as good as the machine is quiet: who shares
    /// its processors shows in it first.
    fn add_tail(
        &mut self,
        name: Name,
        target: Kind,
        at_most: f64,
        added: impl Fn(&Taken, &Taken) -> Option<f64>,
    ) {
        let figure = |kind| {
            let direct = self.taken(Slice::PACED, Kind::Direct)?;
            added(self.taken(Slice::PACED, kind)?, direct)
        };
        let (ours, proxy) = (figure(target), figure(Kind::Proxy));
        self.add(name, target, ours, (at_most, None), None);
        if let Some(bound) = self.1.last_mut().filter(|_| ours.is_some()) {
            bound.proxy = proxy;
            if bound.verdict == Verdict::Missed && proxy.is_some_and(|proxy| proxy > at_most) {
                bound.verdict = Verdict::Unclear;
            }
        }
    }

    /// CPU as a multiple of the proxy's.
    fn cpu_ratio(&self, slice: Slice, kind: Kind) -> Option<f64> {
        let proxy = self.taken(slice, Kind::Proxy)?.cpu_us;
        ratio(self.taken(slice, kind)?.cpu_us, proxy)
    }

    /// What is added to a direct call's median, as a multiple of what the proxy adds.
    fn added_ratio(&self, kind: Kind) -> Option<f64> {
        let p50 = |kind| Some(self.taken(Slice::ALONE, kind)?.latency.p50_us);
        let direct = p50(Kind::Direct)?;
        ratio(p50(kind)? - direct, p50(Kind::Proxy)? - direct)
    }

    /// What a mebibyte more of request adds to what a direct call takes for it, as a multiple of what a direct call takes for
    /// it: that is one copy of it, from one socket to another. Who must know the model before anything goes on has the whole
    /// body first, and sends it once more; parsing, checking and changing it must not show beside that. (The proxy's figure,
    /// beside it in the report, is what it takes to pass pieces on before the last one came.)
    fn mebibyte_ratio(&self, kind: Kind) -> Option<f64> {
        let more = |kind| {
            let p50 = |slice| Some(self.taken(slice, kind)?.latency.p50_us);
            Some(p50(Slice::LARGE)? - p50(Slice::ALONE)?)
        };
        let copy = more(Kind::Direct)?;
        ratio(more(kind)? - copy, copy)
    }

    fn large_requests(&mut self) {
        let figure = self.mebibyte_ratio(Kind::One);
        let what = "added p50 of a request of 1 MiB";
        self.add(
            ("PERF-1", what, "× its copy"),
            Kind::One,
            figure,
            (1.0, None),
            Some(Slice::LARGE),
        );
    }

    fn whole_answers(&mut self) {
        for (kind, cpu, added) in [
            (Kind::One, (4.5, Some(2.7)), (5.0, Some(3.3))),
            (Kind::Split, (11.0, Some(8.0)), (13.0, Some(8.0))),
        ] {
            let figure = self.cpu_ratio(Slice::WHOLE, kind);
            let what = "CPU an answer, 16 callers";
            self.add(
                ("PERF-1", what, "× proxy"),
                kind,
                figure,
                cpu,
                Some(Slice::WHOLE),
            );
            let figure = self.added_ratio(kind);
            let what = "added p50, 1 caller";
            self.add(
                ("PERF-1", what, "× proxy's"),
                kind,
                figure,
                added,
                Some(Slice::ALONE),
            );
        }
    }

    fn streams(&mut self) {
        // Five services with four hops between them have no bound here but the first token's; the report shows what they cost.
        let figure = self.cpu_ratio(Slice::CHUNKS, Kind::One);
        let what = "CPU a burst of 100 tokens, a write each";
        let bound = (1.0, Some(0.5));
        self.add(
            ("PERF-2", what, "× proxy"),
            Kind::One,
            figure,
            bound,
            Some(Slice::CHUNKS),
        );
        for (kind, first_token_ms) in [(Kind::One, 1.0), (Kind::Split, 5.0)] {
            let cpu = |slice| Some(self.taken(slice, kind)?.cpu_us);
            let figure = cpu(Slice::TRANSLATED)
                .zip(cpu(Slice::CHUNKS))
                .and_then(|(translated, same)| ratio(translated, same));
            let what = "CPU a translated stream";
            self.add(
                ("DIAL-1", what, "× same dialect"),
                kind,
                figure,
                (2.0, None),
                Some(Slice::TRANSLATED),
            );

            let what = "gap p99, 200 paced streams";
            self.add_tail(
                ("PERF-2", what, "× direct"),
                kind,
                1.10,
                |taken, direct| ratio(taken.gap.p99_us, direct.gap.p99_us),
            );
            let what = "added first token p99, 200 paced streams";
            self.add_tail(
                ("PERF-2", what, "ms"),
                kind,
                first_token_ms,
                |taken, direct| {
                    Some((taken.first_token.p99_us - direct.first_token.p99_us) / 1000.0)
                },
            );
        }
    }

    fn memory(&mut self) {
        let Some(memory) = self.0.memory.get(&Kind::One) else {
            return;
        };
        let idle = memory.idle_bytes() as f64 / 1024.0 / 1024.0;
        let stream = (memory.streams > 0).then(|| memory.bytes_per_stream() / 1024.0);
        self.add(
            ("PERF-3", "memory, idle", "MiB"),
            Kind::One,
            Some(idle),
            (50.0, None),
            None,
        );
        let what = "memory of an open slow stream";
        self.add(
            ("PERF-3", what, "KiB"),
            Kind::One,
            stream,
            (80.0, None),
            None,
        );
    }

    fn start(&mut self) {
        let (empty, existing) = self.0.ready_seconds.unzip();
        let what = "start to ready, empty directory";
        self.add(("ADM-3", what, "s"), Kind::One, empty, (2.0, None), None);
        let what = "start to ready, existing directory";
        self.add(("ADM-3", what, "s"), Kind::One, existing, (1.0, None), None);
    }
}

/// None where there is nothing to compare with.
fn ratio(figure: f64, to: f64) -> Option<f64> {
    (to > 0.0).then(|| figure / to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Times;

    fn measured(cpu_of_one: f64) -> Measured {
        let mut measured = Measured::default();
        for (kind, p50_us, cpu_us) in [
            (Kind::Direct, 20.0, 0.0),
            (Kind::Proxy, 60.0, 25.0),
            (Kind::One, 200.0, cpu_of_one),
        ] {
            let latency = Times {
                p50_us,
                ..Times::default()
            };
            let taken = Taken {
                latency,
                cpu_us,
                ..Taken::default()
            };
            for slice in [Slice::ALONE, Slice::WHOLE] {
                let of_slice = measured.slices.entry(slice).or_default();
                of_slice.insert(kind, taken.clone());
            }
        }
        measured
    }

    #[test]
    fn ratios_are_to_the_proxy_and_its_addition() {
        let bounds = check(&measured(100.0));
        assert_eq!(bounds.len(), 2);
        assert_eq!((bounds[0].figure, bounds[0].verdict), (4.0, Verdict::Kept));
        assert_eq!((bounds[1].figure, bounds[1].verdict), (4.5, Verdict::Kept));
        assert!(to_be_profiled(&bounds).is_empty());
    }

    #[test]
    fn a_miss_names_its_slice() {
        let bounds = check(&measured(200.0));
        assert_eq!(bounds[0].verdict, Verdict::Missed);
        assert_eq!(to_be_profiled(&bounds), [(Kind::One, Slice::WHOLE)]);
    }

    #[test]
    fn a_tail_is_missed_only_where_the_bare_proxy_keeps_the_bound() {
        let of = |proxy_ms: f64| {
            let mut measured = Measured::default();
            let of_slice = measured.slices.entry(Slice::PACED).or_default();
            for (kind, ms) in [
                (Kind::Direct, 2.0),
                (Kind::Proxy, proxy_ms),
                (Kind::One, 4.5),
            ] {
                let first_token = Times {
                    p99_us: ms * 1000.0,
                    ..Times::default()
                };
                let taken = Taken {
                    first_token,
                    ..Taken::default()
                };
                of_slice.insert(kind, taken);
            }
            let bounds = check(&measured);
            assert_eq!(bounds.len(), 1, "{bounds:?}");
            (bounds[0].figure, bounds[0].proxy, bounds[0].verdict)
        };
        assert_eq!(of(3.0), (2.5, Some(1.0), Verdict::Missed));
        assert_eq!(of(3.5), (2.5, Some(1.5), Verdict::Unclear));
    }
}
