//! Fixtures: what callers send and upstreams answer, each with a note of where its fact comes from.
//!
//! `fixtures/{requests,answers,streams}/<dialect>/<name>.{json,sse}`. Lines at the top that begin with `//` are the note: a
//! sentence that says what it is about, and `// Source: …`. In answers, `// ask.<dialect>: {…}` adds members to the
//! request to which it is given, where the caller must have asked for something.

use std::fs;
use std::path::{Path, PathBuf};

use switchboard_dialects::convert::Format;

use crate::json::Json;
use crate::wire::name;

/// What a fixture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Answer,
    Stream,
}

impl Kind {
    const fn directory(self) -> &'static str {
        match self {
            Self::Request => "requests",
            Self::Answer => "answers",
            Self::Stream => "streams",
        }
    }
}

/// One fixture.
#[derive(Clone, Debug)]
pub(crate) struct Fixture {
    /// Where it lies, without the ending.
    pub(crate) place: PathBuf,
    /// The lines of its note, without slashes.
    pub(crate) note: Vec<String>,
    /// The bytes.
    pub(crate) body: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// All fixtures of a kind in a dialect, by name.
pub(crate) fn all(kind: Kind, format: Format) -> Vec<Fixture> {
    let directory = root().join(kind.directory()).join(name(format));
    let ending = if kind == Kind::Stream { "sse" } else { "json" };
    let entries = fs::read_dir(&directory).expect("a directory of fixtures");
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == ending));
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Fixture {
    let text = fs::read_to_string(path).unwrap();
    let mut note = Vec::new();
    let mut body = text.as_str();
    while let Some(rest) = body.strip_prefix("//") {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        note.push(line.trim().to_owned());
        body = after;
    }
    Fixture {
        place: path.with_extension(""),
        note,
        body: body.to_owned(),
    }
}

impl Fixture {
    /// The request of `caller` to which this answer is given.
    pub(crate) fn asked(&self, caller: Format, streamed: bool) -> String {
        let mut request = Json::parse(asking(caller)).unwrap();
        let mark = format!("ask.{}:", name(caller));
        for more in self.note.iter().filter_map(|line| line.strip_prefix(&mark)) {
            for (key, value) in Json::parse(more).unwrap().members() {
                request.set(key, value.clone());
            }
        }
        if streamed && caller != Format::Gemini {
            request.set("stream", Json::Bool(true));
        }
        if streamed && caller == Format::Chat {
            let usage = Json::object([("include_usage", Json::Bool(true))]);
            request.set("stream_options", usage);
        }
        request.compact()
    }
}

/// The request to which answers are given: it has the tools that they call.
pub(crate) const fn asking(caller: Format) -> &'static str {
    match caller {
        Format::Chat => {
            r#"{"model":"public-model","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}},{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}]}"#
        }
        Format::Responses => {
            r#"{"model":"public-model","input":"Hi","store":false,"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}},"strict":false},{"type":"function","name":"now","parameters":{"type":"object","properties":{}},"strict":false}]}"#
        }
        Format::Anthropic => {
            r#"{"model":"public-model","max_tokens":4096,"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}},{"name":"now","input_schema":{"type":"object","properties":{}}}]}"#
        }
        Format::Gemini => {
            r#"{"contents":[{"role":"user","parts":[{"text":"Hi"}]}],"tools":[{"functionDeclarations":[{"name":"get_weather","parametersJsonSchema":{"type":"object","properties":{"city":{"type":"string"}}}},{"name":"now"}]}]}"#
        }
    }
}

#[test]
fn every_fixture_says_what_it_is_about_and_where_the_fact_comes_from() {
    for kind in [Kind::Request, Kind::Answer, Kind::Stream] {
        for format in Format::ALL {
            let fixtures = all(kind, format);
            assert!(!fixtures.is_empty(), "{kind:?} {format:?}");
            for fixture in fixtures {
                let place = fixture.place.display();
                let sourced = |line: &String| line.starts_with("Source: ");
                assert!(fixture.note.len() >= 2, "{place} needs a note");
                assert!(fixture.note.iter().any(sourced), "{place}: `// Source:`?");
                if kind != Kind::Stream {
                    let body = Json::parse(&fixture.body);
                    assert!(body.is_ok(), "{place}: {body:?}");
                }
            }
        }
    }
}
