//! How settings are put together (OPS-1): documented defaults < file < environment < flags. Unknown keys are errors.
//!
//! In the environment only names with `__` are settings (`SWITCHBOARD_DATABASE__URL` is `database.url`,
//! `SWITCHBOARD__DATA_DIR` is `data_dir`): orchestrators inject other names with our prefix. `_` there stands for `-` too. What the settings are is each role's business.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The prefix of settings in the environment.
pub const ENV_PREFIX: &str = "SWITCHBOARD_";

/// Why settings do not hold.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file.
    #[error("settings file {file}: {message}")]
    File {
        /// Its name.
        file: String,
        /// What is wrong, with line and column.
        message: String,
    },
    /// One variable or flag.
    #[error("{source_name}: {message}")]
    Value {
        /// The variable's or flag's name.
        source_name: String,
        /// What is wrong.
        message: String,
    },
}

/// One value from the environment or a flag.
#[derive(Clone, Debug)]
pub struct Override {
    /// What to call it in an error.
    pub source_name: String,
    /// The setting's path.
    pub path: Vec<String>,
    /// The text.
    pub value: String,
}

impl Override {
    /// A flag that sets `path` (dots between parts).
    #[must_use]
    pub fn flag(name: &str, path: &str, value: impl Into<String>) -> Self {
        Self {
            source_name: name.to_owned(),
            path: path.split('.').map(str::to_owned).collect(),
            value: value.into(),
        }
    }

    /// The settings among environment variables.
    pub fn from_env(variables: impl IntoIterator<Item = (String, String)>) -> Vec<Self> {
        let mut found: Vec<_> = variables
            .into_iter()
            .filter_map(|(name, value)| {
                let rest = name.strip_prefix(ENV_PREFIX)?;
                // A second underscore right after the prefix: a setting that stands in no section.
                let is_setting = rest.contains("__") || rest.starts_with('_');
                let rest = rest.strip_prefix('_').unwrap_or(rest);
                let path = rest.split("__").map(str::to_ascii_lowercase).collect();
                is_setting.then_some(Self {
                    path,
                    source_name: name,
                    value,
                })
            })
            .collect();
        found.sort_by(|a, b| a.source_name.cmp(&b.source_name));
        found
    }
}

/// Puts settings together. `file` is a name and a text.
///
/// # Errors
/// The first thing that is wrong, with where it stands.
pub fn load<T>(file: Option<(&str, &str)>, overrides: &[Override]) -> Result<T, Error>
where
    T: DeserializeOwned + Serialize + Default,
{
    let mut settings = match file {
        Some((name, text)) if !text.trim().is_empty() => serde_saphyr::from_str::<T>(text)
            .map_err(|error| Error::File {
                file: name.to_owned(),
                message: error.to_string(),
            })?,
        _ => T::default(),
    };
    for entry in overrides {
        settings = apply(&settings, entry)?;
    }
    Ok(settings)
}

fn apply<T: DeserializeOwned + Serialize>(settings: &T, entry: &Override) -> Result<T, Error> {
    let wrong = |message: String| Error::Value {
        source_name: entry.source_name.clone(),
        message,
    };
    let base = serde_json::to_value(settings).map_err(|error| wrong(error.to_string()))?;
    // A text that looks like JSON may be meant as such (numbers, booleans, lists) or as a text (a password of digits).
    let meanings = [
        serde_json::from_str::<Value>(&entry.value).ok(),
        Some(Value::String(entry.value.clone())),
        Some(Value::Array(
            entry
                .value
                .split(',')
                .map(|part| Value::String(part.trim().to_owned()))
                .collect(),
        )),
    ];
    // What says what was expected of a text helps more than that it is no number.
    let says_little = |error: &str| error.starts_with("invalid type");
    let mut said: Option<String> = None;
    for meaning in meanings.into_iter().flatten() {
        let mut tree = base.clone();
        set(&mut tree, &entry.path, meaning);
        match serde_json::from_value(tree) {
            Ok(settings) => return Ok(settings),
            Err(error) => {
                let error = error.to_string();
                match &said {
                    Some(before) if !says_little(before) || says_little(&error) => {}
                    _ => said = Some(error),
                }
            }
        }
    }
    Err(wrong(said.unwrap_or_default()))
}

fn set(tree: &mut Value, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *tree = value;
        return;
    };
    if !tree.is_object() {
        *tree = Value::Object(Map::new());
    }
    if let Some(map) = tree.as_object_mut() {
        let dashed = first.replace('_', "-");
        let known = !map.contains_key(first) && map.contains_key(&dashed);
        let key = if known { dashed } else { first.clone() };
        set(map.entry(key).or_insert(Value::Null), rest, value);
    }
}

