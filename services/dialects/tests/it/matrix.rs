//! The golden matrix: every fixture to every other dialect, beside its snapshot `<name>.<dialect>.snap`.
//! `UPDATE_GOLDEN=1` rewrites what differs; look at each difference.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use switchboard_dialects::convert::{Format, Translation};

use crate::fixtures::{Fixture, Kind, all};
use crate::json::Json;
use crate::valid;
use crate::wire::{self, Outcome, name, pairs};

/// Collects what is wrong, so that one run tells all of it.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    /// Compares a snapshot with what came out, and rewrites it where that is wanted.
    fn compare(&mut self, fixture: &Fixture, other: Format, got: &str) {
        let mut path = fixture.place.clone().into_os_string();
        path.push(format!(".{}.snap", name(other)));
        let path = PathBuf::from(path);
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if expected == got {
            return;
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, got).unwrap();
        } else {
            let difference = difference(&expected, got);
            self.0.push(format!("{}\n{difference}", path.display()));
        }
    }

    fn check(&mut self, what: &str, fixture: &Fixture, other: Format, check: valid::Check) {
        if let Err(error) = check {
            let place = fixture.place.display();
            self.0
                .push(format!("{place} as {what} of {}: {error}", name(other)));
        }
    }

    fn assert_none(self) {
        let count = self.0.len();
        assert!(
            self.0.is_empty(),
            "{count} findings (UPDATE_GOLDEN=1 rewrites snapshots)\n\n{}",
            self.0.join("\n\n")
        );
    }
}

/// The lines around the first that differs, and those after it that differ.
fn difference(expected: &str, got: &str) -> String {
    let (expected, got): (Vec<_>, Vec<_>) = (expected.lines().collect(), got.lines().collect());
    let same = expected.iter().zip(&got).take_while(|(a, b)| a == b);
    let same = same.count();
    let tail = expected[same..].iter().rev().zip(got[same..].iter().rev());
    let tail = tail.take_while(|(a, b)| a == b).count();
    let mut out = String::new();
    for line in &expected[same.saturating_sub(3)..same] {
        let _ = writeln!(out, "  {line}");
    }
    for (sign, lines) in [('-', &expected), ('+', &got)] {
        for line in lines[same..lines.len() - tail].iter().take(40) {
            let _ = writeln!(out, "{sign} {line}");
        }
    }
    out
}

#[test]
fn requests_are_translated_as_their_snapshots_say() {
    let mut findings = Findings::default();
    for (caller, upstream) in pairs() {
        for fixture in all(Kind::Request, caller) {
            let got = match wire::request((caller, upstream), &fixture.body) {
                Outcome::Sent { body, dropped } => {
                    findings.check(
                        "request",
                        &fixture,
                        upstream,
                        valid::request(upstream, wire::model(upstream), &body),
                    );
                    let dropped = match dropped.join(", ") {
                        none if none.is_empty() => "nothing".to_owned(),
                        some => some,
                    };
                    format!("dropped: {dropped}\n\n{}", body.pretty())
                }
                Outcome::Refused(refusal) => format!(
                    "refused{}: {}: {}\n",
                    if refusal.unsupported {
                        ""
                    } else {
                        " as invalid"
                    },
                    refusal.param,
                    refusal.message
                ),
            };
            findings.compare(&fixture, upstream, &got);
        }
    }
    findings.assert_none();
}

#[test]
fn whole_answers_are_translated_as_their_snapshots_say() {
    let mut findings = Findings::default();
    for (upstream, caller) in pairs() {
        for fixture in all(Kind::Answer, upstream) {
            let asked = |streamed| opened(&fixture, (caller, upstream), streamed);
            let got = match wire::whole(&asked(false), &fixture.body) {
                Ok(text) => {
                    let check = valid::answer(caller, &text);
                    findings.check("answer", &fixture, caller, check);
                    Json::parse(&text).map_or(text, |body| body.pretty())
                }
                Err(error) => format!("failed: {error}\n"),
            };
            let events = match wire::whole_as_events(&asked(true), &fixture.body) {
                Ok(text) => {
                    let check = valid::stream(caller, &text);
                    findings.check("events", &fixture, caller, check);
                    text
                }
                Err(error) => format!("failed: {error}\n"),
            };
            let got = format!("{got}\nfor a streaming caller:\n\n{events}");
            findings.compare(&fixture, caller, &got);
        }
    }
    findings.assert_none();
}

#[test]
fn streams_are_translated_as_their_snapshots_say_however_they_arrive() {
    let mut findings = Findings::default();
    for (upstream, caller) in pairs() {
        for fixture in all(Kind::Stream, upstream) {
            let translation = opened(&fixture, (caller, upstream), true);
            let events = fixture.body.as_bytes();
            let got = wire::streamed(&translation, events, usize::MAX);
            for piece in [1, 7, 64] {
                let pieces = wire::streamed(&translation, events, piece);
                let same = if pieces == got {
                    Ok(())
                } else {
                    Err(format!("in pieces of {piece} it differs:\n{pieces:?}"))
                };
                findings.check("stream", &fixture, caller, same);
            }
            let got = match got {
                Ok(text) => {
                    let check = valid::stream(caller, &text);
                    findings.check("stream", &fixture, caller, check);
                    text
                }
                Err(error) => format!("failed: {error}\n"),
            };
            findings.compare(&fixture, caller, &got);
        }
    }
    findings.assert_none();
}

fn opened(fixture: &Fixture, pair: (Format, Format), streamed: bool) -> Translation {
    let asked = fixture.asked(pair.0, streamed);
    wire::open(pair, streamed, &asked)
        .unwrap_or_else(|refusal| panic!("{}: {refusal}", fixture.place.display()))
}

#[test]
fn requests_of_the_fixtures_are_read_by_their_own_dialect() {
    let mut findings = Findings::default();
    for format in Format::ALL {
        for fixture in all(Kind::Request, format) {
            let asked = wire::ask(format, false, fixture.body.as_bytes());
            let read = asked.map(drop).map_err(|error| error.to_string());
            findings.check("request", &fixture, format, read);
        }
    }
    findings.assert_none();
}
