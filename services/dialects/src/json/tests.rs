use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value as Tree;

use super::*;

fn scan(text: &str) -> Result<Value, JsonError> {
    let mut cursor = Cursor::new(text);
    let value = cursor.skip()?;
    cursor.end()?;
    Ok(value)
}

/// All members of the top-level object, read through the scanner.
fn members(text: &str) -> Vec<(String, String)> {
    let mut cursor = Cursor::new(text);
    cursor.enter_object().unwrap();
    let mut first = true;
    let mut out = Vec::new();
    while let Some(key) = cursor.next_key(&mut first).unwrap() {
        let value = cursor.skip().unwrap();
        out.push((
            key.decode(text).into_owned(),
            value.span.of(text).to_owned(),
        ));
    }
    cursor.end().unwrap();
    out
}

#[test]
fn ranges_are_exact_and_white_space_is_not_part_of_them() {
    let text = " {\"a\" : [1, {\"b\":\"}\\\"\"}] ,\n\"mod\\u0065l\":\t\"x\" , \"n\": -1.50e+3 } ";
    let got = members(text);
    let want = [
        ("a", "[1, {\"b\":\"}\\\"\"}]"),
        ("model", "\"x\""),
        ("n", "-1.50e+3"),
    ];
    assert_eq!(got.len(), want.len());
    for ((key, value), (want_key, want_value)) in got.iter().zip(want) {
        assert_eq!((key.as_str(), value.as_str()), (want_key, want_value));
    }
}

#[test]
fn refuses_what_is_not_json() {
    for bad in [
        "",
        " ",
        "{",
        "[",
        "\"",
        "\"\\",
        "\"\\u12\"",
        "\"\\x\"",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "[1,]",
        "[,1]",
        "[1 2]",
        "01",
        "-",
        "1.",
        "1e",
        "+1",
        ".5",
        "tru",
        "nul",
        "NaN",
        "[1}",
        "{\"a\":1]",
        "1 1",
        "\"a\nb\"",
        "{a:1}",
        "{,}",
        "'a'",
    ] {
        assert!(scan(bad).is_err(), "{bad:?} was accepted");
    }
}

#[test]
fn depth_is_bounded_and_costs_no_stack() {
    let nested = |n: usize| format!("{}1{}", "[{\"a\":".repeat(n), "}]".repeat(n));
    assert!(scan(&nested(64)).is_ok(), "128 levels");
    assert!(matches!(scan(&nested(65)), Err(JsonError::TooDeep { .. })));
    let bomb = "[".repeat(5_000_000);
    assert_eq!(scan(&bomb), Err(JsonError::TooDeep { at: 128 }));
}

#[test]
fn entered_levels_count_as_depth_too() {
    let text = format!("{{\"a\":{}{}}}", "[".repeat(128), "]".repeat(128));
    let mut cursor = Cursor::new(&text);
    cursor.enter_object().unwrap();
    cursor.next_key(&mut true).unwrap();
    assert!(matches!(cursor.skip(), Err(JsonError::TooDeep { .. })));
}

#[test]
fn surrogates_decode_and_lone_ones_become_the_replacement_character() {
    let text = r#""\ud83d\ude42\n\ud800x\/""#;
    let value = scan(text).unwrap();
    assert_eq!(value.text().unwrap().decode(text), "🙂\n\u{fffd}x/");
}

#[test]
fn whole_numbers_are_read_in_every_notation() {
    assert_eq!(whole_number("100"), Some(100));
    assert_eq!(whole_number("100.0"), Some(100));
    assert_eq!(whole_number("1e2"), Some(100));
    assert_eq!(whole_number("-0"), Some(0));
    for bad in ["-1", "1.5", "1e400", "1e18", "18446744073709551615", "-1e3"] {
        assert_eq!(whole_number(bad), None, "{bad}");
    }
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Tree::Null),
        any::<bool>().prop_map(Tree::Bool),
        any::<i64>().prop_map(Tree::from),
        any::<f64>().prop_map(Tree::from),
        ".{0,24}".prop_map(Tree::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Tree::from),
            prop::collection::hash_map(".{0,8}", inner, 0..6)
                .prop_map(|map| Tree::Object(map.into_iter().collect())),
        ]
    })
}

/// Bytes that look like JSON often enough to get past the first character.
fn almost_json() -> impl Strategy<Value = String> {
    prop::collection::vec(
        prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u00e9", "a", "\"a\"", "\"a\":", "1", "0",
            "-", ".", "e", "true", "null", " ", "\n", "\u{1}", "é",
        ]),
        0..24,
    )
    .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn accepts_exactly_what_serde_json_accepts(text in almost_json()) {
        prop_assert_eq!(scan(&text).is_ok(), serde_json::from_str::<IgnoredAny>(&text).is_ok());
    }

    #[test]
    fn never_panics_on_any_text(text in any::<String>()) {
        prop_assert_eq!(scan(&text).is_ok(), serde_json::from_str::<IgnoredAny>(&text).is_ok());
    }

    #[test]
    fn members_are_those_of_serde_json(value in tree(), pretty in any::<bool>()) {
        let Tree::Object(map) = &value else { return Ok(()) };
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let got = members(&text);
        prop_assert_eq!(got.len(), map.len());
        for (key, raw) in got {
            // through text both: serde_json reads floats a bit inexactly
            let inner: Tree = serde_json::from_str(&raw).unwrap();
            let same: Tree = serde_json::from_str(&map.get(&key).unwrap().to_string()).unwrap();
            prop_assert_eq!(inner, same);
        }
    }

    #[test]
    fn strings_decode_as_serde_json_decodes_them(value in any::<String>(), ascii in any::<bool>()) {
        let mut text = serde_json::to_string(&value).unwrap();
        if ascii {
            text = text.chars().map(|c| if c.is_ascii() { c.to_string() } else {
                c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
            }).collect();
        }
        let scanned = scan(&text).unwrap();
        prop_assert_eq!(scanned.text().unwrap().decode(&text).into_owned(), value);
    }
}
