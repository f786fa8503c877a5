//! An embeddings request as the pipeline sees it.

use bytes::Bytes;

use super::answer::EmbeddingsAnswer;
use super::request::EmbeddingsRequest;
use crate::carry::{AnswerStream, RawStream, StreamOptions};
use crate::dialect::{Change, DialectRequest, Form, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::parameters::Layout;
use crate::text::TextBuffer;
use crate::whole::malformed;

/// What is no parameter of an embeddings request. Vectors come in the encoding that was asked for, whatever the upstream gives.
const LAYOUT: Layout = Layout {
    converted: &["encoding_format"],
    ..Layout::flat(&["model", "input"])
};

impl DialectRequest for EmbeddingsRequest {
    fn model(&self) -> &str {
        &self.model.name
    }

    fn form(&self) -> Form {
        Form::Whole
    }

    fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    fn generates(&self) -> bool {
        false
    }

    fn operation(&self) -> &'static str {
        "embeddings"
    }

    fn layout(&self) -> Option<&'static Layout> {
        Some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        self.patch(body, change.model)
    }

    fn input(&self, body: &[u8], text: &mut TextBuffer) -> u64 {
        // The body was read before: what cannot be read now adds nothing.
        let _same = Self::input_text(body, text);
        self.inputs.tokens
    }

    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        let answer = EmbeddingsAnswer::read(body)?;
        if answer.count < self.inputs.count {
            return Err(malformed(
                "the upstream's answer has fewer embeddings than there are inputs",
            ));
        }
        Ok(WholeAnswer {
            body: answer.patch(body, options.public_model, self.encoding)?,
            usage: answer.usage,
            ..WholeAnswer::default()
        })
    }

    fn stream(&self, _: StreamOptions) -> Box<dyn AnswerStream> {
        Box::new(RawStream::default())
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        Bytes::copy_from_slice(body)
    }
}
