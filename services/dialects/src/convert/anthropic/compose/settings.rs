//! Everything of a request but the conversation and the tools, and the request put together.

use std::borrow::Cow;

use super::Turns;
use super::marks::limit_marks;
use super::model::{Around, Asked, Model, Thought};
use super::tools::Tools;
use crate::convert::Target;
use crate::convert::anthropic::reader::Way;
use crate::convert::fields::{Drops, Raw};
use crate::convert::node::Node;

/// `max_tokens` where neither the caller nor the catalogue says: what all models since Claude 3.5 can give.
const OUTPUT: u64 = 8192;
/// Words for a model that is to answer in JSON without a schema.
const JSON_ONLY: &str = "Answer with a single JSON object and nothing else.";
/// The tool by which models that know no schema of the answer give it.
const ANSWER: &str = "give_the_answer";

/// Everything but the conversation and the tools.
#[derive(Debug, Default)]
pub(crate) struct Settings<'a> {
    /// The output limit, where the caller says.
    pub(crate) limit: Option<u64>,
    /// How much is to be thought, and the path of the field that asks for it.
    pub(crate) thought: Option<(Asked<'a>, &'a str)>,
    /// The thoughts are to be shown.
    pub(crate) show: bool,
    /// 0..2, a number.
    pub(crate) temperature: Option<Raw<'a>>,
    /// 0..1, a number.
    pub(crate) top_p: Option<Raw<'a>>,
    /// A whole number.
    pub(crate) top_k: Option<Raw<'a>>,
    /// The form of the answer.
    pub(crate) output: Output<'a>,
    /// Texts that end the answer, and the path of the field that names them.
    pub(crate) stop: (Vec<Cow<'a, str>>, &'a str),
    /// Who uses it, a string.
    pub(crate) user: Option<Raw<'a>>,
}

/// The form of the answer.
#[derive(Debug, Default)]
pub(crate) enum Output<'a> {
    /// Text.
    #[default]
    Text,
    /// Some JSON object.
    Json,
    /// JSON of a schema.
    Schema(Node<'a>),
}

/// Puts a request together.
pub(crate) fn request<'a>(
    target: &Target<'_>,
    mut turns: Turns<'a>,
    mut tools: Tools<'a>,
    mut settings: Settings<'a>,
    drops: &mut Drops,
) -> (String, Way) {
    let model = Model::named(target.model);
    let limit = settings.limit.or(target.max_output).unwrap_or(OUTPUT);
    let mut way = Way::default();
    let schema = match std::mem::take(&mut settings.output) {
        Output::Text => None,
        Output::Json => {
            turns.instruct_also(JSON_ONLY);
            None
        }
        Output::Schema(schema) if model.has_schemas() || tools.has(ANSWER) => Some(schema),
        Output::Schema(schema) => {
            tools.answer(ANSWER, schema);
            way.answer = Some(ANSWER);
            None
        }
    };
    let around = Around {
        show: settings.show,
        limit,
        forced: tools.forces(),
        resumes: turns.resumes_without_thought(),
    };
    let asked = settings.thought.take();
    let thought = asked.map_or_else(Thought::default, |(asked, path)| {
        let thought = model.think(asked, around);
        if thought.lost {
            drops.note(path);
        }
        thought
    });
    let mut body = Node::object([("model", Node::text(target.model.to_owned()))]);
    if target.stream {
        body.put("stream", Node::Bool(true));
    }
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    body.put("max_tokens", Node::Number(limit));
    way.custom = tools.finish(turns.called(), &mut body);
    way.names = turns.finish(&mut body);
    settings.sample(model, thought.thinks, &mut body, drops);
    body.put_some("thinking", thought.thinking);
    let mut config = Node::Object(Vec::new());
    config.put_some("effort", thought.effort.map(Node::text));
    let format = schema
        .map(|schema| Node::object([("type", Node::text("json_schema")), ("schema", schema)]));
    config.put_some("format", format);
    if config != Node::Object(Vec::new()) {
        body.put("output_config", config);
    }
    settings.rest(&mut body, drops);
    if limit_marks(&mut body) {
        drops.note("cache_control");
    }
    (body.render(), way)
}

impl<'a> Settings<'a> {
    /// Sampling. A temperature above 1 becomes 1. None of it is taken while the model thinks, or since Claude 4.7; of
    /// temperature and `top_p` only the first one since 4.1.
    fn sample(&mut self, model: Model, thinks: bool, body: &mut Node<'a>, drops: &mut Drops) {
        let taken = model.samples() && !thinks;
        let default = |raw: &Raw<'_>| raw.text.parse::<f64>().is_ok_and(|number| number == 1.0);
        let both = self.temperature.is_some() && model.samples_by_one();
        let temperature = self.temperature.take();
        let top_p = self.top_p.take();
        for (name, raw, taken) in [
            ("temperature", temperature, taken),
            ("top_p", top_p, taken && !both),
            ("top_k", self.top_k.take(), taken),
        ] {
            let Some(raw) = raw else {
                continue;
            };
            if taken {
                let above = name == "temperature"
                    && raw.text.parse::<f64>().is_ok_and(|number| number > 1.0);
                body.put(name, Node::raw(if above { "1" } else { raw.text }));
            } else if name == "top_k" || !default(&raw) {
                drops.note(&raw.path);
            }
        }
    }

    fn rest(self, body: &mut Node<'a>, drops: &mut Drops) {
        let (mut stop, path) = self.stop;
        let all = stop.len();
        stop.retain(|stop| !stop.trim().is_empty());
        if stop.len() < all {
            drops.note(path);
        }
        if !stop.is_empty() {
            let stop = stop.into_iter().map(Node::Text);
            body.put("stop_sequences", Node::Array(stop.collect()));
        }
        if let Some(raw) = self.user {
            body.put("metadata", Node::object([("user_id", Node::raw(raw.text))]));
        }
    }
}
