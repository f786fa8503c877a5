//! A request for a response as the pipeline sees it.

use bytes::Bytes;

use super::answer;
use super::events::as_events;
use super::request::ResponsesRequest;
use super::stream::{Mode, ResponseStream};
use crate::carry::{AnswerStream, StreamOptions};
use crate::convert::{Format, strip};
use crate::dialect::{Change, DialectRequest, Form, Needs, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::parameters::Layout;
use crate::text::TextBuffer;

/// What is no parameter of a request for a response.
const LAYOUT: Layout = Layout {
    structural: &[
        "model",
        "input",
        "instructions",
        "previous_response_id",
        "conversation",
        "prompt",
        "store",
        "background",
        "stream",
        "stream_options",
    ],
    nested: &[],
    turns: "input",
    limits: &["max_output_tokens"],
    converted: &[],
};

impl ResponsesRequest {
    /// Whether the upstream is asked to keep the response: it must, for one that is made in the background.
    fn kept(&self) -> bool {
        self.store || self.background
    }
}

impl DialectRequest for ResponsesRequest {
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

    fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    fn output_limit(&self) -> Option<u64> {
        self.max_output_tokens
    }

    fn needs(&self) -> Needs {
        Needs {
            tools: self.has_tools,
            vision: self.images > 0,
            json: self.asks_json,
            audio: self.audios > 0,
        }
    }

    fn previous_response(&self) -> Option<&str> {
        self.previous_response_id.as_deref()
    }

    fn background(&self) -> bool {
        self.background
    }

    fn layout(&self) -> Option<&'static Layout> {
        Some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        let body = self.patch(body, change.model, change.output_cap);
        strip::strangers(Format::Responses, &body)
    }

    fn input(&self, body: &[u8], text: &mut TextBuffer) -> u64 {
        // The body was read before: what cannot be read now adds nothing.
        let _same = Self::input_text(body, text);
        0
    }

    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        answer::read(body, options, self.kept())
    }

    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream> {
        let mode = Mode::Create {
            kept: self.kept(),
            background: self.background,
        };
        Box::new(ResponseStream::open(mode, options))
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        as_events(body)
    }
}
