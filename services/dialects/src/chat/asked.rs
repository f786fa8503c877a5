//! A chat request as the pipeline sees it.

use bytes::Bytes;

use super::answer::{ChatAnswer, answer_as_stream};
use super::chunk::Payload;
use super::patch::Patch;
use super::request::ChatRequest;
use super::stream::{Asked, ChatStream};
use crate::carry::{AnswerStream, StreamOptions};
use crate::convert::{Format, strip};
use crate::dialect::{Change, DialectRequest, Form, Needs, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::parameters::Layout;
use crate::text::TextBuffer;

/// What is no parameter of a chat request. `tools` are one: a server that does not list them does not know them.
const LAYOUT: Layout = Layout {
    structural: &["model", "messages", "stream", "stream_options"],
    nested: &[],
    turns: "messages",
    limits: &["max_completion_tokens", "max_tokens"],
    converted: &[],
};

impl DialectRequest for ChatRequest {
    fn model(&self) -> &str {
        &self.fields.model
    }

    fn form(&self) -> Form {
        if self.fields.stream {
            Form::Events
        } else {
            Form::Whole
        }
    }

    fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    fn output_limit(&self) -> Option<u64> {
        Self::output_limit(self)
    }

    fn choices(&self) -> u32 {
        u32::try_from(self.fields.n).unwrap_or(u32::MAX)
    }

    fn needs(&self) -> Needs {
        Needs {
            tools: self.has_tools,
            vision: self.images > 0,
            json: self.has_response_format,
            audio: self.audios > 0,
        }
    }

    fn layout(&self) -> Option<&'static Layout> {
        Some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        let patch = Patch {
            model: Some(change.model),
            include_usage: true,
            output_cap: change.output_cap,
            ..Patch::default()
        };
        strip::strangers(Format::Chat, &self.patch(body, &patch))
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
        ChatAnswer::whole(body, Payload::Message, options)
    }

    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream> {
        let asked = Asked {
            payload: Payload::Message,
            include_usage: self.fields.include_usage,
            choices: self.fields.n,
        };
        Box::new(ChatStream::open(asked, options))
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        answer_as_stream(body)
    }
}
