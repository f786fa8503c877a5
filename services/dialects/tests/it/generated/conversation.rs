//! A conversation as any dialect can say it: who says what, which tools there are, what they gave.

use base64::Engine as _;
use switchboard_dialects::convert::Format;

use super::source::Source;
use crate::json::Json;

/// A conversation.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) system: Vec<String>,
    pub(crate) turns: Vec<Turn>,
    pub(crate) tools: Vec<Tool>,
}

/// What one side says.
#[derive(Debug)]
pub(crate) enum Turn {
    /// Instructions amid the conversation.
    Instructions(String),
    User(Vec<Shown>),
    Model(Model),
    Results(Vec<Given>),
}

/// What is said or shown.
#[derive(Debug, Clone)]
pub(crate) enum Shown {
    Text(String),
    /// A URL, or a type and base64.
    Image(Result<String, (&'static str, String)>),
    /// A PDF in base64, and its name.
    Document(String, String),
    /// Base64.
    Audio(String),
    /// What was found: where, its title, its text.
    Found(String, String, String),
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) thoughts: Vec<Thought>,
    pub(crate) texts: Vec<String>,
    pub(crate) refusal: Option<String>,
    pub(crate) calls: Vec<Call>,
}

/// A thought; its seal as it is said in the caller's dialect.
#[derive(Debug)]
pub(crate) struct Thought {
    pub(crate) text: String,
    pub(crate) seal: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON; of a tool of free text a text.
    pub(crate) arguments: String,
    pub(crate) custom: bool,
    pub(crate) seal: Option<String>,
}

/// What a tool gave.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) call: Call,
    pub(crate) shown: Vec<Shown>,
    pub(crate) failed: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) schema: Option<Json>,
    pub(crate) strict: Option<bool>,
    pub(crate) custom: bool,
}

/// Makes a conversation that a caller of this dialect may send.
pub(crate) fn conversation(source: &mut Source, caller: Format) -> Conversation {
    let system = (0..source.pick(3)).map(|_| source.text()).collect();
    let tools: Vec<Tool> = (0..source.pick(4)).map(|_| tool(source, caller)).collect();
    let mut said = Saying {
        source,
        caller,
        tools: &tools,
        turns: Vec::new(),
        calls: 0,
    };
    said.say();
    let turns = said.turns;
    Conversation {
        system,
        turns,
        tools,
    }
}

fn tool(source: &mut Source, caller: Format) -> Tool {
    let openai = matches!(caller, Format::Chat | Format::Responses);
    let custom = openai && source.once_in(5);
    let schema = !custom && (caller == Format::Anthropic || !source.once_in(5));
    Tool {
        name: tool_name(source, caller),
        description: source.once_in(2).then(|| source.text()),
        schema: schema.then(|| schema_of(source)),
        strict: (!custom && source.once_in(3)).then(|| source.once_in(2)),
        custom,
    }
}

/// A name that the caller's dialect takes.
fn tool_name(source: &mut Source, caller: Format) -> String {
    let mark = source.mark();
    let long = match caller {
        Format::Chat | Format::Responses => 64,
        Format::Anthropic | Format::Gemini => 128,
    };
    match source.pick(6) {
        3 => format!("t_{mark}-x"),
        4 => format!("{:n<long$}", format!("t_{mark}_")),
        5 if caller == Format::Gemini => format!("t_{mark}.x:y-z"),
        _ if source.wrong_once_in(12) => format!("9 {mark} é/{}", "n".repeat(200)),
        _ => format!("t_{mark}"),
    }
}

/// A schema whose bytes must not change.
pub(crate) fn schema_of(source: &mut Source) -> Json {
    let mark = source.mark();
    let text = format!(
        r#"{{"type":"object","properties":{{"{mark}":{{"type":["integer","null"],"maximum":9007199254740993,"minimum":-1.50e-7,"description":"é\n"}}}},"required":["{mark}"],"additionalProperties":false}}"#
    );
    Json::parse(&text).unwrap()
}

struct Saying<'s> {
    source: &'s mut Source,
    caller: Format,
    tools: &'s [Tool],
    turns: Vec<Turn>,
    calls: usize,
}

