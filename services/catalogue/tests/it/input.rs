//! No input makes the parser panic or run away (SEC-3).

use std::fmt::Write as _;

use proptest::prelude::*;
use switchboard_catalogue::{MAX_DIAGNOSTICS, SAMPLE, parse};

use crate::whole::FULL;

fn lines() -> impl Strategy<Value = String> {
    let line = prop::sample::select(FULL.lines().map(str::to_owned).collect::<Vec<_>>());
    prop::collection::vec(line, 0..60).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_text_gives_a_catalogue_or_diagnostics(text in "\\PC{0,200}") {
        if let Err(errors) = parse(&text, "f") {
            prop_assert!(!errors.is_empty());
        }
    }

    #[test]
    fn yaml_like_text_gives_a_catalogue_or_diagnostics(text in "[-:{}\\[\\], \\n\"'|>&*!%#@a-c0-9]{0,300}") {
        if let Err(errors) = parse(&text, "f") {
            prop_assert!(!errors.is_empty());
        }
    }

    #[test]
    fn shuffled_lines_of_the_language_give_a_catalogue_or_diagnostics(text in lines()) {
        if let Err(errors) = parse(&text, "f") {
            for error in errors {
                prop_assert!(error.line >= 1 && error.column >= 1, "{}", error);
            }
        }
    }

    #[test]
    fn a_damaged_catalogue_gives_a_catalogue_or_diagnostics(
        at in 0..FULL.len(), cut in 0..40_usize, insert in "[\\PC\\n]{0,6}"
    ) {
        let text: String = FULL
            .char_indices()
            .filter(|(position, _)| *position < at || *position >= at + cut)
            .map(|(_, c)| c)
            .collect();
        let split = text.char_indices().map(|(position, _)| position).nth(at.min(text.len() / 2)).unwrap_or(0);
        let (before, after) = text.split_at(split);
        let _ = parse(&format!("{before}{insert}{after}"), "f");
    }
}

fn only_error(text: &str) -> String {
    let errors = parse(text, "f").unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    errors[0].to_string()
}

#[test]
fn an_alias_bomb_is_refused_before_it_goes_off() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..20 {
        let previous = level - 1;
        writeln!(text, "a{level}: &a{level} [*a{previous}, *a{previous}, *a{previous}, *a{previous}, *a{previous}, *a{previous}, *a{previous}, *a{previous}, *a{previous}, *a{previous}]").unwrap();
    }
    assert!(
        only_error(&text).contains("more than 8000000 values"),
        "{}",
        only_error(&text)
    );
}

#[test]
fn deep_nesting_is_refused_however_it_is_made() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert!(only_error(&deep).contains("nested deeper"));
    let deep = "[".repeat(1_000_000);
    assert!(parse(&deep, "f").is_err());
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..2000 {
        writeln!(text, "a{level}: &a{level} [[[[*a{}]]]]", level - 1).unwrap();
    }
    assert!(only_error(&text).contains("nested deeper"));
}

#[test]
fn an_alias_is_its_value_at_its_own_place() {
    let text = "version: 1\nlimit_profiles:\n  - &p {name: batch, concurrency: 5}\n  - *p\n";
    let error = only_error(text);
    assert_eq!(
        error,
        "f:4:5: limit_profiles[1].name: the name `batch` is taken above; choose another name, or remove one of the two"
    );
}

#[test]
fn diagnostics_are_bounded() {
    let text: String = (0..5000).fold(String::new(), |mut text, index| {
        writeln!(text, "k{index}: 1").unwrap();
        text
    });
    assert_eq!(parse(&text, "f").unwrap_err().len(), MAX_DIAGNOSTICS);
}

#[test]
fn line_ends_and_a_byte_order_mark_change_nothing() {
    let plain = parse(SAMPLE, "f").unwrap().catalogue;
    assert_eq!(
        parse(&SAMPLE.replace('\n', "\r\n"), "f").unwrap().catalogue,
        plain
    );
    assert_eq!(
        parse(&format!("\u{feff}{SAMPLE}"), "f").unwrap().catalogue,
        plain
    );
}
