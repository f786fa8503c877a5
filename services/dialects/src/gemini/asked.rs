//! A request as the pipeline sees it.

use bytes::Bytes;

use super::answer::as_events;
use super::request::{Call, GeminiRequest};
use super::stream::GeminiStream;
use crate::carry::{AnswerStream, StreamOptions};
use crate::convert::{Format, strip};
use crate::dialect::{Change, DialectRequest, Form, Needs, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::parameters::Layout;
use crate::text::TextBuffer;

/// What is no parameter of a request.
const LAYOUT: Layout = Layout {
    structural: &[
        "model",
        "contents",
        "content",
        "requests",
        "systemInstruction",
        "system_instruction",
    ],
    nested: &["generationConfig", "generation_config"],
    turns: "contents",
    limits: &["maxOutputTokens", "max_output_tokens"],
    converted: &[],
};

impl DialectRequest for GeminiRequest {
    fn model(&self) -> &str {
        &self.model
    }

    fn form(&self) -> Form {
        match self.call {
            Call::StreamEvents => Form::Events,
            Call::StreamArray => Form::Array,
            Call::Generate | Call::CountTokens | Call::Embed | Call::EmbedBatch => Form::Whole,
        }
    }

    fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    fn output_limit(&self) -> Option<u64> {
        self.max_output
    }

    fn choices(&self) -> u32 {
        u32::try_from(self.candidates).unwrap_or(u32::MAX)
    }

    fn generates(&self) -> bool {
        self.call.generates()
    }

    fn free(&self) -> bool {
        self.call == Call::CountTokens
    }

    fn operation(&self) -> &'static str {
        match self.call {
            Call::Embed | Call::EmbedBatch => "embeddings",
            Call::CountTokens => "count_tokens",
            Call::Generate | Call::StreamEvents | Call::StreamArray => "generate_content",
        }
    }

    fn needs(&self) -> Needs {
        Needs {
            tools: self.has_tools,
            vision: self.media.seen > 0,
            json: self.wants_json,
            audio: self.media.heard > 0 || self.speaks,
        }
    }

    /// Google's client takes no byte for a sign of life.
    fn keep_alive(&self) -> Option<&'static [u8]> {
        None
    }

    fn layout(&self) -> Option<&'static Layout> {
        (self.call != Call::CountTokens).then_some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        strip::strangers(Format::Gemini, &self.patch(body, change))
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
        self.read_answer(body, options)
    }

    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream> {
        let array = self.call == Call::StreamArray;
        Box::new(GeminiStream::open(self.candidates, array, options))
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        as_events(body)
    }
}
