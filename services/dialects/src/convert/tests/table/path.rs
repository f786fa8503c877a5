//! Paths of members: `messages[user].content[text].text`. In brackets stands the kind of an object: its `type`, else its
//! `role`; nothing where it has neither. In a pattern `[]` is any kind, `[a, b]` is one of these, and `[*]` is any kind
//! for which there is no row.

use serde_json::Value;

use crate::convert::Format;

/// A step to a member or to the value at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Member(String),
    Item(usize),
}

/// A name, and the kind of what stands there if it is an object that has one, or an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) name: String,
    pub(super) kind: Option<String>,
}

/// Where a member stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) segments: Vec<Segment>,
    pub(super) steps: Vec<Step>,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, segment) in self.segments.iter().enumerate() {
            let dot = if index == 0 { "" } else { "." };
            write!(f, "{dot}{}", segment.name)?;
            if let Some(kind) = &segment.kind {
                write!(f, "[{kind}]")?;
            }
        }
        Ok(())
    }
}

/// What a pattern asks of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kinds {
    Any,
    Other,
    Of(Vec<String>),
}

/// A row's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<(String, Option<Kinds>)>);

impl Pattern {
    pub(super) fn read(text: &str) -> Self {
        let mut segments = Vec::new();
        let mut left = text;
        while !left.is_empty() {
            let end = left.find(['.', '[']).unwrap_or(left.len());
            let (name, after) = left.split_at(end);
            let (kinds, after) = match after.strip_prefix('[') {
                None => (None, after),
                Some(inner) => {
                    let (kinds, after) = inner.split_once(']').expect("a closing bracket");
                    let kinds = match kinds {
                        "" => Kinds::Any,
                        "*" => Kinds::Other,
                        list => Kinds::Of(list.split(", ").map(str::to_owned).collect()),
                    };
                    (Some(kinds), after)
                }
            };
            segments.push((name.to_owned(), kinds));
            left = after.strip_prefix('.').unwrap_or(after);
        }
        Self(segments)
    }

    /// It is for what is of no kind that has a row.
    pub(super) fn is_for_others(&self) -> bool {
        self.0.iter().any(|(_, kinds)| *kinds == Some(Kinds::Other))
    }

    fn begins_as(&self, place: &[Segment]) -> bool {
        self.0.len() >= place.len()
            && self
                .0
                .iter()
                .zip(place)
                .all(|(own, other)| fits(own, other))
    }

    pub(super) fn is(&self, place: &[Segment]) -> bool {
        self.0.len() == place.len() && self.begins_as(place)
    }

    /// It is a place within that one.
    pub(super) fn is_within(&self, place: &[Segment]) -> bool {
        if self.0.len() > place.len() && self.begins_as(place) {
            return true;
        }
        let Some((last, before)) = place.split_last() else {
            return true;
        };
        let item = self.0.get(before.len());
        let item = item.is_some_and(|(name, kinds)| *name == last.name && kinds.is_some());
        last.kind.is_none() && item && self.begins_as(before)
    }
}

fn fits((name, kinds): &(String, Option<Kinds>), segment: &Segment) -> bool {
    *name == segment.name
        && match (kinds, &segment.kind) {
            (None, None) | (Some(Kinds::Any | Kinds::Other), Some(_)) => true,
            (Some(Kinds::Of(kinds)), Some(kind)) => kinds.contains(kind),
            _ => false,
        }
}

/// What JSON Schema has as `type`; it says nothing of what stands there in a dialect.
const OF_SCHEMAS: [&str; 7] = [
    "object", "array", "string", "number", "integer", "boolean", "null",
];

/// The kind of an object.
pub(super) fn kind(format: Format, value: &Value) -> Option<&str> {
    let word = |name: &str| value.get(name).and_then(Value::as_str);
    if word("type").is_some_and(|word| OF_SCHEMAS.contains(&word)) {
        return None;
    }
    match format {
        Format::Gemini => None,
        Format::Responses => word("type").or(word("role").map(|_| "message")),
        Format::Anthropic if value.get("input_schema").is_some() => word("type").or(Some("custom")),
        Format::Chat | Format::Anthropic => word("type").or(word("role")),
    }
}

