//! One test value for each kind of mistake: its line, its column, its path, what is wrong, what to do.

use switchboard_catalogue::parse;

#[test]
fn placeholder() {
    assert!(parse("", "f").is_err());
}
