//! The tools of a chat request, and which of them may be called.

use std::borrow::Cow;

use crate::convert::fields::{Fields, Raw, Refusal};

/// A tool.
#[derive(Debug)]
pub(crate) enum Tool<'a> {
    /// Takes JSON.
    Function {
        /// Its name.
        name: Cow<'a, str>,
        /// What it does, a string.
        description: Option<Raw<'a>>,
        /// The schema of its arguments; it takes none where it is absent.
        parameters: Option<Raw<'a>>,
        /// Whether arguments keep to the schema exactly, where it says.
        strict: Option<bool>,
        /// It was given as one of `functions`.
        older: bool,
        /// Where it stands.
        path: String,
        /// All else, of the tool (`cache_control`) and of its function.
        rest: [Fields<'a>; 2],
    },
    /// Takes free text.
    Custom {
        /// Its name.
        name: Cow<'a, str>,
        /// What it does, a string.
        description: Option<Raw<'a>>,
        /// The form of its input: `{type:"text"}` or a grammar, as chat has it.
        format: Option<Raw<'a>>,
        /// All else, of the tool and of what is inside `custom`.
        rest: [Fields<'a>; 2],
    },
    /// Of a type that OpenAI's chat does not know: some upstreams run tools of their own.
    Other {
        /// Its type.
        kind: Cow<'a, str>,
        /// Where it stands.
        path: String,
    },
}

/// `tool_choice`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Choice<'a> {
    /// No tool is called.
    None,
    /// The model decides.
    Auto,
    /// Some tool is called.
    Required,
    /// This one is called.
    Tool(Named<'a>),
    /// Of these tools some may be called.
    Allowed {
        /// One of them must be.
        required: bool,
        /// These.
        tools: Vec<Named<'a>>,
    },
}

/// A tool by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    /// Its name.
    pub(crate) name: Cow<'a, str>,
    /// It takes free text.
    pub(crate) custom: bool,
}

impl Tool<'_> {
    /// Whether it was given as one of `functions`.
    pub(super) const fn is_older(&self) -> bool {
        matches!(self, Self::Function { older: true, .. })
    }
}

/// Every tool that is chosen is declared.
pub(super) fn declared(
    choice: Option<&Choice<'_>>,
    tools: &[Tool<'_>],
) -> Result<(), Box<Refusal>> {
    let none = tools.is_empty();
    let chosen = match choice {
        Some(Choice::Required) if none => {
            let expected = "tools beside it, of which one is to be called";
            return Err(Refusal::invalid("tool_choice", expected));
        }
        Some(Choice::Tool(named)) => std::slice::from_ref(named),
        Some(Choice::Allowed { tools, .. }) => tools,
        _ => &[],
    };
    let declares = |name: &str| {
        tools.iter().any(|tool| match tool {
            Tool::Function { name: known, .. } | Tool::Custom { name: known, .. } => known == name,
            Tool::Other { .. } => false,
        })
    };
    match chosen.iter().all(|named| declares(&named.name)) {
        true => Ok(()),
        false => Err(Refusal::invalid(
            "tool_choice",
            "names of tools that are declared",
        )),
    }
}

/// Reads `tools` and `functions`.
pub(super) fn read_tools<'a>(fields: &mut Fields<'a>) -> Result<Vec<Tool<'a>>, Box<Refusal>> {
    let mut tools = Vec::new();
    for item in fields.items("tools")? {
        tools.push(read_tool(&item)?);
    }
    for item in fields.items("functions")? {
        let outer = Raw::body("{}").fields()?;
        tools.push(read_function(
            item.path.clone(),
            outer,
            item.fields()?,
            true,
        )?);
    }
    Ok(tools)
}

fn read_tool<'a>(item: &Raw<'a>) -> Result<Tool<'a>, Box<Refusal>> {
    let mut outer = item.fields()?;
    let path = item.path.clone();
    let kind = outer.need("type", "`function` or `custom`")?.text()?;
    match &*kind {
        "function" => {
            let inner = outer.need("function", "an object")?.fields()?;
            read_function(path, outer, inner, false)
        }
        "custom" => {
            let mut inner = outer.need("custom", "an object")?.fields()?;
            Ok(Tool::Custom {
                name: inner.filled("name", "the tool's name")?,
                description: inner.take("description"),
                format: inner.take("format"),
                rest: [outer, inner],
            })
        }
        _ => Ok(Tool::Other { kind, path }),
    }
}

fn read_function<'a>(
    path: String,
    outer: Fields<'a>,
    mut inner: Fields<'a>,
    older: bool,
) -> Result<Tool<'a>, Box<Refusal>> {
    Ok(Tool::Function {
        name: inner.filled("name", "the function's name")?,
        description: inner.take("description"),
        parameters: inner.object("parameters")?,
        strict: inner.boolean("strict")?,
        older,
        path,
        rest: [outer, inner],
    })
}

/// Reads `tool_choice`, or the older `function_call`.
pub(super) fn read_choice<'a>(fields: &mut Fields<'a>) -> Result<Option<Choice<'a>>, Box<Refusal>> {
    let older = fields.take("function_call");
    let Some(raw) = fields.take("tool_choice").or(older) else {
        return Ok(None);
    };
    let expected = "`none`, `auto`, `required`, or an object that names tools";
    if let Some(word) = raw.as_text() {
        return match &*word {
            "none" => Ok(Some(Choice::None)),
            "auto" => Ok(Some(Choice::Auto)),
            "required" => Ok(Some(Choice::Required)),
            _ => Err(Refusal::invalid(raw.path, expected)),
        };
    }
    let mut choice = raw.fields().map_err(|_| raw.wrong(expected))?;
    if choice.text("type")?.as_deref() != Some("allowed_tools") {
        return Ok(Some(Choice::Tool(read_named(&raw, fields)?)));
    }
    // Some clients leave the inner object out.
    let inner = choice.fields("allowed_tools")?;
    let mut allowed = match inner {
        Some(inner) => {
            fields.absorb(choice);
            inner
        }
        None => choice,
    };
    let mode = allowed.take("mode");
    let required = match mode.as_ref().map(Raw::text).transpose()?.as_deref() {
        None | Some("auto") => false,
        Some("required") => true,
        Some(_) => {
            let path = mode.map(|mode| mode.path).unwrap_or_default();
            return Err(Refusal::invalid(path, "`auto` or `required`"));
        }
    };
    let mut tools = Vec::new();
    for raw in allowed.items("tools")? {
        tools.push(read_named(&raw, fields)?);
    }
    if tools.is_empty() {
        return Err(Refusal::invalid(
            allowed.path("tools"),
            "tools, one at least",
        ));
    }
    fields.absorb(allowed);
    Ok(Some(Choice::Allowed { required, tools }))
}

/// `{type, function: {name}}`, `{type, custom: {name}}`, or `{name}` alone.
fn read_named<'a>(raw: &Raw<'a>, body: &mut Fields<'a>) -> Result<Named<'a>, Box<Refusal>> {
    let mut outer = raw.fields()?;
    let kind = outer.text("type")?;
    let custom = outer.has("custom") || kind.as_deref() == Some("custom");
    let inner = if custom { "custom" } else { "function" };
    let mut named = if outer.has(inner) {
        let inner = outer.need(inner, "an object")?.fields()?;
        body.absorb(outer);
        inner
    } else {
        outer
    };
    let name = named.filled("name", "a tool's name")?;
    body.absorb(named);
    Ok(Named { name, custom })
}