/// The kind of a member. Google takes one object where a list is asked for: it is an item.
fn kind_of(format: Format, name: &str, value: &Value) -> Option<String> {
    const LISTS: [&str; 4] = ["contents", "parts", "tools", "functionDeclarations"];
    if format == Format::Gemini && value.is_object() && LISTS.contains(&name) {
        return Some(String::new());
    }
    kind(format, value).map(str::to_owned)
}

/// Google's JSON name of a member, which may be written as its proto has it.
pub(super) fn name_of(format: Format, name: &str) -> String {
    if format != Format::Gemini {
        return name.to_owned();
    }
    let start = name.len() - name.trim_start_matches('_').len();
    let (mut out, mut pieces) = (name[..start].to_owned(), name[start..].split('_'));
    out.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let mut letters = piece.chars();
        out.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        out.push_str(letters.as_str());
    }
    out
}

/// The place of a path with numbers in brackets (`messages[0].content[1].text`) in a document; its last member may be absent there.
pub(super) fn locate(format: Format, document: &Value, path: &str) -> Place {
    let mut place = Place::default();
    let mut at = document;
    for member in path.split('.') {
        let (name, index) = match member.split_once('[') {
            Some((name, index)) => (name, Some(index.trim_end_matches(']'))),
            None => (member, None),
        };
        place.steps.push(Step::Member(name.to_owned()));
        at = at.get(name).unwrap_or(&Value::Null);
        let mut of = kind_of(format, name, at);
        if let Some(index) = index.and_then(|index| index.parse::<usize>().ok()) {
            place.steps.push(Step::Item(index));
            at = at.get(index).unwrap_or(&Value::Null);
            of = Some(kind(format, at).unwrap_or_default().to_owned());
        }
        place.segments.push(Segment {
            name: name_of(format, name),
            kind: of,
        });
    }
    place
}

/// What a row is for, at one place of a document.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) place: Place,
    /// The row, unless there is none.
    pub(super) row: Option<usize>,
}

/// Finds all members of a document, down to those of which a row speaks as a whole.
pub(super) fn members(format: Format, rows: &[Pattern], document: &Value) -> Vec<Found> {
    let mut found = Vec::new();
    descend(format, rows, document, &Place::default(), &mut found);
    found
}

/// The row of a place.
pub(super) fn row_of(rows: &[Pattern], place: &[Segment]) -> Option<usize> {
    let is = |row: &Pattern| row.is(place);
    let exact = rows.iter().position(|row| !row.is_for_others() && is(row));
    exact.or_else(|| rows.iter().position(is))
}

/// Whether rows speak of what is within a place.
pub(super) fn is_divided(rows: &[Pattern], place: &[Segment]) -> bool {
    let within = |row: &Pattern| !row.is_for_others() && row.is_within(place);
    rows.iter().any(within)
}

fn visit(format: Format, rows: &[Pattern], value: &Value, place: Place, found: &mut Vec<Found>) {
    let container = match value {
        Value::Object(_) => true,
        Value::Array(items) => items.is_empty() || items.iter().any(Value::is_object),
        _ => false,
    };
    let others = || {
        let of_items = |row: &Pattern| {
            row.is_for_others() && value.is_array() && row.is_within(&place.segments)
        };
        rows.iter().any(of_items)
    };
    let row = row_of(rows, &place.segments);
    if container && (is_divided(rows, &place.segments) || others()) {
        descend(format, rows, value, &place, found);
        // A kind that says something by itself.
        let kind = place.segments.last().and_then(|last| last.kind.as_deref());
        let own = row.is_some_and(|row| !rows[row].is_for_others());
        if !own || kind.is_none_or(str::is_empty) {
            return;
        }
    }
    found.push(Found { place, row });
}

