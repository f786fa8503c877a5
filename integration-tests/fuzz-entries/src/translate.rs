//! Translation: a request of one dialect put into another, and an answer of that one said in the first.
//!
//! An input's first line is `# CALLER UPSTREAM MODEL`, by the names `chat`, `responses`, `anthropic`, `gemini` (`gemini-events`,
//! `gemini-array` where such a caller streams), and the upstream's name of the model, which may be left out. Then a request of
//! the caller's dialect, and an answer of the upstream's.

use std::sync::Arc;

use bytes::Bytes;
use serde::de::IgnoredAny;
use switchboard_dialects::{
    Change, Class, DialectRequest, Form, ReadOptions, RequestError, StreamOptions, UsageReport,
    anthropic::{MessagesCall, MessagesRequest},
    chat::ChatRequest,
    convert::{Format, Refusal, Target, Translation},
    error::Rules,
    gemini::{Call, GeminiRequest},
    responses::ResponsesRequest,
};

use crate::{
    dialect::assert_failure,
    input::{arrivals, call, sections},
    json::{assert_json, text},
    sse::assert_well_formed,
};

/// Bounds that inputs do not reach: with them nothing depends on how the bytes are split.
const WIDE: usize = 1 << 24;
/// Bounds that they do reach, bytes.
const NARROW: usize = 1000;
/// The upstream's name of a model of nobody, with what has to be escaped in it.
const MODEL: &str = "up/\"model\"\\\n안";
/// The caller's.
const PUBLIC: &str = "public/\"model\"\\\n안";

pub(crate) fn translate(input: &[u8]) {
    let (words, input) = call(input);
    let mut words = words.split(' ');
    let (who, upstream) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let model = words.next().filter(|model| !model.is_empty());
    let [request, answer] = sections(input);
    let call = match who {
        "gemini-events" => Call::StreamEvents,
        "gemini-array" => Call::StreamArray,
        _ => Call::Generate,
    };
    let (caller, upstream) = (format(who), format(upstream));
    let asked = match ask(caller, call, request) {
        Ok(asked) => asked,
        Err(_) => return,
    };
    let target = Target {
        model: model.unwrap_or(MODEL),
        public_model: PUBLIC,
        max_output: None,
        stream: asked.form() != Form::Whole,
        request_id: "r1",
        now: 7,
    };
    match Translation::open((caller, upstream), &asked, request, &target) {
        Ok(translation) => {
            assert_carried(&translation, upstream, &target);
            assert_answers(&translation, &*asked, answer);
        }
        Err(refusal) => assert_names(&refusal),
    }
}

fn format(name: &str) -> Format {
    match name {
        "responses" => Format::Responses,
        "anthropic" => Format::Anthropic,
        "gemini" | "gemini-events" | "gemini-array" => Format::Gemini,
        _ => Format::Chat,
    }
}

fn ask(format: Format, call: Call, body: &[u8]) -> Result<Arc<dyn DialectRequest>, RequestError> {
    fn shared(asked: impl DialectRequest + 'static) -> Arc<dyn DialectRequest> {
        Arc::new(asked)
    }
    match format {
        Format::Chat => ChatRequest::peek(body).map(shared),
        Format::Responses => ResponsesRequest::peek(body).map(shared),
        Format::Anthropic => MessagesRequest::peek(body, MessagesCall::Create).map(shared),
        Format::Gemini => GeminiRequest::peek(call, PUBLIC, body).map(shared),
    }
}

/// A refusal says which field it is about, and what to do.
fn assert_names(refusal: &Refusal) {
    assert!(!refusal.param.is_empty(), "{refusal:?}");
    assert!(refusal.message.contains(&refusal.param), "{refusal:?}");
}

/// The body is a request of the upstream's dialect; what was left out is named, each once.
fn assert_carried(translation: &Translation, upstream: Format, target: &Target<'_>) {
    for output_cap in [None, Some(7)] {
        let change = Change {
            model: target.model,
            output_cap,
        };
        let body = translation.prepare(&Bytes::new(), &change);
        assert_json(&body, "a translated request");
        let call = match target.stream {
            true => Call::StreamEvents,
            false => Call::Generate,
        };
        let asked = match ask(upstream, call, &body) {
            Ok(asked) => asked,
            Err(error) => panic!("it does not read back: {error}: {}", text(&body)),
        };
        if upstream != Format::Gemini {
            assert_eq!(asked.model(), target.model);
        }
        assert_eq!(asked.form() != Form::Whole, target.stream);
    }
    let mut names: Vec<_> = translation.dropped().iter().collect();
    assert!(names.iter().all(|name| !name.is_empty()), "{names:?}");
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "{names:?}");
}

