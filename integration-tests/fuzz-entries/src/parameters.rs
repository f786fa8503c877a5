//! An account's declared parameters, applied to a request.
//!
//! An input is a chat request, and the account's map as JSON (see [`Declared`]).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use switchboard_dialects::{
    DialectRequest as _,
    chat::ChatRequest,
    parameters::{Handling, Layout, Parameters, Rescale},
};

use crate::{
    input::sections,
    json::{assert_json, assert_same_but},
};

/// A map as an input writes it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Declared {
    supported: Option<BTreeSet<String>>,
    rename: BTreeMap<String, String>,
    rescale: BTreeMap<String, [i32; 4]>,
    roles: BTreeMap<String, String>,
}

impl Declared {
    /// What the catalogue would let through: ranges that are some.
    fn parameters(self) -> Parameters {
        let ranges = self.rescale.into_iter().map(|(name, [a, b, c, d])| {
            let range = Rescale {
                from: (a.into(), b.into()),
                to: (c.into(), d.into()),
            };
            (name, range)
        });
        Parameters {
            supported: self.supported,
            rename: self.rename,
            rescale: ranges.filter(|(_, r)| r.from.0 < r.from.1).collect(),
            roles: self.roles,
        }
    }
}

pub(crate) fn parameters(input: &[u8]) {
    let [body, map] = sections(input);
    let Ok(asked) = ChatRequest::peek(body) else {
        return;
    };
    let layout = asked.layout().expect("a chat request has parameters");
    let body = Bytes::copy_from_slice(body);
    let map: Declared = serde_json::from_slice(map).unwrap_or_default();
    let map = map.parameters();
    nothing_declared_changes_nothing(layout, &body);
    for capped in [false, true] {
        let handling = |reject| Handling { reject, capped };
        let applied = map.apply(layout, handling(false), None, &body);
        let applied = applied.expect("nothing is refused where it is to be dropped");
        assert_json(&applied.body, "a request with declared parameters");
        let strict = map.apply(layout, handling(true), None, &body);
        match (&strict, applied.dropped.first()) {
            (Ok(same), None) => assert_eq!(*same, applied),
            (Err(refused), Some(first)) => assert_eq!(refused.0, *first),
            (strict, dropped) => panic!("{strict:?} and {dropped:?}"),
        }
        assert_members(layout, &map, &body, &applied.body, &applied.dropped);
        let is_limit = |name: &String| layout.limits.contains(&name.as_str());
        let limit = asked.output_limit();
        if limit.is_some() && map.rename.is_empty() && !applied.dropped.iter().any(is_limit) {
            let again = ChatRequest::peek(&applied.body).expect("a request still");
            let again = again.output_limit();
            assert!(again.is_some() && again <= limit, "the limit grew");
        }
    }
}

fn nothing_declared_changes_nothing(layout: &Layout, body: &Bytes) {
    let handling = Handling {
        reject: true,
        capped: false,
    };
    let applied = Parameters::default().apply(layout, handling, None, body);
    let applied = applied.expect("all are supported");
    assert_eq!(applied.dropped, Vec::<String>::new());
    assert_same_but(body, &applied.body, &[]);
}

/// What is no parameter stays; what was dropped is gone; the rest has its new name.
fn assert_members(
    layout: &Layout,
    map: &Parameters,
    before: &[u8],
    after: &[u8],
    dropped: &[String],
) {
    let Ok(Value::Object(before)) = serde_json::from_slice(before) else {
        return;
    };
    let Ok(Value::Object(after)) = serde_json::from_slice(after) else {
        panic!("what could be read still can");
    };
    for (name, value) in &before {
        if layout.structural.contains(&name.as_str()) {
            if name != layout.turns && !map.rename.values().any(|new| new == name) {
                assert_eq!(after.get(name), Some(value), "{name}");
            }
        } else if dropped.contains(name) {
            let renamed = map.rename.iter().any(|(_, new)| new == name);
            assert!(renamed || !after.contains_key(name), "{name}");
        } else if !value.is_null() && !layout.limits.contains(&name.as_str()) {
            let called = map.rename.get(name).unwrap_or(name);
            assert!(after.contains_key(called), "{name} as {called}");
        }
    }
}
