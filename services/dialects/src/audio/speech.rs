//! A speech request: text in, audio out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};

use crate::carry::{AnswerStream, RawStream, StreamOptions};
use crate::dialect::{Change, DialectRequest, Form, Needs, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::json::Kind;
use crate::parameters::Layout;
use crate::request::{ModelField, RequestError, members, string};
use crate::sse::{Framing, write_event};
use crate::text::TextBuffer;
use crate::typed::{Kinds, TypedStream};
use crate::usage::Usage;
use crate::whole::{Object, empty, malformed};

/// `speech.audio.*`. All that a voice makes is audio, also where the upstream does not say so.
const KINDS: Kinds = Kinds {
    content: &[".delta"],
    last: ".done",
    text: None,
    usage: |usage: &mut Usage, _| usage.output_audio = usage.output_audio.or(usage.output),
};

/// The facts of a request that routing, admission and patching need.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpeechRequest {
    model: ModelField,
    /// What is to be spoken, and how.
    text: String,
    /// Events instead of bytes (`stream_format`).
    events: bool,
}

const INPUT: &str = "the text to be spoken";

impl SpeechRequest {
    /// Reads a request body and checks what we rely on.
    ///
    /// # Errors
    /// When the body is no JSON object, `model` or `input` are missing or of the wrong kind, or `stream_format` is neither
    /// `audio` nor `sse`.
    pub fn peek(body: &[u8]) -> Result<Self, RequestError> {
        let mut request = Self::default();
        let (mut input, mut how) = (String::new(), String::new());
        members(body, |text, name, value| {
            match name {
                "model" => request.model.read(text, value)?,
                "input" => input = string("input", INPUT, text, value)?,
                "instructions" => {
                    let said = value.text().map(|said| said.decode(text).into_owned());
                    how = said.unwrap_or_default();
                }
                "stream_format" => {
                    request.events = match (value.kind, value.span.of(text)) {
                        (Kind::Null, _) | (_, "\"audio\"") => false,
                        (_, "\"sse\"") => true,
                        (_, got) => {
                            return Err(RequestError::Field {
                                field: "stream_format",
                                expected: "\"audio\" or \"sse\"",
                                got: got.chars().take(40).collect(),
                            });
                        }
                    };
                }
                _ => {}
            }
            Ok(())
        })?;
        request.model.given()?;
        if input.is_empty() {
            return Err(RequestError::Missing {
                field: "input",
                expected: INPUT,
            });
        }
        request.text = input + &how;
        Ok(request)
    }
}

fn is_text(content_type: &str) -> bool {
    let kind = content_type.trim_start().as_bytes();
    kind.get(..5)
        .is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/"))
}

/// What is no parameter of a speech request. Audio from an upstream that knows no events is made into them.
const LAYOUT: Layout = Layout {
    converted: &["stream_format"],
    ..Layout::flat(&["model", "input", "voice"])
};

impl DialectRequest for SpeechRequest {
    fn model(&self) -> &str {
        &self.model.name
    }

    fn form(&self) -> Form {
        if self.events {
            Form::Events
        } else {
            Form::Bytes
        }
    }

    fn framing(&self, content_type: Option<&str>) -> Option<Framing> {
        Some(match Framing::of(content_type) {
            // Text is never audio: it says what went wrong, or is a page of something in between.
            Framing::Whole => Framing::Whole,
            _ if !self.events && content_type.is_some_and(is_text) => Framing::Whole,
            _ if !self.events => Framing::Events,
            // An upstream that knows no events sends its audio at once.
            _ if content_type.is_some_and(|kind| !is_text(kind)) => Framing::Whole,
            framing => framing,
        })
    }

    fn text_bytes(&self) -> u64 {
        self.text.len() as u64
    }

    fn generates(&self) -> bool {
        false
    }

    fn operation(&self) -> &'static str {
        "speech"
    }

    fn needs(&self) -> Needs {
        Needs {
            audio: true,
            ..Needs::default()
        }
    }

    fn layout(&self) -> Option<&'static Layout> {
        Some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        self.model.rename(body, change.model)
    }

    fn input(&self, _: &[u8], text: &mut TextBuffer) -> u64 {
        text.push(&self.text);
        0
    }

    /// Audio is taken as it is; JSON is an error, or it is no audio.
    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        if body.is_empty() {
            return Err(empty());
        }
        if body.trim_ascii_start().starts_with(b"{") {
            Object::read(body, &[])?;
            return Err(malformed("the upstream's answer is JSON, not audio"));
        }
        if options.content_type.is_some_and(is_text) {
            return Err(malformed("the upstream's answer is text, not audio"));
        }
        Ok(WholeAnswer {
            body: body.clone(),
            ..WholeAnswer::default()
        })
    }

    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream> {
        if self.events {
            Box::new(TypedStream::open(KINDS, 1, options))
        } else {
            Box::new(RawStream::default())
        }
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        let delta = format!(
            r#"{{"type":"speech.audio.delta","audio":"{}"}}"#,
            STANDARD.encode(body)
        );
        write_event(&mut out, Some(b"speech.audio.delta"), &delta);
        let done = r#"{"type":"speech.audio.done"}"#;
        write_event(&mut out, Some(b"speech.audio.done"), done);
        out.freeze()
    }
}
