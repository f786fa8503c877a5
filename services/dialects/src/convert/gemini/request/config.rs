//! `generationConfig`.

use std::borrow::Cow;

use super::plain;
use crate::convert::fields::{Fields, Raw, Refusal};
use crate::convert::gemini::members::Members;
use crate::convert::gemini::schema;
use crate::convert::node::Node;

/// How an answer is generated. Numbers that no dialect computes with stay as they are.
#[derive(Debug)]
pub(crate) struct Config<'a> {
    /// `temperature`.
    pub(crate) temperature: Option<Raw<'a>>,
    /// `topP`.
    pub(crate) top_p: Option<Raw<'a>>,
    /// `topK`.
    pub(crate) top_k: Option<Raw<'a>>,
    /// `candidateCount`, and where it stands.
    pub(crate) candidates: (u64, String),
    /// `maxOutputTokens`.
    pub(crate) max_output: Option<u64>,
    /// `stopSequences`.
    pub(crate) stop: Vec<Cow<'a, str>>,
    /// Where they stand.
    pub(crate) stop_path: String,
    /// `seed`.
    pub(crate) seed: Option<Raw<'a>>,
    /// `presencePenalty`.
    pub(crate) presence_penalty: Option<Raw<'a>>,
    /// `frequencyPenalty`.
    pub(crate) frequency_penalty: Option<Raw<'a>>,
    /// `responseLogprobs`: log probabilities are asked for; where that stands.
    pub(crate) logprobs: Option<String>,
    /// `logprobs`: of so many alternatives.
    pub(crate) top_logprobs: Option<Raw<'a>>,
    /// What the answer is to be.
    pub(crate) output: Output<'a>,
    /// `thinkingConfig`.
    pub(crate) thinking: Option<Thinking<'a>>,
}

/// What the answer is to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output<'a> {
    /// Text.
    Text,
    /// Some JSON.
    Json,
    /// JSON of this JSON Schema.
    Schema(Node<'a>),
}

/// How much is thought, and whether that is shown.
#[derive(Debug)]
pub(crate) struct Thinking<'a> {
    /// `includeThoughts`.
    pub(crate) include: bool,
    /// `thinkingBudget`, tokens: 0 is none; `None` also where the model decides (-1).
    pub(crate) budget: Option<u64>,
    /// `thinkingLevel`, in lower case.
    pub(crate) level: Option<Cow<'a, str>>,
    /// Where it stands.
    pub(crate) path: String,
}

impl Thinking<'_> {
    /// As the effort of the dialects that have one: `none`, `minimal`, `low`, `medium`, `high` or `xhigh`. A budget is none
    /// at 0, low up to 1024 tokens, medium up to 8192, high above (PROTOCOLS §11.3).
    pub(crate) fn effort(&self) -> Option<&str> {
        if let Some(level) = &self.level {
            return Some(level).map(|level| &**level);
        }
        self.budget.map(|budget| match budget {
            0 => "none",
            1..=1024 => "low",
            1025..=8192 => "medium",
            _ => "high",
        })
    }
}

impl<'a> Config<'a> {
    /// Takes the configuration of a request.
    pub(super) fn read(
        body: &mut Members<'a>,
        rest: &mut Vec<Fields<'a>>,
    ) -> Result<Self, Box<Refusal>> {
        let mut fields = match body.object("generationConfig")? {
            Some(fields) => fields,
            None => Members(Raw::body("{}").fields()?),
        };
        for (name, low, high) in [
            ("temperature", 0.0, 2.0),
            ("topP", 0.0, 1.0),
            ("topK", 0.0, f64::MAX),
            ("seed", f64::MIN, f64::MAX),
            ("presencePenalty", -2.0, 2.0),
            ("frequencyPenalty", -2.0, 2.0),
            ("logprobs", 0.0, 20.0),
        ] {
            fields.within(name, low, high)?;
        }
        let modalities = fields.path("responseModalities");
        for modality in fields.texts("responseModalities")? {
            if !modality.eq_ignore_ascii_case("text") {
                return Err(Refusal::unsupported(
                    modalities,
                    "only answers of text are translated",
                ));
            }
        }
        let logprobs = match fields.take("responseLogprobs") {
            Some(raw) if raw.text == "true" => Some(raw.path),
            _ => None,
        };
        // It means nothing unless they are asked for, and is then among the rest.
        let top_logprobs = match logprobs {
            Some(_) => fields.take("logprobs"),
            None => None,
        };
        let stop_path = fields.path("stopSequences");
        let candidates = fields.path("candidateCount");
        let config = Self {
            temperature: fields.take("temperature"),
            top_p: fields.take("topP"),
            top_k: fields.take("topK"),
            candidates: (fields.count("candidateCount")?.unwrap_or(1), candidates),
            max_output: fields.count("maxOutputTokens")?,
            stop: fields.texts("stopSequences")?,
            stop_path,
            seed: fields.take("seed"),
            presence_penalty: fields.take("presencePenalty"),
            frequency_penalty: fields.take("frequencyPenalty"),
            logprobs,
            top_logprobs,
            output: output(&mut fields, rest)?,
            thinking: thinking(&mut fields, rest)?,
        };
        rest.push(fields.0);
        Ok(config)
    }
}

