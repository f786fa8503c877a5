//! There and back: what one dialect says to another comes back the same. What does not is listed, with the reason; the list has nothing
//! that is not so.

mod asked;
mod except;
mod fold;
mod history;
mod said;
mod same;

use switchboard_dialects::convert::{Format, Translation};
use switchboard_dialects::{DialectRequest, StreamOptions};

use self::except::Exception;
use crate::fixtures::{Fixture, Kind, all};
use crate::json::Json;
use crate::wire::{self, Outcome, name, pairs};

/// What differed after a round trip, against what may.
struct Trips {
    exceptions: Vec<Exception>,
    met: Vec<bool>,
    findings: Vec<String>,
}

impl Trips {
    fn new(exceptions: &'static str) -> Self {
        let exceptions = except::read(exceptions);
        Self {
            met: vec![false; exceptions.len()],
            exceptions,
            findings: Vec::new(),
        }
    }

    /// One trip from `pair.0` over `pair.1`, of this fixture.
    fn trip(
        &mut self,
        pair: (Format, Format),
        fixture: &Fixture,
        differences: Vec<(String, String)>,
    ) {
        let place = fixture.place.file_name().unwrap().to_string_lossy();
        for (path, what) in differences {
            let is = |exception: &Exception| exception.is_for(pair, &place, &path);
            match self.exceptions.iter().position(is) {
                Some(at) => self.met[at] = true,
                None => self.findings.push(format!(
                    "{} over {}: {place}: {path}: {what}",
                    name(pair.0),
                    name(pair.1)
                )),
            }
        }
    }

    fn assert_as_listed(mut self) {
        for (exception, _) in self
            .exceptions
            .iter()
            .zip(&self.met)
            .filter(|(_, met)| !**met)
        {
            self.findings
                .push(format!("nothing differs any more: {exception:?}"));
        }
        let count = self.findings.len();
        assert!(
            self.findings.is_empty(),
            "{count} findings\n{}",
            self.findings.join("\n")
        );
    }
}

/// The request of a caller to which a fixture's answer is given; Anthropic's callers see thoughts if they ask.
fn asked(fixture: &Fixture, caller: Format, streamed: bool) -> String {
    let mut request = Json::parse(&fixture.asked(caller, streamed)).unwrap();
    if caller == Format::Anthropic {
        let budget = ("budget_tokens", Json::Number("1024".into()));
        request.set(
            "thinking",
            Json::object([("type", Json::of("enabled")), budget]),
        );
    }
    request.compact()
}

fn opened(fixture: &Fixture, pair: (Format, Format), streamed: bool) -> Translation {
    wire::open(pair, streamed, &asked(fixture, pair.0, streamed)).unwrap()
}

/// What is a stream's, as one document.
fn gathered(translation: &Translation, events: &str) -> String {
    let mut stream = translation.stream(StreamOptions::default());
    stream.push(events.to_owned().into()).unwrap();
    stream.finish().unwrap();
    let pieces = std::iter::from_fn(|| stream.take()).flatten();
    String::from_utf8(pieces.collect()).unwrap()
}

/// Members of answers that are the gateway's own, or repeat the request, or tell a reason in the words of who gave it.
fn own(format: Format) -> Vec<&'static str> {
    let own = match format {
        Format::Chat => {
            "id object created model system_fingerprint service_tier choices[].native_finish_reason \
             choices[].message.reasoning_details[].index"
        }
        Format::Responses => {
            "id object created_at completed_at model tools tool_choice parallel_tool_calls text store background truncation metadata \
             temperature top_p reasoning include top_logprobs service_tier instructions previous_response_id max_output_tokens \
             error output[].id output[].status native_finish_reason"
        }
        Format::Anthropic => "id model usage.service_tier native_stop_reason",
        Format::Gemini => "responseId modelVersion candidates[].index candidates[].finishMessage",
    };
    own.split_whitespace().collect()
}

#[test]
fn answers_come_back_whole_and_streamed() {
    let mut trips = Trips::new(except::ANSWERS);
    for pair in pairs() {
        for fixture in all(Kind::Answer, pair.0) {
            whole(&mut trips, pair, &fixture);
        }
        for fixture in all(Kind::Stream, pair.0) {
            streamed(&mut trips, pair, &fixture);
        }
    }
    trips.assert_as_listed();
}

