use proptest::prelude::*;

use super::*;

const CHAT: Layout = Layout {
    structural: &["model", "messages", "stream", "stream_options"],
    nested: &[],
    turns: "messages",
    limits: &["max_completion_tokens", "max_tokens"],
    converted: &[],
};
const GEMINI: Layout = Layout {
    structural: &["contents"],
    nested: &["generationConfig"],
    turns: "contents",
    limits: &["maxOutputTokens"],
    converted: &[],
};
const DROP: Handling = Handling {
    reject: false,
    capped: false,
};

fn set(names: &[&str]) -> Option<BTreeSet<String>> {
    Some(names.iter().map(|&name| name.to_owned()).collect())
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |&(from, to): &(&str, &str)| (from.to_owned(), to.to_owned());
    pairs.iter().map(owned).collect()
}

fn sample() -> Parameters {
    let halved = Rescale {
        from: (0, 2_000_000),
        to: (0, 1_500_000),
    };
    Parameters {
        supported: set(&["temperature", "max_completion_tokens", "stop"]),
        rename: map(&[("max_completion_tokens", "max_new_tokens")]),
        rescale: [("temperature".to_owned(), halved)].into(),
        roles: map(&[("developer", "system")]),
    }
}

fn applied(map: &Parameters, layout: &Layout, handling: Handling, body: &str) -> (String, String) {
    let applied = map.apply(
        layout,
        handling,
        None,
        &Bytes::copy_from_slice(body.as_bytes()),
    );
    let applied = applied.unwrap();
    let body = String::from_utf8(applied.body.to_vec()).unwrap();
    (body, applied.dropped.join(","))
}

#[test]
fn parameters_get_the_upstreams_names_and_ranges_and_what_it_lacks_is_named() {
    let body = r#"{"model":"m","temperature":0.7,"messages":[{"role":"developer","content":"developer"},{"content":"x","role":"user"}],"logit_bias":{"1":2},"max_completion_tokens":5,"stop":["a"],"seed":null,"stream":true}"#;
    let (out, dropped) = applied(&sample(), &CHAT, DROP, body);
    assert_eq!(
        out,
        r#"{"model":"m","temperature":0.525,"messages":[{"role":"system","content":"developer"},{"content":"x","role":"user"}],"max_new_tokens":5,"stop":["a"],"stream":true}"#
    );
    assert_eq!(dropped, "logit_bias");
}

