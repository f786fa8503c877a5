//! `tools` and `toolConfig`.

use std::borrow::Cow;

use super::plain;
use crate::convert::fields::{Fields, Raw, Refusal};
use crate::convert::gemini::members::Members;
use crate::convert::gemini::schema;
use crate::convert::node::Node;

/// A function that may be called.
#[derive(Debug)]
pub(crate) struct Function<'a> {
    /// Its name.
    pub(crate) name: Cow<'a, str>,
    /// What it does.
    pub(crate) description: Option<Cow<'a, str>>,
    /// The JSON Schema of its arguments; absent where it has none.
    pub(crate) parameters: Option<Node<'a>>,
}

/// Which functions may or must be called.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Choice<'a> {
    /// May or must.
    pub(crate) mode: Mode,
    /// Only these, where any are named.
    pub(crate) allowed: Vec<Cow<'a, str>>,
    /// Where that stands.
    pub(crate) path: String,
}

/// Whether functions may or must be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The model decides.
    Auto,
    /// One must be.
    Any,
    /// None may be.
    None,
    /// The model decides; calls keep to the schema.
    Validated,
}

/// Takes the functions of a request.
pub(super) fn functions<'a>(
    body: &mut Members<'a>,
    rest: &mut Vec<Fields<'a>>,
) -> Result<Vec<Function<'a>>, Box<Refusal>> {
    let mut functions = Vec::new();
    for tool in body.each("tools")? {
        let mut tool = Members(tool.fields()?);
        for declaration in tool.each("functionDeclarations")? {
            functions.push(function(&declaration, rest)?);
        }
        // All else of a tool is one that Google runs.
        if let Some((_, hosted)) = tool.0.rest().next() {
            return Err(Refusal::unsupported(
                hosted.path,
                "it is a tool that Google runs; only function declarations are translated",
            ));
        }
    }
    Ok(functions)
}

fn function<'a>(raw: &Raw<'a>, rest: &mut Vec<Fields<'a>>) -> Result<Function<'a>, Box<Refusal>> {
    let mut fields = Members(raw.fields()?);
    let name = fields.0.filled("name", "a string")?;
    let description = fields.text("description")?;
    let json = fields.take("parametersJsonSchema");
    let json = json.map(Raw::object).transpose()?;
    let parameters = match json {
        Some(raw) => Some(plain(&raw)),
        None => fields
            .take("parameters")
            .map(Raw::object)
            .transpose()?
            .map(|raw| schema::from_openapi(&raw))
            .transpose()?,
    };
    rest.push(fields.0);
    Ok(Function {
        name,
        description,
        parameters,
    })
}

/// Takes the choice of a request.
pub(super) fn choice<'a>(
    body: &mut Members<'a>,
    functions: &[Function<'a>],
    rest: &mut Vec<Fields<'a>>,
) -> Result<Choice<'a>, Box<Refusal>> {
    let mut choice = Choice {
        mode: Mode::Auto,
        allowed: Vec::new(),
        path: String::new(),
    };
    let Some(mut config) = body.object("toolConfig")? else {
        return Ok(choice);
    };
    if let Some(mut calling) = config.object("functionCallingConfig")? {
        choice.path = calling.0.path("mode");
        if let Some(mode) = calling.take("mode") {
            choice.mode = match mode.text()?.to_ascii_uppercase().as_str() {
                "AUTO" | "MODE_UNSPECIFIED" => Mode::Auto,
                "ANY" => Mode::Any,
                "NONE" => Mode::None,
                "VALIDATED" => Mode::Validated,
                _ => {
                    return Err(Refusal::invalid(
                        mode.path,
                        "`AUTO`, `ANY`, `NONE` or `VALIDATED`",
                    ));
                }
            };
        }
        if choice.mode == Mode::Any && functions.is_empty() {
            let expected = "functions beside it, of which one is to be called";
            return Err(Refusal::invalid(choice.path, expected));
        }
        let path = calling.0.path("allowedFunctionNames");
        choice.allowed = calling.texts("allowedFunctionNames")?;
        for name in &choice.allowed {
            if !functions.iter().any(|function| function.name == *name) {
                return Err(Refusal::invalid(
                    path,
                    "names of functions that are declared",
                ));
            }
        }
        rest.push(calling.0);
    }
    rest.push(config.0);
    Ok(choice)
}