fn descend(format: Format, rows: &[Pattern], value: &Value, at: &Place, found: &mut Vec<Found>) {
    if let Some(items) = value.as_array() {
        for (index, item) in items.iter().enumerate() {
            let mut place = at.clone();
            place.steps.push(Step::Item(index));
            if let Some(last) = place.segments.last_mut() {
                last.kind = Some(kind(format, item).unwrap_or_default().to_owned());
            }
            visit(format, rows, item, place, found);
        }
    }
    for (name, member) in value.as_object().into_iter().flatten() {
        let told = match &**name {
            "type" => kind(format, value) == member.as_str(),
            "role" => at.segments.last().and_then(|own| own.kind.as_deref()) == member.as_str(),
            _ => false,
        };
        if told || member.is_null() {
            continue;
        }
        let mut place = at.clone();
        place.steps.push(Step::Member(name.clone()));
        place.segments.push(Segment {
            name: name_of(format, name),
            kind: kind_of(format, name, member),
        });
        visit(format, rows, member, place, found);
    }
}

/// The value at a place.
pub(super) fn at<'v>(document: &'v Value, steps: &[Step]) -> Option<&'v Value> {
    steps.iter().try_fold(document, |value, step| match step {
        Step::Member(name) => value.get(name),
        Step::Item(index) => value.get(index),
    })
}

/// The document without what stands at a place.
pub(super) fn without(document: &Value, steps: &[Step]) -> Value {
    let mut changed = document.clone();
    edit(&mut changed, steps, None);
    changed
}

/// The document with another value at a place.
pub(super) fn with(document: &Value, steps: &[Step], value: Value) -> Value {
    let mut changed = document.clone();
    edit(&mut changed, steps, Some(value));
    changed
}

fn edit(document: &mut Value, steps: &[Step], value: Option<Value>) {
    let Some((last, before)) = steps.split_last() else {
        return;
    };
    let mut at = document;
    for step in before {
        at = match step {
            Step::Member(name) => &mut at[name],
            Step::Item(index) => &mut at[index],
        };
    }
    match (last, value) {
        (Step::Member(name), Some(value)) => at[name] = value,
        (Step::Item(index), Some(value)) => at[*index] = value,
        (Step::Member(name), None) => drop(at.as_object_mut().and_then(|all| all.remove(name))),
        (Step::Item(index), None) => drop(at.as_array_mut().map(|all| all.remove(*index))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_found_down_to_the_rows() {
        let rows: Vec<_> = [
            "n",
            "messages[].name",
            "messages[user].content[text].text",
            "messages[user].content",
            "tools[*]",
            "tools[function].function.parameters",
            "messages[user].content[image, file].x",
        ]
        .map(Pattern::read)
        .into();
        let document = json!({"n": 1, "novel": {"x": 1}, "messages": [
            {"role": "user", "name": "a", "content": "x"},
            {"role": "user", "content": [{"type": "text", "text": "t", "more": null}, {"type": "file", "x": 2}, {"type": "audio"}]}],
            "tools": [{"type": "search"}, {"type": "function", "function": {"parameters": {"type": "object"}, "odd": 1}}]});
        let found = members(Format::Chat, &rows, &document);
        let said: Vec<_> = found
            .iter()
            .map(|found| (found.place.to_string(), found.row))
            .collect();
        let expected = [
            ("messages[user].content", Some(3)),
            ("messages[user].name", Some(1)),
            ("messages[user].content[text].text", Some(2)),
            ("messages[user].content[file].x", Some(6)),
            ("messages[user].content[audio]", None),
            ("n", Some(0)),
            ("novel", None),
            ("tools[search]", Some(4)),
            ("tools[function].function.odd", None),
            ("tools[function].function.parameters", Some(5)),
        ];
        let expected: Vec<_> = expected.map(|(path, row)| (path.to_owned(), row)).into();
        assert_eq!(said, expected);
        let place = locate(Format::Chat, &document, "messages[1].content[0].more");
        assert_eq!(place.to_string(), "messages[user].content[text].more");
    }
}
