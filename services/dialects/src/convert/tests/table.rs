//! The pages `fields/<dialect>.md` against the code: every field of every example is in its table, and becomes in each direction
//! what the table says. `UPDATE_GOLDEN=1` rewrites the cells and adds rows for what is not known; remarks are written by hand.

mod examples;
mod judge;
mod page;
mod path;

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;

use self::examples::Example;
use self::judge::{Made, fate};
use self::page::{Cell, Fate, Row, Table, name, said};
use self::path::{is_divided, locate, members, name_of, row_of};
use super::*;
use crate::convert::fields::recorded;
use crate::convert::responses::ECHOED;

/// Translates a request.
fn made((caller, upstream): (Format, Format), example: &Example, document: &Value) -> Made {
    let streamed = document["stream"] == true;
    let refused = |refusal: Box<Refusal>| Made::Refused {
        param: refusal.param,
        message: refusal.message,
    };
    let translation = match opened(
        (caller, upstream),
        example.model.as_deref(),
        document,
        streamed,
    ) {
        Ok(translation) => translation,
        Err(refusal) => return refused(refusal),
    };
    Made::Body {
        body: serde_json::from_slice(&translation.body).unwrap(),
        dropped: translation.dropped().to_vec(),
    }
}

/// What an answer to a request says.
fn answer(pair: (Format, Format), example: &Example, document: &Value) -> String {
    let streamed = document["stream"] == true;
    let Ok(translation) = opened(pair, example.model.as_deref(), document, streamed) else {
        return String::new();
    };
    let mut answers = translation.stream(StreamOptions::default());
    let ended = answers.push(stream(pair.1)).and_then(|()| answers.finish());
    let mut answer = format!("{ended:?}");
    while let Some(piece) = answers.take() {
        answer.push_str(&without_echo(&piece));
    }
    answer
}

/// An answer without what a response repeats of its request: that is nothing that was done.
fn without_echo(answer: &[u8]) -> String {
    let mut answer = match serde_json::from_slice::<Value>(answer) {
        Ok(answer) => answer,
        Err(_) => return String::from_utf8_lossy(answer).into_owned(),
    };
    if let Some(members) = answer.as_object_mut() {
        members.retain(|name, _| !ECHOED.contains(&&**name));
    }
    answer.to_string()
}

fn opened(
    (caller, upstream): (Format, Format),
    model: Option<&str>,
    document: &Value,
    streamed: bool,
) -> Result<Translation, Box<Refusal>> {
    let form = if streamed { Form::Events } else { Form::Whole };
    let body = Bytes::from(document.to_string());
    let asked = Arc::from(read(caller, &body, form, "m")?);
    let target = Target {
        model: model.unwrap_or(match upstream {
            Format::Gemini => "gemini-3-pro",
            _ => "up",
        }),
        max_output: Some(32_000),
        ..target(streamed)
    };
    Translation::open((caller, upstream), &asked, &body, &target)
}

/// What is wrong with a table.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn note(&mut self, finding: String) {
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    fn assert_none(self) {
        let count = self.0.len();
        assert!(
            self.0.is_empty(),
            "{count} findings (UPDATE_GOLDEN=1 rewrites cells and adds rows)\n{}",
            self.0.join("\n")
        );
    }
}

/// What was seen of each row, in each direction, and in which example.
type Seen = BTreeMap<(String, usize), BTreeMap<Fate, String>>;

/// Translates a document for another dialect.
type Make<'m> = &'m dyn Fn(Format, &Example, &Value) -> Made;
/// What is answered then.
type Answer<'m> = &'m dyn Fn(Format, &Example, &Value) -> String;

/// Both.
type Making<'m> = (Make<'m>, Answer<'m>);

/// Compares a table with what examples show.
fn check(
    format: Format,
    table: &mut Table,
    examples: &[Example],
    (make, answer): Making<'_>,
    findings: &mut Findings,
    updating: bool,
) {
    let rows = table.patterns();
    let mut seen = Seen::new();
    for (column, other) in table.others.iter().enumerate() {
        for example in examples {
            let own = |document: &Value| make(*other, example, document);
            let said = |document: &Value| answer(*other, example, document);
            let whole = own(&example.document);
            for found in members(format, &rows, &example.document) {
                let first = &found.place.segments[0].name;
                let of = || example.of.iter().any(|own| name_of(format, own) == *first);
                if !example.of.is_empty() && !of() {
                    continue;
                }
                let fate = fate(
                    format,
                    (&example.document, &whole),
                    &found.place,
                    &own,
                    &said,
                );
                let path = match found.row {
                    Some(row) => table.rows[row].path.clone(),
                    None if example.unknown => {
                        if fate != Some(Fate::Dropped) {
                            findings.note(format!(
                                "{}: unknown `{}` is not named",
                                name(format),
                                found.place
                            ));
                        }
                        continue;
                    }
                    None => found.place.to_string(),
                };
                let fates = seen.entry((path, column)).or_default();
                if let Some(fate) = fate {
                    fates.entry(fate).or_insert_with(|| example.name.clone());
                }
            }
        }
    }
    compare(format, table, &seen, findings, updating);
}

