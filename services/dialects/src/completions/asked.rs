//! A completions request as the pipeline sees it.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::request::CompletionsRequest;
use crate::carry::{AnswerStream, StreamOptions};
use crate::chat::{Asked, ChatAnswer, ChatStream, Patch, Payload};
use crate::dialect::{Change, DialectRequest, Form, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::parameters::Layout;
use crate::sse::{DONE, write_event};
use crate::text::TextBuffer;
use crate::whole::one_line;

/// What is no parameter of a completions request; it has no turns.
const LAYOUT: Layout = Layout {
    structural: &["model", "prompt", "stream", "stream_options"],
    nested: &[],
    turns: "",
    limits: &["max_tokens"],
    converted: &[],
};

impl DialectRequest for CompletionsRequest {
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
        self.max_tokens
    }

    fn choices(&self) -> u32 {
        u32::try_from(self.made()).unwrap_or(u32::MAX)
    }

    fn operation(&self) -> &'static str {
        "text_completion"
    }

    fn layout(&self) -> Option<&'static Layout> {
        Some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        let patch = Patch {
            model: Some(change.model),
            include_usage: true,
            output_cap: change.output_cap,
            output_cap_field: "max_tokens",
        };
        self.fields.patch(body, &patch)
    }

    fn input(&self, body: &[u8], text: &mut TextBuffer) -> u64 {
        // The body was read before: what cannot be read now adds nothing.
        let _same = Self::input_text(body, text);
        self.prompts.tokens
    }

    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        ChatAnswer::whole(body, Payload::Text, options)
    }

    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream> {
        let asked = Asked {
            payload: Payload::Text,
            include_usage: self.fields.include_usage,
            choices: self.choices(),
        };
        Box::new(ChatStream::open(asked, options))
    }

    /// A whole answer is a chunk: even its `object` is the same.
    fn as_events(&self, body: &[u8]) -> Bytes {
        let text = std::str::from_utf8(body).unwrap_or("");
        let mut out = BytesMut::new();
        write_event(&mut out, None, &one_line(text));
        out.put_slice(DONE);
        out.freeze()
    }
}
