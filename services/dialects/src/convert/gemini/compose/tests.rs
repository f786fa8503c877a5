use super::*;

fn seal(value: &str) -> Option<Seal<'_>> {
    Some(Seal::read(Format::Gemini, value))
}

fn call<'a>(contents: &mut Contents<'a>, id: &'a str, name: &'a str, own: Option<Seal<'_>>) {
    contents.call((id.into(), name.into()), arguments("".into()), own);
}

#[test]
fn turns_alternate_and_answers_stand_first_in_the_order_of_their_calls() {
    let mut contents = Contents::new(Model::named("gemini-2.5-pro"));
    contents.instruct("S".into());
    contents.user_text("a".into());
    contents.user_text("b".into());
    contents.model_text("c".into());
    call(&mut contents, "1", "f", None);
    call(&mut contents, "2", "g", None);
    contents.instruct("later".into());
    let answer = |contents: &mut Contents<'_>, id, text| {
        contents
            .answer((id, "p".to_owned()), text, false, Vec::new())
            .unwrap();
    };
    answer(&mut contents, "2", "two");
    answer(&mut contents, "1", r#"{"one":1}"#);
    assert_eq!(
        contents.finish().0.render(),
        r#"{"contents":[{"role":"user","parts":[{"text":"a"},{"text":"b"}]},{"role":"model","parts":[{"text":"c"},{"functionCall":{"id":"1","name":"f","args":{}}},{"functionCall":{"id":"2","name":"g","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"1","name":"f","response":{"one":1}}},{"functionResponse":{"id":"2","name":"g","response":{"result":"two"}}},{"text":"<system>\nlater\n</system>"}]}],"systemInstruction":{"parts":[{"text":"S"}]}}"#
    );
}

#[test]
fn media_that_a_function_gave_stand_in_its_answer_since_gemini_3_and_behind_all_answers_before() {
    let said = |model: &str| {
        let mut contents = Contents::new(Model::named(model));
        call(&mut contents, "1", "f", seal("S"));
        let image = media::inline("image/png", "AA==");
        let far = media::at_url("https://a.example/b.png".into(), "p").unwrap();
        let path = "p".to_owned();
        let answer = contents.answer(("1", path), "one", false, vec![image, far]);
        answer.unwrap();
        let said = contents.finish().0.render();
        let (_, after) = said.split_once(r#""functionResponse":"#).unwrap();
        after.to_owned()
    };
    let (image, far) = (
        r#"{"inlineData":{"mimeType":"image/png","data":"AA=="}}"#,
        r#"{"fileData":{"mimeType":"image/png","fileUri":"https://a.example/b.png"}}"#,
    );
    let given = r#"{"id":"1","name":"f","response":{"result":"one"}"#;
    assert_eq!(
        said("gemini-3-pro"),
        format!(r#"{given},"parts":[{image}]}}}},{far}]}}]}}"#)
    );
    assert_eq!(
        said("gemini-2.5-pro"),
        format!(r#"{given}}}}},{image},{far}]}}]}}"#)
    );
}

#[test]
fn an_answer_to_no_call_is_refused() {
    let mut contents = Contents::new(Model::named("gemini-3-pro"));
    let answer = contents.answer(
        ("x", "messages[0].tool_call_id".to_owned()),
        "",
        false,
        Vec::new(),
    );
    assert_eq!(answer.unwrap_err().param, "messages[0].tool_call_id");
}

#[test]
fn calls_have_their_signature_or_the_one_that_skips_the_check() {
    let mut contents = Contents::new(Model::named("gemini-3-pro"));
    call(&mut contents, "1", "f", seal("S1"));
    call(&mut contents, "2", "f", None);
    contents.user_text("u".into());
    call(&mut contents, "3", "f", seal("switchboard.a.strange"));
    contents.user_text("u".into());
    assert!(contents.thought("".into(), seal("S4")));
    call(&mut contents, "4", "f", None);
    let body = contents.finish().0.render();
    let signatures: Vec<_> = body
        .split("\"functionCall\"")
        .skip(1)
        .map(|part| {
            part.split("\"thoughtSignature\":\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next())
        })
        .collect();
    assert_eq!(signatures, [Some("S1"), None, Some(SKIP), Some("S4")]);
    assert!(!body.contains("strange"));
}

#[test]
fn thoughts_of_other_makers_are_left_out() {
    let mut contents = Contents::new(Model::named("gemini-3-pro"));
    assert!(!contents.thought("t".into(), Some(Seal::read(Format::Anthropic, "own"))));
    assert!(!contents.thought("t".into(), None));
    assert!(contents.thought("t".into(), seal("S")));
    assert!(contents.thought("".into(), seal("E")));
    contents.model_text("said".into());
    assert_eq!(
        contents.finish().0.render(),
        r#"{"contents":[{"role":"user","parts":[{"text":"(The conversation begins.)"}]},{"role":"model","parts":[{"text":"t","thought":true,"thoughtSignature":"S"},{"text":"said","thoughtSignature":"E"}]}]}"#
    );
}

#[test]
fn arguments_are_always_an_object() {
    assert_eq!(arguments(" ".into()).render(), "{}");
    assert_eq!(
        arguments("{\"n\":\n1e400}".into()).render(),
        "{\"n\": 1e400}"
    );
    assert_eq!(arguments("[1]".into()).render(), r#"{"_raw":"[1]"}"#);
    assert_eq!(free_text("a\"").render(), r#"{"input":"a\""}"#);
}

#[test]
fn instructions_alone_are_said_by_the_user() {
    let mut contents = Contents::new(Model::named("gemini-3-pro"));
    contents.instruct("S".into());
    assert_eq!(
        contents.finish().0.render(),
        r#"{"contents":[{"role":"user","parts":[{"text":"S"}]}]}"#
    );
}