/// Whether the pages are to be rewritten.
fn updating() -> bool {
    std::env::var_os("UPDATE_GOLDEN").is_some()
}

fn compare(
    format: Format,
    table: &mut Table,
    seen: &Seen,
    findings: &mut Findings,
    updating: bool,
) {
    for (path, _) in seen.keys() {
        if table.rows.iter().any(|row| row.path == *path) {
            continue;
        }
        findings.note(format!(
            "{}: the table does not know `{path}`",
            name(format)
        ));
        if updating {
            table.rows.push(Row {
                path: path.clone(),
                cells: vec![Cell::new(); 3],
                remark: String::new(),
            });
        }
    }
    for row in &mut table.rows {
        for (column, other) in table.others.iter().enumerate() {
            let fates = seen
                .get(&(row.path.clone(), column))
                .cloned()
                .unwrap_or_default();
            let is: Cell = fates.keys().copied().collect();
            let place = format!("{}: `{}` with {}", name(format), row.path, name(*other));
            if is.is_empty() {
                findings.note(format!("{place}: no example shows it"));
            } else if is != row.cells[column] {
                let says = said(&row.cells[column]);
                findings.note(format!(
                    "{place}: the table says {says}, the code does {fates:?}"
                ));
            }
            if updating {
                row.cells[column] = is;
            }
        }
        let unclear = |cell: &Cell| cell.len() > 1 || cell.contains(&Fate::Ignored);
        if row.remark.is_empty() && row.cells.iter().any(unclear) {
            findings.note(format!("{}: `{}` needs a remark", name(format), row.path));
        }
    }
    if updating {
        table.write();
    }
}

fn requests(format: Format) -> Vec<Example> {
    let mut examples = examples::fixtures("requests", format);
    examples.extend(examples::lines(name(format), &examples::needed(format)));
    examples
}

fn check_requests(format: Format, examples: &[Example], findings: &mut Findings, updating: bool) {
    let mut table = Table::read(format, "## Requests");
    let make = |other: Format, example: &Example, document: &Value| {
        made((format, other), example, document)
    };
    let answer = |other: Format, example: &Example, document: &Value| {
        answer((format, other), example, document)
    };
    let making: Making<'_> = (&make, &answer);
    check(format, &mut table, examples, making, findings, updating);
}

#[test]
fn every_field_of_a_request_becomes_what_the_table_says() {
    let mut findings = Findings::default();
    for format in Format::ALL {
        check_requests(format, &requests(format), &mut findings, updating());
    }
    findings.assert_none();
}

/// What no caller wrote: Anthropic's requests must have a limit, and OpenAI's Responses are asked for sealed thoughts.
const ADDED: [(Format, &str); 2] = [
    (Format::Anthropic, "max_tokens"),
    (Format::Responses, "include"),
];

/// Made of more than parameters: of calls in the conversation, of a form of answers where the upstream has no other. They have
/// one name nearly everywhere.
const OF_TOOLS: [&str; 3] = ["tools", "tool_choice", "parallel_tool_calls"];

/// An account names the parameters that it does not take in its dialect; the caller is told in its own (SPEC FWD-11).
#[test]
fn every_parameter_of_a_translated_request_is_called_what_the_caller_wrote() {
    let mut findings = Findings::default();
    for caller in Format::ALL {
        for example in requests(caller) {
            for upstream in Format::ALL.into_iter().filter(|other| *other != caller) {
                check_names((caller, upstream), &example, &mut findings);
            }
        }
    }
    findings.assert_none();
}

fn check_names(pair: (Format, Format), example: &Example, findings: &mut Findings) {
    let Made::Body { body, .. } = made(pair, example, &example.document) else {
        return;
    };
    let text = example.document.to_string();
    for parameter in parameters(pair.1, &body) {
        let called = counterparts::called_by_caller(pair, &parameter, &text);
        let mut without = example.document.clone();
        for path in &called {
            remove(&mut without, path);
        }
        let gone = match made(pair, example, &without) {
            Made::Body { body, .. } => !parameters(pair.1, &body).contains(&parameter),
            // The rest makes no sense without it.
            Made::Refused { .. } => without != example.document,
        };
        let known = ADDED.contains(&(pair.1, &parameter)) || OF_TOOLS.contains(&&*parameter);
        if !gone && !known {
            findings.note(format!(
                "{pair:?}: `{parameter}` is not {called:?} in {text}"
            ));
        }
    }
}