fn whole(trips: &mut Trips, (upstream, over): (Format, Format), fixture: &Fixture) {
    let there = opened(fixture, (over, upstream), false);
    let there = wire::whole(&there, &fixture.body).unwrap();
    let back = opened(fixture, (upstream, over), false);
    let back = wire::whole(&back, &there).unwrap();
    let was = said::answer(upstream, &Json::parse(&fixture.body).unwrap());
    let is = said::answer(upstream, &Json::parse(&back).unwrap());
    let differences = same::differences(&was, &is, &own(upstream));
    trips.trip((upstream, over), fixture, differences);
}

fn streamed(trips: &mut Trips, (upstream, over): (Format, Format), fixture: &Fixture) {
    let there = opened(fixture, (over, upstream), true);
    let there = wire::streamed(&there, fixture.body.as_bytes(), usize::MAX).unwrap();
    let back = opened(fixture, (upstream, over), true);
    let back = wire::streamed(&back, there.as_bytes(), usize::MAX).unwrap();
    let was = said::answer(upstream, &fold::whole(upstream, &fixture.body));
    let is = said::answer(upstream, &fold::whole(upstream, &back));
    let differences = same::differences(&was, &is, &own(upstream));
    trips.trip((upstream, over), fixture, differences);
    // What comes back as one document is the same.
    let gathered = gathered(&opened(fixture, (upstream, over), false), &there);
    let gathered = said::answer(upstream, &Json::parse(&gathered).unwrap());
    let differences = same::differences(&is, &gathered, &own(upstream));
    assert_eq!(differences, [], "{}", fixture.place.display());
}

/// What an upstream said, told to a caller and said back by it, is what the upstream said: words, calls and their ids, and seals as their
/// maker made them.
#[test]
fn history_goes_back_to_its_maker_as_it_was() {
    let mut trips = Trips::new(except::HISTORY);
    for (caller, upstream) in pairs() {
        for fixture in all(Kind::Answer, upstream) {
            let request = Json::parse(&asked(&fixture, caller, false)).unwrap();
            let told = wire::whole(&opened(&fixture, (caller, upstream), false), &fixture.body);
            let told = Json::parse(&told.unwrap()).unwrap();
            let next = history::go_on(caller, request, &told).compact();
            let sent = match wire::request((caller, upstream), &next) {
                Outcome::Sent { body, .. } => history::sent(upstream, &body),
                Outcome::Refused(refusal) => {
                    let why = vec![("refused".to_owned(), refusal.to_string())];
                    trips.trip((upstream, caller), &fixture, why);
                    continue;
                }
            };
            let was = history::answered(upstream, &Json::parse(&fixture.body).unwrap());
            let ignored = "annotations [].id [].status [].phase [].content[].annotations [].content[].logprobs [].citations";
            let ignored: Vec<_> = ignored.split(' ').collect();
            trips.trip(
                (upstream, caller),
                &fixture,
                same::differences(&was, &sent, &ignored),
            );
        }
    }
    trips.assert_as_listed();
}

/// A request comes back as it was, but for what was left out by name, and what is refused.
#[test]
fn requests_come_back() {
    let mut trips = Trips::new(except::REQUESTS);
    for pair in pairs() {
        for fixture in all(Kind::Request, pair.0) {
            let Outcome::Sent { body, dropped } =
                wire::request_to(model(pair.1), pair, &fixture.body)
            else {
                continue;
            };
            let back = match wire::request_to(model(pair.0), (pair.1, pair.0), &body.compact()) {
                Outcome::Sent { body, .. } => body,
                Outcome::Refused(refusal) => {
                    let why = vec![("refused".to_owned(), refusal.to_string())];
                    trips.trip(pair, &fixture, why);
                    continue;
                }
            };
            let first = Json::parse(&fixture.body).unwrap();
            let was = asked::request(pair.0, &first, &first);
            let is = asked::request(pair.0, &back, &first);
            let mut differences = same::differences(&was, &is, &[]);
            differences.retain(|(path, _)| !left_out(path, &dropped));
            trips.trip(pair, &fixture, differences);
        }
    }
    trips.assert_as_listed();
}

/// Models that know efforts and schemas, and take what steers sampling.
const fn model(upstream: Format) -> &'static str {
    match upstream {
        Format::Anthropic => "claude-opus-4-6",
        Format::Gemini => "gemini-3-pro",
        Format::Chat | Format::Responses => "upstream-model",
    }
}

/// Whether what stands at a path was left out by name, or what it is in.
fn left_out(path: &str, dropped: &[String]) -> bool {
    let within = |name: &String| {
        let name = match name.starts_with("generation_config") {
            true => asked::camel(name),
            false => name.clone(),
        };
        let rest = path.strip_prefix(name.trim_end_matches("[]"));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    dropped.iter().any(within)
}
