//! Every key of the language with its type, default and meaning, from the same description that the parser uses.

use crate::catalogue::Catalogue;
use crate::decode::Decode;

/// One key of the language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The section it stands in, e.g. `models[].targets[]`; empty at the top. `NAME` stands for a name you choose.
    pub section: String,
    /// The key.
    pub key: &'static str,
    /// What is written there.
    pub kind: String,
    /// The value or the meaning of an absent key; `required` if it must be there, empty if absence means nothing.
    pub default: String,
    /// Its meaning in one line.
    pub meaning: String,
    /// For which values it has no effect in this version and what happens instead, in a sentence, if there are any.
    pub no_effect: Option<String>,
}

impl Row {
    /// The key's path: section and key.
    pub fn path(&self) -> String {
        if self.section.is_empty() {
            self.key.to_owned()
        } else {
            format!("{}.{}", self.section, self.key)
        }
    }
}

/// Every key, sections before the sections inside them.
pub fn reference() -> Vec<Row> {
    let mut rows = Vec::new();
    Catalogue::rows("", &mut rows);
    rows
}

/// Adds a field's row, then the rows of what is inside.
pub(crate) fn push<T: Decode + serde::Serialize>(
    section: &str,
    key: &'static str,
    default: Option<T>,
    shown: Option<&'static str>,
    doc: &[&str],
    rows: &mut Vec<Row>,
) {
    let kind = T::kind();
    let default = match (shown, default) {
        (Some(shown), _) => shown.to_owned(),
        (None, Some(default)) => match serde_json::to_value(&default) {
            Ok(serde_json::Value::String(text)) => text,
            Ok(serde_json::Value::Object(_)) | Err(_) => String::new(),
            Ok(other) => other.to_string(),
        },
        (None, None) if T::absent().is_none() => "required".to_owned(),
        (None, None) => String::new(),
    };
    let mut row = Row {
        section: section.to_owned(),
        key,
        kind,
        default,
        meaning: doc
            .iter()
            .map(|line| line.trim())
            .collect::<Vec<_>>()
            .join(" "),
        no_effect: None,
    };
    let path = row.path();
    row.no_effect = crate::no_effect::remark(&path);
    rows.push(row);
    T::rows(&path, rows);
}