/// Durations as texts: `250ms`, `10s`, `15m`, `6h`, `7d`. For `#[serde(with = …)]`.
pub mod duration {
    use std::time::Duration;

    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    /// Writes the largest unit that is exact.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&render(*value))
    }

    /// Reads a number and a unit.
    ///
    /// # Errors
    /// Anything else.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).ok_or_else(|| {
            D::Error::custom(format!(
                "`{text}` is no duration; expected a whole number and a unit, such as 250ms, 10s, 15m, 6h or 7d"
            ))
        })
    }

    /// A whole number and a unit; a bare `0` too.
    #[must_use]
    pub fn parse(text: &str) -> Option<Duration> {
        if text == "0" {
            return Some(Duration::ZERO);
        }
        let split = text.find(|c: char| !c.is_ascii_digit())?;
        let (digits, unit) = text.split_at(split);
        let value = digits.parse::<u64>().ok()?;
        let millis = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        value.checked_mul(millis).map(Duration::from_millis)
    }

    /// The largest unit that is exact.
    #[must_use]
    pub fn render(value: Duration) -> String {
        let millis = value.as_millis();
        for (unit, size) in [
            ("d", 86_400_000),
            ("h", 3_600_000),
            ("m", 60_000),
            ("s", 1_000),
        ] {
            if millis > 0 && millis.is_multiple_of(size) {
                return format!("{}{unit}", millis / size);
            }
        }
        format!("{millis}ms")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Settings {
        database: Store,
        peers: Vec<String>,
        depth: u32,
        #[serde(rename = "token-refresh")]
        token_refresh: Store,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Store {
        url: String,
        #[serde(with = "duration")]
        patience: Duration,
    }

    fn env(pairs: &[(&str, &str)]) -> Vec<Override> {
        Override::from_env(
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        )
    }

    #[test]
    fn flags_beat_the_environment_which_beats_the_file() {
        let file = "database:\n  url: a\n  patience: 250ms\ndepth: 1\n";
        let mut overrides = env(&[
            ("SWITCHBOARD_DATABASE__URL", "12345"),
            ("SWITCHBOARD_PEERS__", "ignored"),
            ("SWITCHBOARD_TOKEN", "not a setting"),
            ("SWITCHBOARD_SERVICE_HOST", "10.0.0.1"),
        ]);
        overrides.retain(|entry| entry.source_name != "SWITCHBOARD_PEERS__");
        overrides.push(Override::flag("--peers", "peers", "a:1, b:2"));
        let settings: Settings = load(Some(("s.yaml", file)), &overrides).unwrap();
        assert_eq!(settings.database.url, "12345");
        assert_eq!(settings.database.patience, Duration::from_millis(250));
        assert_eq!(settings.peers, ["a:1", "b:2"]);
        assert_eq!(settings.depth, 1);
    }

    #[test]
    fn the_environment_reaches_the_top_level_and_names_with_dashes() {
        let overrides = env(&[
            ("SWITCHBOARD__DEPTH", "7"),
            ("SWITCHBOARD_TOKEN_REFRESH__URL", "x"),
        ]);
        let settings: Settings = load(None, &overrides).unwrap();
        assert_eq!(settings.depth, 7);
        assert_eq!(settings.token_refresh.url, "x");
    }

    #[test]
    fn an_unknown_key_is_named_with_its_place() {
        let error = load::<Settings>(Some(("s.yaml", "database:\n  ulr: a\n")), &[]).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("s.yaml") && text.contains("ulr") && text.contains("line 2"),
            "{text}"
        );
        let error = load::<Settings>(None, &env(&[("SWITCHBOARD_DATABASE__ULR", "a")]));
        let text = error.unwrap_err().to_string();
        assert!(
            text.contains("SWITCHBOARD_DATABASE__ULR") && text.contains("ulr"),
            "{text}"
        );
    }

    #[test]
    fn a_duration_without_its_unit_is_told_what_was_expected() {
        let given = env(&[("SWITCHBOARD_DATABASE__PATIENCE", "5")]);
        let error = load::<Settings>(None, &given).unwrap_err();
        assert_eq!(
            error.to_string(),
            "SWITCHBOARD_DATABASE__PATIENCE: `5` is no duration; expected a whole number and a unit, such as 250ms, 10s, 15m, 6h or 7d"
        );
        let given = env(&[("SWITCHBOARD__DEPTH", "x")]);
        let error = load::<Settings>(None, &given).unwrap_err();
        assert!(
            error.to_string().contains("string \"x\", expected u32"),
            "{error}"
        );
    }

    #[test]
    fn durations_read_as_they_are_written() {
        for (text, millis) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("15m", 900_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(duration::parse(text), Some(Duration::from_millis(millis)));
            assert_eq!(duration::render(Duration::from_millis(millis)), text);
        }
        for wrong in [
            "",
            "10",
            "s",
            "1.5s",
            "10 s",
            "-1s",
            "99999999999999999999s",
        ] {
            assert_eq!(duration::parse(wrong), None, "{wrong}");
        }
    }
}
