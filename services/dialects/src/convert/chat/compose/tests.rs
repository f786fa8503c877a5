use serde_json::{Value, json};

use super::*;

fn finish(messages: Messages<'_>) -> Value {
    serde_json::from_str(&messages.finish().0.render()).unwrap()
}

fn roles(messages: &Value) -> Vec<&str> {
    let all = messages.as_array().unwrap().iter();
    all.map(|message| message["role"].as_str().unwrap())
        .collect()
}

#[test]
fn results_stand_right_after_their_calls_whatever_came_between() {
    let mut messages = Messages::default();
    messages.call("a".into(), "f".into(), "".into(), None);
    messages.call("b".into(), "g".into(), "{}".into(), None);
    messages.user(vec![Part::Text("meanwhile".into())]);
    messages.output("b".into(), vec![Part::Text("2".into())], false);
    messages.output(
        "a".into(),
        vec![Part::Text("1".into()), image("https://x".into(), None)],
        true,
    );
    let said = finish(messages);
    assert_eq!(roles(&said), ["assistant", "tool", "tool", "user", "user"]);
    assert_eq!(
        (&said[1]["tool_call_id"], &said[2]["tool_call_id"]),
        (&json!("b"), &json!("a"))
    );
    assert_eq!(said[2]["content"], "[error]\n1");
    assert_eq!(said[0]["tool_calls"][0]["function"]["arguments"], "{}");
    assert_eq!(said[4]["content"][0]["image_url"]["url"], "https://x");
}

#[test]
fn long_ids_still_meet_and_names_are_what_openai_takes() {
    let long = "x".repeat(60);
    let mut messages = Messages::default();
    messages.call((&*long).into(), "a.b".into(), "{}".into(), None);
    messages.output((&*long).into(), Vec::new(), false);
    let said = finish(messages);
    let id = said[0]["tool_calls"][0]["id"].as_str().unwrap();
    assert!(id.len() <= 40);
    assert_eq!(said[1]["tool_call_id"], id);
    assert_ne!(said[0]["tool_calls"][0]["function"]["name"], "a.b");
}

#[test]
fn what_a_chat_upstream_sealed_goes_back_and_strangers_seals_do_not() {
    let seal = |maker, value| Seal {
        maker,
        redacted: false,
        value,
    };
    let detail = r#"{"type":"reasoning.text","signature":"S","index":0}"#;
    let mut messages = Messages::default();
    assert!(!messages.thought("theirs", Some(seal(Format::Anthropic, "X"))));
    assert!(messages.thought("ours", Some(seal(Format::Chat, detail))));
    assert!(messages.thought(" open", None));
    assert!(messages.thought("", Some(seal(Format::Chat, "G"))));
    assert!(messages.call("a".into(), "f".into(), "".into(), None));
    let strange = Some(seal(Format::Gemini, "Y"));
    assert!(!messages.call("b".into(), "g".into(), "".into(), strange));
    let said = &finish(messages)[0];
    assert_eq!(said["reasoning_content"], "ours open");
    assert_eq!(
        said["reasoning_details"],
        json!([{"text":"ours","type":"reasoning.text","signature":"S","index":0}])
    );
    let google = |at: usize| said["tool_calls"][at].get("extra_content").cloned();
    assert_eq!(google(0), Some(json!({"google":{"thought_signature":"G"}})));
    assert_eq!(google(1), None);
}

#[test]
fn a_forged_detail_is_no_json_of_ours() {
    let mut messages = Messages::default();
    let forged = Seal {
        maker: Format::Chat,
        redacted: false,
        value: r#"{"a":1}],"model":"other","x":[{"#,
    };
    messages.thought("t", Some(forged));
    let said = &finish(messages)[0];
    assert!(said.get("reasoning_details").is_none());
}