fn assert_answers(translation: &Translation, caller: &dyn DialectRequest, answer: &[u8]) {
    let body = Bytes::copy_from_slice(answer);
    let read = translation.read(&body, &ReadOptions::default());
    match (&read, translation.form()) {
        (Err(error), _) => assert_failure(error),
        (Ok(read), Form::Whole) => assert_whole(caller, &read.body, read.usage.as_ref()),
        (Ok(_), _) => {
            let events = translation.as_events(&body);
            let said = carry(translation, WIDE, &[events], true);
            assert_sound(caller, &said);
        }
    }
    if translation.form() == Form::Whole {
        return;
    }
    let mut ways = arrivals(answer).into_iter();
    let whole = carry(translation, WIDE, &ways.next().unwrap_or_default(), false);
    for pieces in ways {
        let said = carry(translation, WIDE, &pieces, false);
        assert_same(&said, &whole, &pieces);
    }
    assert_sound(caller, &whole);
    for pieces in arrivals(answer) {
        assert_sound(caller, &carry(translation, NARROW, &pieces, false));
    }
}

/// A whole answer is one that the caller's own dialect takes.
fn assert_whole(caller: &dyn DialectRequest, body: &Bytes, usage: Option<&UsageReport>) {
    assert_json(body, "a translated answer");
    let again = match caller.read(body, &ReadOptions::default()) {
        Ok(again) => again,
        Err(error) => panic!("{error:?}: {}", text(body)),
    };
    if let (Some(said), Some(told)) = (again.usage, usage) {
        assert_eq!(
            said.usage.output.unwrap_or(0),
            told.usage.output.max(told.usage.reasoning).unwrap_or(0)
        );
    }
}

/// What became of a stream.
#[derive(Debug, PartialEq)]
struct Said {
    out: String,
    end: Result<(), (Class, Option<u16>)>,
    usage: Option<UsageReport>,
}

/// Carries an answer that arrives in these pieces, as the pipeline does; `whole`: they are a whole answer as events.
fn carry(asked: &dyn DialectRequest, bound: usize, pieces: &[Bytes], whole: bool) -> Said {
    let mut stream = asked.stream(StreamOptions {
        public_model: None,
        text_bound: bound,
        hold_bound: bound,
        max_event: bound,
        rules: Rules::default(),
    });
    let (mut out, mut end) = (Vec::new(), Ok(()));
    for at in 0..=pieces.len() {
        let read = match pieces.get(at) {
            Some(piece) => stream.push(piece.clone()),
            None if whole => stream.finish_whole(),
            None => stream.finish(),
        };
        let committed = stream.committed();
        let taken = stream.take();
        assert!(taken.is_none() || committed, "nothing goes out before");
        assert!(!stream.has_content() || committed, "content commits");
        out.extend_from_slice(&taken.unwrap_or_default());
        assert!(stream.take().is_none(), "all of it was taken");
        if let Err(error) = read {
            assert_failure(&error);
            end = Err((error.class, error.status));
            break;
        }
    }
    assert!(end.is_err() || (stream.done() && stream.committed()));
    Said {
        out: text(&out).into_owned(),
        // Before a failure of the translation the upstream's stream may have read ahead.
        usage: end.and(Ok(stream.usage().cloned())).unwrap_or(None),
        end,
    }
}

/// However it arrives the same goes out. An answer that fails may have been given out in part, or not at all.
fn assert_same(said: &Said, whole: &Said, pieces: &[Bytes]) {
    if said.end.is_ok() || whole.end.is_ok() {
        assert_eq!(said, whole, "{pieces:?}");
    } else {
        assert_eq!(said.end, whole.end, "{pieces:?}");
        let (out, all) = (&said.out, &whole.out);
        assert!(out.starts_with(all) || all.starts_with(out), "{pieces:?}");
    }
}

/// What went out is a stream of the caller's dialect, which it would pass on as it is.
fn assert_sound(caller: &dyn DialectRequest, said: &Said) {
    if caller.form() == Form::Array {
        if said.end.is_ok() {
            assert_json(said.out.as_bytes(), "an array");
        }
        return;
    }
    for event in assert_well_formed(said.out.as_bytes()) {
        let json = serde_json::from_slice::<IgnoredAny>(&event.data).is_ok();
        assert!(json || &*event.data == b"[DONE]", "{event:?}");
    }
    if said.end.is_ok() {
        let sent = Bytes::copy_from_slice(said.out.as_bytes());
        let again = carry(caller, WIDE, &[sent], false);
        assert_eq!(again.end, Ok(()), "{}", said.out);
        assert_eq!(again.out, said.out, "what goes out passes unchanged");
    }
}
