//! What serde says of JSON that ours made.

use serde::de::IgnoredAny;
use serde_json::Value;

/// Whether `bytes` are JSON by its grammar alone: numbers of any size, halves of surrogates.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Asserts that it is.
pub(crate) fn assert_json(bytes: &[u8], what: &str) {
    assert!(is_json(bytes), "{what} is no JSON: {}", text(bytes));
}

/// Asserts that nothing of an object changed but the members of these names. What serde cannot hold (a number beyond
/// `f64`, half a surrogate) is not compared.
pub(crate) fn assert_same_but(before: &[u8], after: &[u8], names: &[&str]) {
    let Ok(mut before) = serde_json::from_slice::<Value>(before) else {
        return;
    };
    let mut after: Value = serde_json::from_slice(after).expect("what could be read still can");
    for value in [&mut before, &mut after] {
        if let Value::Object(members) = value {
            for name in names {
                members.remove(*name);
            }
        }
    }
    assert_eq!(before, after, "something else changed");
}

/// For messages.
pub(crate) fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}
