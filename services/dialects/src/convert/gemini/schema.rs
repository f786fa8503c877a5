//! Google's schemas: a subset of OpenAPI's, with types in upper case. To all other dialects they are JSON Schema.

use std::borrow::Cow;

use crate::convert::fields::{Raw, Refusal};
use crate::convert::node::{Node, one_line};
use crate::json::Kind;

/// An OpenAPI schema as JSON Schema: types in lower case, `nullable` as a type (and as an `enum`'s and an `anyOf`'s member),
/// counts that are strings as numbers, `example` as `examples`, properties in the order that `propertyOrdering` demands.
/// What JSON Schema has too, and what is unknown, stays as it is.
pub(super) fn from_openapi<'a>(raw: &Raw<'a>) -> Result<Node<'a>, Box<Refusal>> {
    let mut fields = raw.fields()?;
    let nullable = fields
        .take("nullable")
        .is_some_and(|nullable| nullable.text == "true");
    let ordering = fields
        .take("propertyOrdering")
        .or_else(|| fields.take("property_ordering"));
    let mut out = Node::Object(Vec::new());
    for (key, value) in fields.rest() {
        let key = json_schema_name(&key);
        match (&*key, value.kind()) {
            ("type", Kind::String) => {
                let name = value.text()?.to_ascii_lowercase();
                if name != "type_unspecified" {
                    out.put("type", type_node(name, nullable));
                }
            }
            // It says no more than that there is an `enum`.
            ("format", Kind::String) if value.text()? == "enum" => {}
            ("properties", Kind::Object) => {
                out.put(key, properties(&value, ordering.as_ref())?);
            }
            ("$defs", Kind::Object) => out.put(key, properties(&value, None)?),
            ("items" | "additionalProperties", Kind::Object) => {
                out.put(key, from_openapi(&value)?);
            }
            ("anyOf", Kind::Array) => {
                let items = value.items()?;
                let mut any = items
                    .iter()
                    .map(from_openapi)
                    .collect::<Result<Vec<_>, _>>()?;
                if nullable {
                    any.push(Node::object([("type", Node::text("null"))]));
                }
                out.put(key, Node::Array(any));
            }
            ("enum", Kind::Array) if nullable => {
                let items = value.items()?;
                let mut names: Vec<_> = items
                    .iter()
                    .map(|item| Node::raw(one_line(item.text)))
                    .collect();
                names.push(Node::Null);
                out.put(key, Node::Array(names));
            }
            ("example", _) => out.put(
                "examples",
                Node::Array(vec![Node::raw(one_line(value.text))]),
            ),
            (
                "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties"
                | "maxProperties",
                Kind::String,
            ) => out.put(key, Node::raw(value.number_in_text()?)),
            _ => out.put(key, Node::raw(one_line(value.text))),
        }
    }
    // `nullable` beside an untyped schema says nothing: such a schema takes null already.
    Ok(out)
}

impl<'a> Raw<'a> {
    /// The whole number that a string says.
    fn number_in_text(&self) -> Result<Cow<'a, str>, Box<Refusal>> {
        let text = self.text()?;
        match crate::json::whole_number(&text) {
            Some(_) => Ok(text),
            None => Err(self.wrong("a whole number, not negative")),
        }
    }
}

fn type_node<'a>(name: String, nullable: bool) -> Node<'a> {
    if nullable && name != "null" {
        Node::Array(vec![Node::text(name), Node::text("null")])
    } else {
        Node::text(name)
    }
}

fn properties<'a>(raw: &Raw<'a>, ordering: Option<&Raw<'a>>) -> Result<Node<'a>, Box<Refusal>> {
    let mut fields = raw.fields()?;
    let mut out = Vec::new();
    let order = ordering.map(Raw::items).transpose()?.unwrap_or_default();
    for name in &order {
        let name = name.text()?;
        if let Some(value) = fields.take(&name) {
            out.push((name, from_openapi(&value)?));
        }
    }
    for (name, value) in fields.rest() {
        out.push((name, from_openapi(&value)?));
    }
    Ok(Node::Object(out))
}

/// The name in JSON Schema of a member of a schema under either of Google's names.
fn json_schema_name<'a>(name: &str) -> Cow<'a, str> {
    Cow::Owned(
        match name {
            "any_of" => "anyOf",
            "min_items" => "minItems",
            "max_items" => "maxItems",
            "min_length" => "minLength",
            "max_length" => "maxLength",
            "min_properties" => "minProperties",
            "max_properties" => "maxProperties",
            "additional_properties" => "additionalProperties",
            "defs" => "$defs",
            "ref" => "$ref",
            other => other,
        }
        .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn googles_schemas_become_json_schema() {
        let raw = Raw::body(
            r#"{"type":"OBJECT","propertyOrdering":["b","a"],"properties":{"a":{"type":"STRING","nullable":true,"enum":["x"],"format":"enum"},"b":{"type":"ARRAY","minItems":"1","items":{"type":"INTEGER","maximum":1e2}},"c":{"anyOf":[{"type":"STRING"},{"type":"NUMBER"}],"nullable":true,"example":5}},"required":["a"]}"#,
        );
        assert_eq!(
            from_openapi(&raw).unwrap().render(),
            r#"{"type":"object","properties":{"b":{"type":"array","minItems":1,"items":{"type":"integer","maximum":1e2}},"a":{"type":["string","null"],"enum":["x",null]},"c":{"anyOf":[{"type":"string"},{"type":"number"},{"type":"null"}],"examples":[5]}},"required":["a"]}"#
        );
    }

    #[test]
    fn json_schema_stays_what_it_is() {
        let text = r#"{"type":["string","null"],"$ref":"x","x-unknown":{"TYPE":1}}"#;
        assert_eq!(from_openapi(&Raw::body(text)).unwrap().render(), text);
    }
}
