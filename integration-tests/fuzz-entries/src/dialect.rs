//! What must hold in every dialect, of a request, a whole answer and a streamed one.

mod stream;

use bytes::Bytes;
use switchboard_dialects::{
    Change, DialectRequest, Form, ReadOptions, RequestError, TextBuffer, UpstreamError,
};

use crate::{
    errors::assert_renders,
    json::{assert_json, assert_same_but, is_json, text},
};

/// Reads a request.
pub(crate) type Read<'a> = &'a dyn Fn(&[u8]) -> Result<Box<dyn DialectRequest>, RequestError>;

/// Any dialect's request.
pub(crate) fn shared(request: impl DialectRequest + 'static) -> Box<dyn DialectRequest> {
    Box::new(request)
}

/// What holds in one dialect and not in another.
pub(crate) struct Facts {
    /// Top-level members of a request that may change on its way.
    pub(crate) patched: &'static [&'static str],
    /// The model's name stands in the body.
    pub(crate) named: bool,
    /// A whole answer whose model need not be renamed is passed on as it came.
    pub(crate) untouched: bool,
    /// Requests and answers are JSON.
    pub(crate) json: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            patched: &["model"],
            named: true,
            untouched: true,
            json: true,
        }
    }
}

/// Another name, with what has to be escaped in it.
const OTHER: &str = "another/\"model\"\\\n안";

/// Tries a request, and an answer to it.
pub(crate) fn exercise(read: Read<'_>, facts: &Facts, request: &[u8], answer: &[u8]) {
    let asked = match read(request) {
        Ok(asked) => asked,
        Err(error) => {
            assert!(error.to_string().len() < 4096, "{error}");
            return;
        }
    };
    let (request, answer) = (
        Bytes::copy_from_slice(request),
        Bytes::copy_from_slice(answer),
    );
    prepared(read, &*asked, facts, &request);
    let mut kept = TextBuffer::new(64);
    asked.input(&request, &mut kept);
    assert!(kept.text().len() <= 64);
    if facts.json {
        assert!(asked.text_bytes() <= request.len() as u64);
    }
    whole(&*asked, facts, &answer);
    stream::stream(&*asked, &answer);
}

/// What goes to the upstream is the request with the wanted change, and nothing else.
fn prepared(read: Read<'_>, asked: &dyn DialectRequest, facts: &Facts, body: &Bytes) {
    if facts.json && !body.is_empty() {
        assert_json(body, "a request that was read");
    }
    // In a form nothing is escaped.
    let other = if facts.json { OTHER } else { "another" };
    for (model, output_cap) in [(asked.model(), None), (other, None), (other, Some(7))] {
        let change = Change { model, output_cap };
        let out = asked.prepare(body, &change);
        if facts.json && !body.is_empty() {
            assert_json(&out, "a prepared request");
            assert_same_but(body, &out, facts.patched);
        }
        let again = match read(&out) {
            Ok(again) => again,
            Err(error) => panic!("a prepared request does not read back: {error}"),
        };
        if facts.named {
            assert_eq!(again.model(), model);
        }
        if let (Some(cap), Some(limit)) = (output_cap, again.output_limit())
            && asked.generates()
        {
            assert!(limit <= cap, "{limit}");
        }
        let same = |asked: &dyn DialectRequest| {
            (
                (asked.form(), asked.choices(), asked.generates()),
                (asked.free(), asked.operation(), asked.needs()),
                asked.previous_response().map(str::to_owned),
            )
        };
        assert_eq!(same(&*again), same(asked));
        assert_eq!(
            text(&again.prepare(&out, &change)),
            text(&out),
            "prepared once more"
        );
    }
}

/// A whole answer is passed on as it came, but for the model's name; as events it means the same.
fn whole(asked: &dyn DialectRequest, facts: &Facts, body: &Bytes) {
    let options = ReadOptions {
        text_bound: 64,
        ..ReadOptions::default()
    };
    let plain = match asked.read(body, &options) {
        Ok(plain) => plain,
        Err(error) => return assert_failure(&error),
    };
    if facts.untouched {
        assert_eq!(text(&plain.body), text(body));
    }
    if let Some(kept) = &plain.text {
        assert!(kept.text().len() <= options.text_bound);
    }
    let renaming = ReadOptions {
        public_model: Some(OTHER),
        ..options
    };
    let renamed = asked
        .read(body, &renaming)
        .expect("a name does not make an answer unreadable");
    assert_eq!(renamed.usage, plain.usage);
    let again = asked.read(&renamed.body, &renaming);
    let again = again.expect("what goes out is an answer");
    assert_eq!(text(&again.body), text(&renamed.body), "renamed once more");
    assert_eq!(again.usage, plain.usage);
    if is_json(body) {
        assert_json(&renamed.body, "an answer");
        if facts.untouched {
            assert_same_but(
                body,
                &renamed.body,
                &["model", "modelVersion", "response", "message"],
            );
        }
    }
    if asked.form() == Form::Events {
        stream::as_events(asked, body, plain.usage.as_ref());
    }
}

/// A failure is bounded, and either the caller's, in every form, or told to nobody.
pub(crate) fn assert_failure(error: &UpstreamError) {
    assert_renders(error);
}
