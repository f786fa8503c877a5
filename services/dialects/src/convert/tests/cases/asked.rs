//! What is asked for beside other things, or without what it needs.

use super::*;

#[test]
fn an_effort_beside_what_decides_is_named() {
    for thinking in [
        json!({"type": "enabled", "budget_tokens": 2000}),
        json!({"type": "disabled"}),
    ] {
        let body = with(
            ask(Format::Anthropic),
            json!({"thinking": thinking, "output_config": {"effort": "high"}}),
        );
        for upstream in [Format::Chat, Format::Responses, Format::Gemini] {
            let (_, dropped) = sent((Format::Anthropic, upstream), "up", &body).unwrap();
            let effort = "output_config.effort".to_owned();
            assert!(dropped.contains(&effort), "{upstream:?} {thinking}");
        }
    }
}

#[test]
fn an_answer_that_is_to_be_kept_and_is_not_is_named() {
    for upstream in [Format::Responses, Format::Anthropic, Format::Gemini] {
        for (store, named) in [(true, &["store"][..]), (false, &[])] {
            let body = with(ask(Format::Chat), json!({"store": store}));
            let (_, dropped) = sent((Format::Chat, upstream), "up", &body).unwrap();
            assert_eq!(dropped, named, "{upstream:?}");
        }
    }
}

#[test]
fn a_call_that_must_come_needs_tools() {
    let any = json!({"functionCallingConfig": {"mode": "ANY"}});
    for (caller, must, param) in [
        (
            Format::Chat,
            json!({"tool_choice": "required"}),
            "tool_choice",
        ),
        (
            Format::Responses,
            json!({"tool_choice": "required"}),
            "tool_choice",
        ),
        (
            Format::Anthropic,
            json!({"tool_choice": {"type": "any"}}),
            "tool_choice",
        ),
        (
            Format::Gemini,
            json!({"toolConfig": any}),
            "toolConfig.functionCallingConfig.mode",
        ),
    ] {
        for (_, upstream) in directions().filter(|(from, _)| *from == caller) {
            let body = with(ask(caller), must.clone());
            let refusal = sent((caller, upstream), "up", &body).unwrap_err();
            assert_eq!((&*refusal.param, refusal.unsupported), (param, false));
        }
    }
}
