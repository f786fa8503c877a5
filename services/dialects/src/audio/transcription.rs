//! A transcription or translation request: a form with audio in, text out.

use bytes::Bytes;

use super::{length, transcript};
use crate::carry::{AnswerStream, StreamOptions};
use crate::dialect::{Change, DialectRequest, Form, Needs, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::json::{Edit, Span, splice};
use crate::multipart::FormData;
use crate::parameters::Layout;
use crate::request::RequestError;
use crate::sse::Framing;
use crate::text::TextBuffer;
use crate::typed::TypedStream;

/// Tokens that models hear in a second of audio: what is expected where the upstream does not say.
const TOKENS_A_SECOND: u64 = 10;

/// The facts of a request that routing, admission and patching need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranscriptionRequest {
    content_type: String,
    model: String,
    /// Where the model stands.
    at: Span,
    prompt: String,
    stream: bool,
    /// The answer is to be JSON, not plain text.
    json: bool,
    /// How long the audio seems to be.
    millis: u64,
}

impl TranscriptionRequest {
    /// Reads a request body and checks what we rely on.
    ///
    /// # Errors
    /// When the body is no form that can be read in one way only, the parts `model` or `file` are missing, or `stream` makes
    /// no sense.
    pub fn peek(content_type: &str, body: &[u8]) -> Result<Self, RequestError> {
        let form = FormData::read(content_type, body)?;
        let (model, at) = form.model()?;
        let Some(file) = form.contents(&["file"]).next() else {
            return Err(RequestError::Missing {
                field: "file",
                expected: "a part with the audio",
            });
        };
        let text = |field| Ok::<_, RequestError>(form.value(field)?.map_or("", |(text, _)| text));
        Ok(Self {
            model: model.to_owned(),
            at,
            prompt: text("prompt")?.to_owned(),
            stream: form.flag("stream")?,
            json: !matches!(text("response_format")?.trim(), "text" | "srt" | "vtt"),
            millis: length::millis(file),
            content_type: content_type.to_owned(),
        })
    }

    const fn audio_tokens(&self) -> u64 {
        self.millis.saturating_mul(TOKENS_A_SECOND).div_ceil(1_000)
    }
}

/// What is no parameter of a transcription; how its answer is read depends on `response_format`.
const LAYOUT: Layout = Layout::flat(&["model", "file", "stream", "response_format"]);

impl DialectRequest for TranscriptionRequest {
    fn model(&self) -> &str {
        &self.model
    }

    fn form(&self) -> Form {
        if self.stream {
            Form::Events
        } else {
            Form::Whole
        }
    }

    fn framing(&self, content_type: Option<&str>) -> Option<Framing> {
        const PLAIN: &[u8] = b"text/plain";
        let plain = |kind: &str| {
            let kind = kind.trim_start().as_bytes().get(..PLAIN.len());
            kind.is_some_and(|kind| kind.eq_ignore_ascii_case(PLAIN))
        };
        // A whole text from an upstream that does not stream.
        content_type.is_some_and(plain).then_some(Framing::Whole)
    }

    /// As if a token had three bytes, which is how input is estimated.
    fn text_bytes(&self) -> u64 {
        let audio = self.audio_tokens().saturating_mul(3);
        audio.saturating_add(self.prompt.len() as u64)
    }

    fn audio_millis(&self) -> u64 {
        self.millis
    }

    fn can_be_capped(&self) -> bool {
        false
    }

    fn operation(&self) -> &'static str {
        "transcription"
    }

    fn needs(&self) -> Needs {
        Needs {
            audio: true,
            ..Needs::default()
        }
    }

    fn content_type(&self) -> Option<&str> {
        Some(&self.content_type)
    }

    fn layout(&self) -> Option<&'static Layout> {
        Some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        if self.model == change.model {
            return body.clone();
        }
        splice(body, vec![Edit::replace(self.at, change.model)])
    }

    fn input(&self, _: &[u8], text: &mut TextBuffer) -> u64 {
        text.push(&self.prompt);
        self.audio_tokens()
    }

    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        if self.json {
            transcript::json(body, options)
        } else {
            transcript::plain(body, options)
        }
    }

    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream> {
        Box::new(TypedStream::open(transcript::KINDS, 1, options))
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        transcript::as_events(body)
    }
}