/// The names of the parameters that are in a request.
fn parameters(format: Format, body: &Value) -> Vec<String> {
    let request = read(format, body.to_string().as_bytes(), Form::Whole, "m").unwrap();
    let layout = request.layout().unwrap();
    let mut names = Vec::new();
    for (name, value) in body.as_object().unwrap() {
        if layout.nested.contains(&&**name) {
            names.extend(value.as_object().unwrap().keys().cloned());
        } else if !layout.structural.contains(&&**name) {
            names.push(name.clone());
        }
    }
    names
}

fn remove(document: &mut Value, path: &str) {
    let (holder, name) = path.rsplit_once('.').unwrap_or(("", path));
    let holder = match holder {
        "" => Some(document),
        holder => document.pointer_mut(&format!("/{}", holder.replace('.', "/"))),
    };
    holder
        .and_then(Value::as_object_mut)
        .map(|members| members.remove(name));
}

#[test]
fn every_member_of_an_answer_becomes_what_the_table_says() {
    let mut findings = Findings::default();
    for format in Format::ALL {
        let mut table = Table::read(format, "## Answers");
        let lines = format!("{}-answers", name(format));
        let mut examples = examples::fixtures("answers", format);
        examples.extend(examples::lines(&lines, &examples::answer(format)));
        // One example is tried many times in a row, each time as the answer to one request.
        let last = RefCell::new(None);
        let make = |caller: Format, example: &Example, document: &Value| {
            let asked = (caller, example.name.clone());
            let mut last = last.borrow_mut();
            if last.as_ref().is_none_or(|(of, _)| *of != asked) {
                let request = examples::asking(caller, example);
                let translation = opened((caller, format), None, &request, false).unwrap();
                *last = Some((asked, translation));
            }
            let (_, translation) = last.as_ref().unwrap();
            answered(translation, document)
        };
        let none = |_: Format, _: &Example, _: &Value| String::new();
        let making: Making<'_> = (&make, &none);
        check(
            format,
            &mut table,
            &examples,
            making,
            &mut findings,
            updating(),
        );
    }
    findings.assert_none();
}

/// Translates a whole answer.
fn answered(translation: &Translation, document: &Value) -> Made {
    let answer = Bytes::from(document.to_string());
    match translation.read(&answer, &ReadOptions::default()) {
        Ok(read) => Made::Body {
            body: serde_json::from_slice(&read.body).unwrap(),
            dropped: Vec::new(),
        },
        Err(error) => Made::Refused {
            param: String::new(),
            message: format!("{error:?}"),
        },
    }
}

#[test]
fn a_field_that_the_table_does_not_know_is_found() {
    let novel = [
        (
            Format::Chat,
            r#"{"messages": [{"role": "user", "content": [{"type": "hologram", "text": "Hi"}]}]}"#,
            "messages[user].content[hologram]",
        ),
        (
            Format::Responses,
            r#"{"text": {"colour": "red"}}"#,
            "text.colour",
        ),
        (
            Format::Anthropic,
            r#"{"tools": [{"name": "f", "input_schema": {"type": "object"}, "x": 1}]}"#,
            "tools[custom].x",
        ),
        (
            Format::Gemini,
            r#"{"generation_config": {"odd_one": 1}}"#,
            "generationConfig.oddOne",
        ),
    ];
    for (format, line, path) in novel {
        let mut findings = Findings::default();
        let example = examples::line(line, &examples::needed(format));
        check_requests(format, &[example], &mut findings, false);
        let expected = format!("{}: the table does not know `{path}`", name(format));
        assert!(
            findings.0.contains(&expected),
            "{path}: {:?}",
            findings.0.first()
        );
    }
}

/// A reader that learns a new name is not ahead of the table.
#[test]
fn readers_ask_for_no_field_that_the_table_does_not_know() {
    let mut findings = Findings::default();
    for format in Format::ALL {
        let table = Table::read(format, "## Requests");
        let rows = table.patterns();
        for example in requests(format) {
            for other in &table.others {
                let (_, paths) = recorded(|| made((format, *other), &example, &example.document));
                for path in paths {
                    let place = locate(format, &example.document, &path);
                    let last = place.segments.last().map(|last| &*last.name);
                    let mut prefixes = (1..=place.segments.len()).map(|end| &place.segments[..end]);
                    let known = is_divided(&rows, &place.segments)
                        || prefixes.any(|prefix| {
                            row_of(&rows, prefix).is_some() && !is_divided(&rows, prefix)
                        })
                        || row_of(&rows, &place.segments).is_some();
                    if !known && !matches!(last, Some("type" | "role")) {
                        findings.note(format!("{}: a reader asks for `{place}`", name(format)));
                    }
                }
            }
        }
    }
    findings.assert_none();
}
