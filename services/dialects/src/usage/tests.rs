use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Usage {
    let value = Cursor::new(text).skip().unwrap();
    Usage::from_openai(text, value).unwrap()
}

#[test]
fn parts_of_a_count_are_taken_out_of_it() {
    let usage = read(
        r#"{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
            "prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":15,"audio_tokens":3,"image_tokens":4},
            "completion_tokens_details":{"reasoning_tokens":5,"audio_tokens":2,"accepted_prediction_tokens":1}}"#,
    );
    assert_eq!(
        usage,
        Usage {
            input: Some(25),
            cached_input: Some(60),
            cache_write_5m: Some(15),
            cache_write_1h: None,
            output: Some(20),
            reasoning: Some(5),
            input_audio: Some(3),
            output_audio: Some(2),
            input_image: Some(4),
            output_image: None,
            images: None,
            audio_millis: None,
        }
    );
    assert_eq!(usage.total_input(), Some(100));
}

#[test]
fn absent_differs_from_zero() {
    let usage = read(r#"{"prompt_tokens":0,"prompt_tokens_details":{"cached_tokens":null}}"#);
    assert_eq!(usage.input, Some(0));
    assert_eq!(usage.cached_input, None);
    assert_eq!(usage.output, None);
    assert!(read("{}").is_empty());
    assert!(!usage.is_empty());
}

#[test]
fn responses_names_are_read_too() {
    let usage = read(
        r#"{"input_tokens":26,"input_tokens_details":{"cached_tokens":6,"cache_write_tokens":0},"output_tokens":5,
            "output_tokens_details":{"reasoning_tokens":0},"total_tokens":31}"#,
    );
    assert_eq!((usage.input, usage.cached_input), (Some(20), Some(6)));
    assert_eq!((usage.output, usage.reasoning), (Some(5), Some(0)));
}

#[test]
fn reasoning_beside_the_completion_is_added_to_it() {
    let beside = read(
        r#"{"prompt_tokens":10,"completion_tokens":20,"total_tokens":130,"completion_tokens_details":{"reasoning_tokens":100}}"#,
    );
    assert_eq!((beside.output, beside.reasoning), (Some(120), Some(100)));
}

#[test]
fn nonsense_never_becomes_a_number() {
    let usage = read(
        r#"{"prompt_tokens":10,"completion_tokens":-5,"prompt_tokens_details":{"cached_tokens":64,"cache_write_tokens":9}}"#,
    );
    assert_eq!(
        (usage.input, usage.cached_input, usage.cache_write_5m),
        (Some(0), Some(10), Some(0))
    );
    assert_eq!(usage.output, None);
    let odd = read(
        r#"{"prompt_tokens":"7","completion_tokens":18446744073709551615,"total_tokens":1e999}"#,
    );
    assert!(odd.is_empty());
    assert_eq!(read(r#"{"prompt_tokens":7.0}"#).input, Some(7));
}

#[test]
fn what_is_left_out_is_what_the_total_leaves() {
    let output = read(r#"{"prompt_tokens":26,"total_tokens":33}"#);
    assert_eq!((output.input, output.output), (Some(26), Some(7)));
    let input = read(r#"{"completion_tokens":7,"total_tokens":33}"#);
    assert_eq!((input.input, input.output), (Some(26), Some(7)));
    let vectors = read(r#"{"prompt_tokens":26,"total_tokens":26}"#);
    assert_eq!((vectors.input, vectors.output), (Some(26), None));
}

#[test]
fn an_object_that_tells_nothing_is_no_report() {
    for text in ["null", "{}", "[]", "3", r#"{"minutes":1.5}"#] {
        let value = Cursor::new(text).skip().unwrap();
        assert_eq!(UsageReport::from_openai(text, value), None, "{text}");
    }
}

proptest! {
    #[test]
    fn totals_agree_with_the_upstream(prompt in 0u64..1_000_000, completion in 0u64..1_000_000,
                                      cached in any::<u64>(), written in any::<u64>(), reasoning in any::<i64>()) {
        let usage = read(&format!(
            r#"{{"prompt_tokens":{prompt},"completion_tokens":{completion},"prompt_tokens_details":{{"cached_tokens":{cached},"cache_write_tokens":{written}}},"completion_tokens_details":{{"reasoning_tokens":{reasoning}}}}}"#
        ));
        prop_assert_eq!(usage.total_input(), Some(prompt));
        prop_assert_eq!(usage.output, Some(completion));
        prop_assert!(usage.reasoning.unwrap_or(0) <= completion);
    }
}

#[test]
fn thoughts_are_never_more_than_the_output() {
    let usage = Usage {
        output: Some(3),
        reasoning: Some(5),
        ..Usage::default()
    };
    assert_eq!(usage.sound().output, Some(5));
    let untold = Usage::default();
    assert_eq!(untold.sound(), untold);
}
