//! `proto/ERRORS.md` has a row for each reason, and says what the code does.

use std::collections::BTreeMap;

use switchboard_common::error::{ReasonExt as _, reasons};

use crate::architecture::repository;

#[test]
fn the_error_table_has_every_reason_as_the_code_has_it() {
    let text = std::fs::read_to_string(repository().join("proto/ERRORS.md")).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("| REASON_")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 7, "{line}");
        assert!(
            cells.iter().all(|cell| !cell.is_empty()),
            "an empty cell: {line}"
        );
        let facts: Vec<String> = cells[1..5].iter().map(|&cell| cell.to_owned()).collect();
        assert!(
            rows.insert(cells[0].to_owned(), facts).is_none(),
            "twice: {line}"
        );
    }
    let expected: BTreeMap<String, Vec<String>> = reasons()
        .map(|reason| {
            let retryable = match reason.sdk_should_retry() {
                Some(false) => "no",
                Some(true) => "yes",
                None => "by status",
            };
            let facts = vec![
                reason.wire_code().to_owned(),
                format!("{:?}", reason.grpc_code()),
                reason.http_status().to_string(),
                retryable.to_owned(),
            ];
            (reason.as_str_name().to_owned(), facts)
        })
        .collect();
    assert_eq!(rows, expected);
}
