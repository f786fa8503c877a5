//! The blocks of which turns, system prompts and results of tools consist (PROTOCOLS §7.1).

use std::borrow::Cow;

use super::request::each;
use crate::convert::fields::{Fields, Raw, Refusal};
use crate::json::Kind;

/// A block.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    /// What it is.
    pub(crate) content: Content<'a>,
    /// A cache mark on it.
    pub(crate) cache: Option<CacheMark<'a>>,
    /// Where it stands.
    pub(crate) path: String,
    /// What is left of it, and of its source.
    pub(crate) rest: Vec<Fields<'a>>,
}

/// What a block is.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    /// Text.
    Text {
        /// The text.
        text: Cow<'a, str>,
        /// Where it comes from, an array of the model's own citations.
        citations: Option<Raw<'a>>,
    },
    /// A picture.
    Image(Source<'a>),
    /// A document.
    Document {
        /// The document.
        source: Source<'a>,
        /// Its title.
        title: Option<Cow<'a, str>>,
        /// What is said about it, not cited.
        context: Option<Cow<'a, str>>,
        /// Whether it may be cited, an object.
        citations: Option<Raw<'a>>,
    },
    /// A search result that the caller found.
    SearchResult {
        /// Where it was found.
        source: Cow<'a, str>,
        /// Its title.
        title: Cow<'a, str>,
        /// Text blocks.
        content: Vec<Block<'a>>,
        /// Whether it may be cited, an object.
        citations: Option<Raw<'a>>,
    },
    /// Thinking.
    Thinking {
        /// What was thought, or a summary; may be empty.
        text: Cow<'a, str>,
        /// What [`Seal::read`](crate::convert::seal::Seal::read) reads; may be empty.
        signature: Cow<'a, str>,
    },
    /// Thinking whose text is withheld.
    Redacted {
        /// What [`Seal::read`](crate::convert::seal::Seal::read) reads; where it is this dialect's own, it is a redacted one.
        data: Cow<'a, str>,
    },
    /// The model calls a tool.
    ToolUse {
        /// By which the result refers to it.
        id: Cow<'a, str>,
        /// The tool.
        name: Cow<'a, str>,
        /// Its input, an object; `{}` where it is absent.
        input: &'a str,
    },
    /// What a tool said.
    ToolResult {
        /// The call's id.
        call: Cow<'a, str>,
        /// What it said; a plain string is one text block.
        content: Vec<Block<'a>>,
        /// The tool failed.
        is_error: bool,
    },
    /// Tools of the provider, their results, and all other kinds: only the maker of such a block knows what it is.
    Other {
        /// Its type.
        kind: Cow<'a, str>,
    },
}