/// The type and the JSON schema that `responseFormat`, the newer form, has for text.
fn text_format<'a>(
    fields: &mut Members<'a>,
    rest: &mut Vec<Fields<'a>>,
) -> Result<[Option<Raw<'a>>; 2], Box<Refusal>> {
    let mut found = [None, None];
    for item in fields.each("responseFormat")? {
        let mut item = Members(item.fields()?);
        for other in ["image", "audio", "video"] {
            if let Some(raw) = item.take(other) {
                let why = "only answers of text are translated";
                return Err(Refusal::unsupported(raw.path, why));
            }
        }
        if let Some(mut text) = item.object("text")? {
            found = [text.take("mimeType"), text.take("jsonSchema")];
            rest.push(text.0);
        }
        rest.push(item.0);
    }
    Ok(found)
}

fn output<'a>(
    fields: &mut Members<'a>,
    rest: &mut Vec<Fields<'a>>,
) -> Result<Output<'a>, Box<Refusal>> {
    let [newer_mime, newer_schema] = text_format(fields, rest)?;
    let mime = fields.take("responseMimeType").or(newer_mime);
    let plain_schema = fields
        .take("responseJsonSchema")
        .or_else(|| fields.take("_responseJsonSchema"))
        .or(newer_schema)
        .map(Raw::object)
        .transpose()?;
    let schema = match (plain_schema, fields.take("responseSchema")) {
        (Some(raw), _) => Some(plain(&raw)),
        (None, Some(raw)) => Some(schema::from_openapi(&raw)?),
        (None, None) => None,
    };
    let mime = match mime {
        Some(raw) => Some((raw.text()?, raw.path)),
        None => None,
    };
    match (mime, schema) {
        (Some((mime, path)), _) if !matches!(&*mime, "" | "text/plain" | "application/json") => {
            Err(Refusal::unsupported(
                path,
                "only `text/plain` and `application/json` are translated",
            ))
        }
        (_, Some(schema)) => Ok(Output::Schema(schema)),
        (Some((mime, _)), None) if mime == "application/json" => Ok(Output::Json),
        _ => Ok(Output::Text),
    }
}

/// A level in lower case.
fn level(raw: &Raw<'_>) -> Result<Option<String>, Box<Refusal>> {
    let level = raw.text()?.to_ascii_lowercase();
    match &*level {
        "thinking_level_unspecified" => Ok(None),
        "minimal" | "low" | "medium" | "high" | "xhigh" => Ok(Some(level)),
        _ => Err(Refusal::invalid(
            &*raw.path,
            "`MINIMAL`, `LOW`, `MEDIUM`, `HIGH` or `XHIGH`",
        )),
    }
}

fn thinking<'a>(
    fields: &mut Members<'a>,
    rest: &mut Vec<Fields<'a>>,
) -> Result<Option<Thinking<'a>>, Box<Refusal>> {
    let path = fields.path("thinkingConfig");
    let Some(mut thinking) = fields.object("thinkingConfig")? else {
        return Ok(None);
    };
    let budget = match thinking.take("thinkingBudget") {
        Some(raw) if matches!(raw.text, "-1" | "\"-1\"") => None,
        Some(raw) => Some(raw.number()?),
        None => None,
    };
    let level = match thinking.take("thinkingLevel") {
        Some(raw) => level(&raw)?,
        None => None,
    };
    let read = Thinking {
        include: thinking.boolean("includeThoughts")?.unwrap_or(false),
        budget,
        level: level.map(Cow::Owned),
        path,
    };
    rest.push(thinking.0);
    Ok(Some(read))
}