impl Saying<'_> {
    fn say(&mut self) {
        let rounds = 1 + self.source.pick(3);
        let openai = matches!(self.caller, Format::Chat | Format::Responses);
        if openai && self.source.once_in(10) {
            // Anyone may begin.
            self.model();
        }
        for round in 0..rounds {
            let shown = (0..1 + self.source.pick(3)).map(|_| self.shown());
            let shown = shown.collect();
            self.turns.push(Turn::User(shown));
            if self.caller != Format::Gemini && self.source.once_in(8) {
                let text = self.source.text();
                self.turns.push(Turn::Instructions(text));
            }
            let last = round + 1 == rounds;
            if last && !self.source.once_in(2) {
                return;
            }
            for _ in 0..1 + self.source.pick(2) {
                if !self.model() {
                    break;
                }
            }
        }
    }

    fn shown(&mut self) -> Shown {
        let source = &mut *self.source;
        match source.pick(10) {
            7 => Shown::Image(Ok(format!("https://a.example/{}.png", source.mark()))),
            8 => Shown::Image(Err((
                source.one(&["image/png", "image/jpeg"]),
                data(source),
            ))),
            9 if source.once_in(3) && self.caller != Format::Anthropic => {
                Shown::Audio(data(source))
            }
            9 if self.caller == Format::Anthropic && source.once_in(3) => Shown::Found(
                format!("https://a.example/{}", source.mark()),
                source.text(),
                source.text(),
            ),
            9 => Shown::Document(data(source), format!("{}.pdf", source.mark())),
            _ if source.once_in(12) => Shown::Text(String::new()),
            _ => Shown::Text(source.text()),
        }
    }

    /// The model's turn, and the results of its calls. Gives whether it called.
    fn model(&mut self) -> bool {
        let mut model = Model::default();
        for _ in 0..self.source.pick(3) {
            model.thoughts.push(self.thought());
        }
        let openai = matches!(self.caller, Format::Chat | Format::Responses);
        for _ in 0..1 + self.source.pick(2) {
            model.texts.push(self.source.text());
        }
        model.refusal = (openai && self.source.once_in(9)).then(|| self.source.text());
        for _ in 0..self.source.pick(4) {
            model.calls.push(self.call());
        }
        if !model.calls.is_empty() && self.source.once_in(3) {
            model.texts.clear();
        }
        if self.source.wrong_once_in(6) {
            model.texts.clear();
        }
        let calls = model.calls.clone();
        self.turns.push(Turn::Model(model));
        if calls.is_empty() {
            return false;
        }
        let order = self.source.order(calls.len());
        let mut given: Vec<Given> = Vec::new();
        for at in order {
            if self.source.wrong_once_in(6) {
                continue;
            }
            given.push(self.given(&calls[at]));
        }
        if self.source.wrong_once_in(9) {
            self.turns
                .push(Turn::User(vec![Shown::Text("amid".into())]));
        }
        if self.source.wrong_once_in(9) {
            given.push(self.given(&calls[0]));
        }
        self.turns.push(Turn::Results(given));
        true
    }

    fn thought(&mut self) -> Thought {
        let source = &mut *self.source;
        let mut seal = source.once_in(2).then(|| seal(source, self.caller));
        if let Some(mark) = seal
            .as_ref()
            .and_then(|seal| seal.strip_prefix("switchboard.c."))
        {
            // An upstream's own item, without its text.
            let item = format!(r#"{{"type":"reasoning.text","signature":"{mark}"}}"#);
            seal = Some(format!("switchboard.c.{item}"));
        }
        let withheld = seal.is_some() && source.once_in(3);
        let text = if withheld {
            String::new()
        } else {
            source.mark()
        };
        Thought { text, seal }
    }

    fn call(&mut self) -> Call {
        let source = &mut *self.source;
        self.calls += 1;
        let number = self.calls;
        let id = match source.pick(6) {
            4 => format!("call_{number}_{}", "x".repeat(80)),
            5 if self.caller != Format::Anthropic => format!("c.{number}/ü:{number}"),
            _ if source.wrong_once_in(5) => "twice".to_owned(),
            _ => format!("call_{number}"),
        };
        let (name, custom) = if self.tools.is_empty() {
            (tool_name(source, self.caller), false)
        } else {
            let tool = source.one(self.tools);
            (tool.name, tool.custom)
        };
        let openai = matches!(self.caller, Format::Chat | Format::Responses);
        let arguments = match source.pick(5) {
            _ if custom => source.text(),
            0 if openai => String::new(),
            0 => "{}".to_owned(),
            1 if openai && source.once_in(3) => format!("[\"{}\"", source.mark()),
            _ => arguments(source),
        };
        let sealed =
            (self.caller == Format::Chat || self.caller == Format::Gemini) && source.once_in(3);
        let seal = sealed.then(|| match self.caller {
            Format::Chat => match source.once_in(2) {
                true => format!("switchboard.c.{}", source.mark()),
                false => source.mark(),
            },
            _ => seal(source, self.caller),
        });
        Call {
            id,
            name,
            arguments,
            custom,
            seal,
        }
    }

    fn given(&mut self, call: &Call) -> Given {
        let mut shown = Vec::new();
        for _ in 0..self.source.pick(3) {
            shown.push(Shown::Text(self.source.text()));
        }
        if self.caller != Format::Chat && self.source.once_in(6) {
            let data = data(self.source);
            shown.push(Shown::Image(Err(("image/png", data))));
        }
        let tells = matches!(self.caller, Format::Anthropic | Format::Gemini);
        Given {
            call: call.clone(),
            shown,
            failed: tells && self.source.once_in(4),
        }
    }
}

/// Arguments whose bytes must not change.
fn arguments(source: &mut Source) -> String {
    let (key, value, more) = (source.mark(), source.mark(), source.json(3));
    format!(r#"{{"{key}":"{value} é\"\\\n","big":9007199254740993,"more":{more}}}"#)
}

/// Base64.
fn data(source: &mut Source) -> String {
    // Letters alone: what it says in bytes is of no importance, its own text must come out.
    format!("{}{}", source.mark(), "AAAA".repeat(3))
}

/// A seal, its caller's dialect's own or marked for another.
fn seal(source: &mut Source, caller: Format) -> String {
    let mark = source.mark();
    let maker = match source.pick(5) {
        0 => return mark,
        1 => "a",
        2 => "r",
        3 => "g",
        _ => "c",
    };
    let own = match caller {
        Format::Chat => "c",
        Format::Responses => "r",
        Format::Anthropic => "a",
        Format::Gemini => "g",
    };
    match (maker == own, caller) {
        // One's own has no mark.
        (true, _) => mark,
        (false, Format::Gemini) => {
            let marked = format!("switchboard.{maker}.{mark}");
            base64::engine::general_purpose::STANDARD.encode(marked)
        }
        (false, _) => format!("switchboard.{maker}.{mark}"),
    }
}