/// Where the bytes of a picture or a document are.
#[derive(Debug)]
pub(crate) enum Source<'a> {
    /// Here.
    Base64 {
        /// Their type.
        mime: Cow<'a, str>,
        /// Base64.
        data: Cow<'a, str>,
    },
    /// At an address.
    Url(Cow<'a, str>),
    /// A file that the provider keeps.
    File,
    /// A text.
    Text(Cow<'a, str>),
    /// Text and image blocks.
    Blocks(Vec<Block<'a>>),
}

/// `cache_control`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CacheMark<'a> {
    /// `5m` or `1h`; 5 minutes where nothing is said.
    pub(crate) ttl: Option<Cow<'a, str>>,
    /// Where it stands.
    pub(crate) path: String,
}

impl<'a> CacheMark<'a> {
    /// Takes the mark of an object.
    pub(super) fn take(fields: &mut Fields<'a>) -> Result<Option<Self>, Box<Refusal>> {
        let Some(raw) = fields.take("cache_control") else {
            return Ok(None);
        };
        let mut mark = raw.fields()?;
        mark.take("type");
        let ttl = mark.text("ttl")?;
        fields.absorb(mark);
        Ok(Some(Self {
            ttl,
            path: raw.path,
        }))
    }
}

impl<'a> Block<'a> {
    /// Reads content: a string, which is one text block (none where it is empty), or an array of blocks.
    pub(super) fn list(raw: &Raw<'a>) -> Result<Vec<Self>, Box<Refusal>> {
        match raw.kind() {
            Kind::Array => each(raw.items()?, Self::read),
            Kind::String => {
                let text = raw.text()?;
                if text.is_empty() {
                    return Ok(Vec::new());
                }
                Ok(vec![Self {
                    content: Content::Text {
                        text,
                        citations: None,
                    },
                    cache: None,
                    path: raw.path.clone(),
                    rest: Vec::new(),
                }])
            }
            _ => Err(raw.wrong("a string or an array of blocks")),
        }
    }

    fn read(raw: &Raw<'a>) -> Result<Self, Box<Refusal>> {
        let mut fields = raw.fields()?;
        let kind = fields.need("type", "the block's type")?.text()?;
        let cache = CacheMark::take(&mut fields)?;
        let mut rest = Vec::new();
        let content = match &*kind {
            "text" => Content::Text {
                text: fields.need("text", "a string")?.text()?,
                citations: fields.take("citations"),
            },
            "image" => Content::Image(Source::take(&mut fields, &mut rest)?),
            "document" => Content::Document {
                source: Source::take(&mut fields, &mut rest)?,
                title: fields.text("title")?,
                context: fields.text("context")?,
                citations: fields.take("citations"),
            },
            "search_result" => Content::SearchResult {
                source: fields.need("source", "a string")?.text()?,
                title: fields.need("title", "a string")?.text()?,
                content: Self::list(&fields.need("content", "an array of text blocks")?)?,
                citations: fields.take("citations"),
            },
            "thinking" => Content::Thinking {
                text: fields.text("thinking")?.unwrap_or_default(),
                signature: fields.text("signature")?.unwrap_or_default(),
            },
            "redacted_thinking" => Content::Redacted {
                data: fields.filled("data", "a string")?,
            },
            "tool_use" => Content::ToolUse {
                id: fields.filled("id", "the call's id")?,
                name: fields.filled("name", "the tool's name")?,
                input: match fields.take("input") {
                    Some(input) if input.kind() == Kind::Object => input.text,
                    Some(input) => return Err(input.wrong("an object")),
                    None => "{}",
                },
            },
            "tool_result" => Content::ToolResult {
                call: fields.filled("tool_use_id", "the id of the call that it answers")?,
                content: match fields.take("content") {
                    Some(content) => Self::list(&content)?,
                    None => Vec::new(),
                },
                is_error: fields.boolean("is_error")?.unwrap_or(false),
            },
            _ => {
                return Ok(Self {
                    content: Content::Other { kind },
                    cache,
                    path: raw.path.clone(),
                    rest,
                });
            }
        };
        rest.push(fields);
        Ok(Self {
            content,
            cache,
            path: raw.path.clone(),
            rest,
        })
    }
}

impl<'a> Source<'a> {
    fn take(fields: &mut Fields<'a>, rest: &mut Vec<Fields<'a>>) -> Result<Self, Box<Refusal>> {
        const KINDS: &str = "base64, url, file, text or content";
        let mut source = fields.need("source", "an object")?.fields()?;
        let kind = source.need("type", KINDS)?;
        let said = match &*kind.text()? {
            "base64" => Self::Base64 {
                mime: source.mime("media_type")?,
                data: source.filled("data", "base64")?,
            },
            "url" => Self::Url(source.need("url", "an address")?.address()?),
            "file" => {
                source.need("file_id", "a file's id")?;
                Self::File
            }
            "text" => {
                // it can only be text/plain
                source.take("media_type");
                Self::Text(source.filled("data", "a string")?)
            }
            "content" => Self::Blocks(Block::list(&source.need("content", "an array")?)?),
            _ => return Err(Refusal::invalid(kind.path, KINDS)),
        };
        rest.push(source);
        Ok(said)
    }
}
