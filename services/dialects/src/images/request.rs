//! What an images request asks for, as JSON or as a form.

use bytes::Bytes;

use super::answer;
use crate::carry::{AnswerStream, StreamOptions};
use crate::chat::answers;
use crate::dialect::{Change, DialectRequest, Form, ReadOptions, WholeAnswer};
use crate::error::UpstreamError;
use crate::json::{Edit, Span, Value, splice};
use crate::multipart::{FormData, is_form};
use crate::parameters::Layout;
use crate::request::{ModelField, RequestError, boolean, members, string};
use crate::text::TextBuffer;
use crate::typed::TypedStream;

/// The facts of a request that routing, admission and patching need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImagesRequest {
    /// What a model reads.
    prompt: String,
    /// How many images.
    n: u64,
    stream: bool,
    /// Existing images are edited.
    edits: bool,
    body: BodyKind,
}

/// How the body is written, and where the model stands in it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum BodyKind {
    Json(ModelField),
    Form {
        content_type: String,
        model: String,
        at: Span,
    },
}

const PROMPT: &str = "a text that says what to show";

impl ImagesRequest {
    /// Reads a request body and checks what we rely on; `edits` for /v1/images/edits, whose body may be a form.
    ///
    /// # Errors
    /// When the body is not what its type says, `model` or `prompt` are missing or of the wrong kind, or `n` or `stream` make
    /// no sense.
    pub fn peek(content_type: &str, body: &[u8], edits: bool) -> Result<Self, RequestError> {
        let request = if edits && is_form(content_type) {
            Self::form(content_type, body)?
        } else {
            Self::json(body, edits)?
        };
        if request.prompt.is_empty() {
            return Err(RequestError::Missing {
                field: "prompt",
                expected: PROMPT,
            });
        }
        Ok(request)
    }

    fn json(body: &[u8], edits: bool) -> Result<Self, RequestError> {
        let mut model = ModelField::default();
        let (mut prompt, mut n, mut stream) = (String::new(), 1, false);
        members(body, |text, name, value: Value| {
            match name {
                "model" => model.read(text, value)?,
                "prompt" => prompt = string("prompt", PROMPT, text, value)?,
                "n" => n = answers("n", text, value)?,
                "stream" => stream = boolean("stream", text, value)?.unwrap_or(false),
                _ => {}
            }
            Ok(())
        })?;
        model.given()?;
        Ok(Self {
            prompt,
            n,
            stream,
            edits,
            body: BodyKind::Json(model),
        })
    }

    fn form(content_type: &str, body: &[u8]) -> Result<Self, RequestError> {
        let form = FormData::read(content_type, body)?;
        let (model, at) = form.model()?;
        if form.contents(&["image", "image[]"]).next().is_none() {
            return Err(RequestError::Missing {
                field: "image",
                expected: "a part with an image",
            });
        }
        Ok(Self {
            prompt: form
                .value("prompt")?
                .map_or("", |(text, _)| text)
                .to_owned(),
            n: form.answers("n")?,
            stream: form.flag("stream")?,
            edits: true,
            body: BodyKind::Form {
                content_type: content_type.to_owned(),
                model: model.to_owned(),
                at,
            },
        })
    }
}

/// What is no parameter of an images request, as JSON or as a form.
const LAYOUT: Layout = Layout::flat(&["model", "prompt", "image", "images", "mask", "stream"]);

impl DialectRequest for ImagesRequest {
    fn model(&self) -> &str {
        match &self.body {
            BodyKind::Json(model) => &model.name,
            BodyKind::Form { model, .. } => model,
        }
    }

    fn form(&self) -> Form {
        if self.stream {
            Form::Events
        } else {
            Form::Whole
        }
    }

    fn text_bytes(&self) -> u64 {
        self.prompt.len() as u64
    }

    fn choices(&self) -> u32 {
        u32::try_from(self.n).unwrap_or(u32::MAX)
    }

    fn images(&self) -> u64 {
        self.n
    }

    fn can_be_capped(&self) -> bool {
        false
    }

    fn operation(&self) -> &'static str {
        "image_generation"
    }

    fn content_type(&self) -> Option<&str> {
        match &self.body {
            BodyKind::Json(_) => None,
            BodyKind::Form { content_type, .. } => Some(content_type),
        }
    }

    fn layout(&self) -> Option<&'static Layout> {
        Some(&LAYOUT)
    }

    fn prepare(&self, body: &Bytes, change: &Change<'_>) -> Bytes {
        match &self.body {
            BodyKind::Json(model) => model.rename(body, change.model),
            BodyKind::Form { model, .. } if model == change.model => body.clone(),
            BodyKind::Form { at, .. } => splice(body, vec![Edit::replace(*at, change.model)]),
        }
    }

    fn input(&self, _: &[u8], text: &mut TextBuffer) -> u64 {
        text.push(&self.prompt);
        0
    }

    fn read(
        &self,
        body: &Bytes,
        options: &ReadOptions<'_>,
    ) -> Result<WholeAnswer, Box<UpstreamError>> {
        answer::read(body, options.public_model)
    }

    fn stream(&self, options: StreamOptions) -> Box<dyn AnswerStream> {
        Box::new(TypedStream::open(answer::KINDS, self.n, options))
    }

    fn as_events(&self, body: &[u8]) -> Bytes {
        let name = if self.edits {
            "image_edit.completed"
        } else {
            "image_generation.completed"
        };
        answer::as_events(body, name, self.n)
    }
}