#[test]
fn an_unsupported_parameter_is_refused_by_name_where_that_is_declared() {
    let reject = Handling {
        reject: true,
        ..DROP
    };
    let body = |text: &'static str| Bytes::from_static(text.as_bytes());
    let refused = sample().apply(
        &CHAT,
        reject,
        None,
        &body(r#"{"model":"m","messages":[],"top_p":0.5}"#),
    );
    assert_eq!(refused, Err(Unsupported("top_p".to_owned())));
    let null = body(r#"{"model":"m","messages":[],"top_p":null}"#);
    assert!(sample().apply(&CHAT, reject, None, &null).is_ok());
}

#[test]
fn a_limit_is_as_good_under_its_other_name_and_ours_is_never_lost() {
    let (out, dropped) = applied(&sample(), &CHAT, DROP, r#"{"messages":[],"max_tokens":7}"#);
    assert_eq!(out, r#"{"messages":[],"max_new_tokens":7}"#);
    assert_eq!(dropped, "");
    let none = Parameters {
        supported: set(&["stop"]),
        ..Parameters::default()
    };
    let body = r#"{"messages":[],"max_completion_tokens":7}"#;
    assert_eq!(
        applied(&none, &CHAT, DROP, body),
        (
            r#"{"messages":[]}"#.to_owned(),
            "max_completion_tokens".to_owned()
        )
    );
    let capped = Handling {
        capped: true,
        ..DROP
    };
    assert_eq!(applied(&none, &CHAT, capped, body).0, body);
}

#[test]
fn of_several_limits_the_smallest_goes_out_once() {
    let map = Parameters {
        supported: set(&["max_tokens", "seed"]),
        ..Parameters::default()
    };
    let reject = Handling {
        reject: true,
        ..DROP
    };
    for (body, want) in [
        (
            r#"{"max_completion_tokens":100,"max_tokens":7}"#,
            r#"{"max_tokens":7}"#,
        ),
        (
            r#"{"max_completion_tokens":null,"max_tokens":7}"#,
            r#"{"max_tokens":7}"#,
        ),
        (
            r#"{"max_tokens":7,"max_completion_tokens":100}"#,
            r#"{"max_tokens":7}"#,
        ),
        (
            r#"{"max_tokens":7,"max_completion_tokens":null}"#,
            r#"{"max_tokens":7}"#,
        ),
        (
            r#"{"max_completion_tokens":7,"max_tokens":null}"#,
            r#"{"max_tokens":7}"#,
        ),
    ] {
        let (out, dropped) = applied(&map, &CHAT, reject, body);
        assert_eq!((out.as_str(), dropped.as_str()), (want, ""), "{body}");
    }
}

#[test]
fn a_parameter_that_is_given_twice_stays_as_it_is() {
    let body = r#"{"temperature":null,"temperature":1}"#;
    let map = Parameters {
        supported: set(&["temperature"]),
        ..Parameters::default()
    };
    assert_eq!(
        applied(&map, &CHAT, DROP, body),
        (body.to_owned(), String::new())
    );
}

#[test]
fn parameters_inside_a_member_are_parameters_too() {
    let map = Parameters {
        supported: set(&["temperature", "safetySettings"]),
        ..Parameters::default()
    };
    let body = r#"{"contents":[{"parts":[]}],"generationConfig":{"topK":3,"temperature":1e0},"safetySettings":[],"cachedContent":"c"}"#;
    assert_eq!(
        applied(&map, &GEMINI, DROP, body),
        (
            r#"{"contents":[{"parts":[]}],"generationConfig":{"temperature":1e0},"safetySettings":[]}"#.to_owned(),
            "topK,cachedContent".to_owned()
        )
    );
}

#[test]
fn a_parameter_that_we_meet_ourselves_is_left_out_and_not_missed() {
    let map = Parameters {
        supported: set(&["dimensions"]),
        ..Parameters::default()
    };
    let layout = Layout {
        structural: &["model", "input"],
        turns: "",
        limits: &[],
        converted: &["encoding_format"],
        ..CHAT
    };
    let reject = Handling {
        reject: true,
        ..DROP
    };
    let body = r#"{"model":"m","input":"x","encoding_format":"base64","dimensions":3}"#;
    assert_eq!(
        applied(&map, &layout, reject, body),
        (
            r#"{"model":"m","input":"x","dimensions":3}"#.to_owned(),
            String::new()
        )
    );
}

const FORM: Layout = Layout {
    structural: &["model", "file"],
    turns: "",
    limits: &[],
    ..CHAT
};

#[test]
fn the_parts_of_a_form_are_parameters_and_files_keep_their_bytes() {
    let part = |head: &str, content: &str| {
        format!("--B\r\nContent-Disposition: form-data; {head}\r\n\r\n{content}\r\n")
    };
    let model = part("name=\"model\"", "whisper-1");
    let file = part("name=\"file\"; filename=\"a.mp3\"", "\0\r\n--A\r\n");
    let words = part("name=\"timestamp_granularities[]\"", "word");
    let body = [
        part("name=\"language\"", ""),
        model.clone(),
        part("name=\"temperature\"", "0.7"),
        words.clone(),
        file.clone(),
        part("name=\"include[]\"", "logprobs"),
        part("name=prompt", "say"),
        "--B--\r\n".to_owned(),
    ]
    .concat();
    let map = Parameters {
        supported: set(&["temperature", "timestamp_granularities", "prompt"]),
        rename: map(&[("prompt", "hint")]),
        ..sample()
    };
    let kind = Some("multipart/form-data; boundary=B");
    let bytes = Bytes::from(body);
    let applied = map.apply(&FORM, DROP, kind, &bytes).unwrap();
    let expected = [
        model,
        part("name=\"temperature\"", "0.525"),
        words,
        file,
        part("name=\"hint\"", "say"),
        "--B--\r\n".to_owned(),
    ]
    .concat();
    assert_eq!(String::from_utf8(applied.body.to_vec()).unwrap(), expected);
    assert_eq!(applied.dropped, ["language", "include[]"]);
    let reject = Handling {
        reject: true,
        ..DROP
    };
    assert_eq!(
        map.apply(&FORM, reject, kind, &bytes),
        Err(Unsupported("language".to_owned()))
    );
}

proptest! {
    #[test]
    fn a_map_without_a_list_changes_no_value(keys in prop::collection::btree_map("[a-z\"\\\\]{1,4}", "[ -~]{0,6}", 0..6)) {
        let body = serde_json::to_string(&keys).unwrap();
        let (out, dropped) = applied(&Parameters { roles: map(&[("a", "b")]), ..Parameters::default() }, &CHAT, DROP, &body);
        prop_assert_eq!(out, body);
        prop_assert_eq!(dropped, "");
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let _any = sample().apply(&CHAT, DROP, None, &Bytes::from(bytes));
    }
}
