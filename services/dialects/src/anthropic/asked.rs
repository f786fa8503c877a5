//! A Messages request as the pipeline sees it.

use bytes::Bytes;

use super::answer;
use super::replay;
use super::request::{MessagesCall, MessagesRequest};
use super::stream::MessageStream;
use crate::carry::{AnswerStream, StreamOptions};
use crate::convert::{Format, strip};
use crate::dialect::{Change, DialectRequest, Form, Needs, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::parameters::Layout;
use crate::text::TextBuffer;

const LAYOUT: Layout = Layout {
    structural: &["model", "messages", "system", "stream"],
    nested: &[],
    turns: "messages",
    limits: &["max_tokens"],
    converted: &[],
};

/// Anthropic's own keep-alive: its clients know the event, and comments are not sent by its API (PROTOCOLS §7.2).
pub(super) const PING: &[u8] = b"event: ping\ndata: {\"type\": \"ping\"}\n\n";

impl DialectRequest for MessagesRequest {
    fn model(&self) -> &str {
        &self.model
    }

    fn form(&self) -> Form {
        if self.stream && self.generates() {
            Form::Events
        } else {
            Form::Whole
        }
    }

    fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    fn output_limit(&self) -> Option<u64> {
        self.max_tokens.filter(|_| self.generates())
    }

    fn generates(&self) -> bool {
        self.call == MessagesCall::Create
    }

    fn free(&self) -> bool {
        self.call == MessagesCall::CountTokens
    }

    fn operation(&self) -> &'static str {
        match self.call {
            MessagesCall::Create => "chat",
            MessagesCall::CountTokens => "count_tokens",
        }
    }

    fn needs(&self) -> Needs {
        Needs {
            tools: self.has_tools,
            vision: self.images > 0 || self.documents > 0,
            json: self.wants_json,
            audio: false,
        }
    }

    fn keep_alive(&self) -> Option<&'static [u8]> {
        (self.form() == Form::Events).then_some(PING)
    }

    fn layout(&self) -> Option<&'static Layout> {
        Some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        strip::strangers(Format::Anthropic, &self.patch(body, change))
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
        match self.call {
            MessagesCall::Create => answer::message(body, options),
            MessagesCall::CountTokens => answer::count(body),
        }
    }

    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream> {
        Box::new(MessageStream::open(options))
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        replay::as_events(body)
    }
}
