//! The catalogue's language.

use switchboard_catalogue::{Catalogue, Diagnostic, MAX_DIAGNOSTICS, diff, parse};

const FILE: &str = "catalogue.yaml";

pub(crate) fn catalogue(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let parsed = match parse(text, FILE) {
        Ok(parsed) => parsed,
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            return assert_placed(text, &mistakes);
        }
    };
    assert_placed(text, &parsed.warnings);
    let catalogue = parsed.catalogue;
    assert_eq!(catalogue.check(), Ok(()), "what was read is valid");
    assert_eq!(catalogue.supply().check(), Ok(()), "the supply side too");
    let fragment = serde_json::to_string(&catalogue).expect("a catalogue is JSON");
    let again: Catalogue = serde_json::from_str(&fragment).expect("and is read back");
    assert_eq!(again, catalogue, "without loss");
    assert!(diff(&catalogue, &again).is_empty());
}

/// Every diagnostic says where, what, and what to do; they are few, and in the order of their lines.
fn assert_placed(text: &str, list: &[Diagnostic]) {
    assert!(list.len() <= MAX_DIAGNOSTICS);
    assert!(list.is_sorted_by_key(|said| (said.line, said.column)));
    let lines = u32::try_from(text.len())
        .unwrap_or(u32::MAX)
        .saturating_add(1);
    for said in list {
        assert!((1..=lines).contains(&said.line), "{said}");
        assert!((1..=lines).contains(&said.column), "{said}");
        assert!(!said.message.is_empty() && !said.fix.is_empty(), "{said}");
        assert!(said.to_string().starts_with(FILE));
    }
}
