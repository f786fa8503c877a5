use super::*;

const COUNTED: Counted = Counted {
    input: 30,
    output: 7,
};

fn reported() -> Usage {
    Usage {
        input_tokens: Some(10),
        output_tokens: Some(3),
        ..Usage::default()
    }
}

fn estimated(output: u64) -> Usage {
    Usage {
        input_tokens: Some(30),
        output_tokens: Some(output),
        ..Usage::default()
    }
}

fn story(sent: bool, usage: Option<Usage>, content: bool) -> Story {
    Story {
        first_content_us: content.then_some(5),
        generates: true,
        attempts: vec![Tried {
            sent,
            usage,
            usage_raw: Bytes::from_static(b"{}"),
            ..Tried::default()
        }],
        ..Story::default()
    }
}

/// Caller: usage and source; then the attempt's usage.
fn settled(story: &Story, end: End) -> (Option<Usage>, UsageSource, Option<Usage>) {
    let settlement = story.settlement(end, COUNTED, 100, 0);
    assert_eq!(settlement.charge_nothing, settlement.usage.is_none());
    let cost = settlement.attempts.last().and_then(|attempt| attempt.usage);
    (settlement.usage, settlement.usage_source(), cost)
}

#[test]
fn the_table_of_who_pays_when_a_stream_ends_early() {
    use UsageSource::{Estimated, None as Nobody, Provider};
    let said = Some(reported());
    let both = Some(estimated(7));
    let input = Some(estimated(0));
    let failed = End::Failed(502, "upstream_failed");
    let broke = End::Broke("upstream_failed");
    let lost = End::Lost("internal");
    #[rustfmt::skip]
    let rows = [
        ("complete, usage reported", story(true, said, true), End::Complete(200), (said, Provider, said)),
        ("complete, no usage reported", story(true, None, true), End::Complete(200), (both, Estimated, both)),
        ("complete without content, none reported", story(true, None, false), End::Complete(200), (both, Estimated, both)),
        ("failed before the first token", story(true, None, false), failed, (None, Nobody, None)),
        ("failed, but the upstream reported usage", story(true, said, false), failed, (None, Nobody, said)),
        ("left before any attempt", Story::default(), End::Left, (None, Nobody, None)),
        ("left before it was fully sent", story(false, None, false), End::Left, (None, Nobody, None)),
        ("left after that, before the first token", story(true, None, false), End::Left, (input, Estimated, input)),
        ("the same, input reported", story(true, said, false), End::Left, (said, Provider, said)),
        ("left in mid-stream", story(true, None, true), End::Left, (both, Estimated, both)),
        ("left in mid-stream, usage seen", story(true, said, true), End::Left, (said, Provider, said)),
        ("upstream broke in mid-stream", story(true, None, true), broke, (both, Estimated, both)),
        ("upstream broke, usage seen", story(true, said, true), broke, (said, Provider, said)),
        ("the gateway gave up in mid-stream", story(true, None, true), lost, (both, Estimated, both)),
    ];
    for (name, story, end, expected) in rows {
        assert_eq!(settled(&story, end), expected, "{name}");
    }
}

#[test]
fn an_attempt_that_failed_before_it_said_anything_costs_nobody_while_the_next_one_is_waited_for() {
    for end in [End::Left, End::Lost("internal")] {
        for reported in [None, Some(reported())] {
            let mut waiting = story(true, reported, false);
            waiting.attempts[0].error = "rate_limited";
            let expected = (None, UsageSource::None, reported);
            assert_eq!(settled(&waiting, end), expected, "{end:?}");
        }
        // After content it is the answer that broke.
        let mut broken = story(true, None, true);
        broken.attempts[0].error = "cut";
        let both = Some(estimated(7));
        assert_eq!(settled(&broken, end), (both, UsageSource::Estimated, both));
    }
}

#[test]
fn an_abandoned_request_may_be_free_for_the_caller_but_never_for_us() {
    let mut free = story(true, None, false);
    free.abandoned_free = true;
    let expected = (None, UsageSource::None, Some(estimated(0)));
    assert_eq!(settled(&free, End::Left), expected);
    let mut free = story(true, None, true);
    free.abandoned_free = true;
    let both = Some(estimated(7));
    assert_eq!(
        settled(&free, End::Left),
        (both, UsageSource::Estimated, both)
    );
}

#[test]
fn what_a_report_leaves_out_is_counted_and_flagged() {
    let said = |input, output| {
        Some(Usage {
            input_tokens: input,
            output_tokens: output,
            ..Usage::default()
        })
    };
    let ends = [
        End::Complete(200),
        End::Left,
        End::Broke("upstream_failed"),
        End::Lost("internal"),
    ];
    for end in ends {
        for (reported, whole) in [
            (said(None, Some(3)), said(Some(30), Some(3))),
            (said(Some(10), None), said(Some(10), Some(7))),
        ] {
            let mut story = story(true, reported, true);
            let expected = (whole, UsageSource::Estimated, whole);
            assert_eq!(settled(&story, end), expected, "{end:?}");
            let settlement = story.settlement(end, COUNTED, 100, 0);
            assert_eq!(settlement.usage_raw, "{}");
            let cost = settlement.attempts.last().map(Attempt::usage_source);
            assert_eq!(cost, Some(UsageSource::Estimated));
            if reported == said(Some(10), None) {
                // Embeddings have no output.
                story.generates = false;
                let expected = (reported, UsageSource::Provider, reported);
                assert_eq!(settled(&story, end), expected, "{end:?}");
            }
        }
    }
    // Input that was all read from a cache is told.
    let cached = Usage {
        cached_input_tokens: Some(10),
        output_tokens: Some(3),
        ..Usage::default()
    };
    let story = story(true, Some(cached), true);
    let expected = (Some(cached), UsageSource::Provider, Some(cached));
    assert_eq!(settled(&story, End::Complete(200)), expected);
}

#[test]
fn images_and_audio_are_charged_as_far_as_they_went() {
    let begun = |content, usage| Story {
        images: 3,
        audio_millis: 2_500,
        ..story(true, usage, content)
    };
    let counts = |story: &Story, end| {
        let usage = settled(story, end).0.unwrap_or_default();
        (usage.images, usage.audio_millis)
    };
    assert_eq!(counts(&begun(false, None), End::Left), (None, Some(2_500)));
    assert_eq!(
        counts(&begun(true, None), End::Left),
        (Some(3), Some(2_500)),
        "a partial image may be as good as the whole"
    );
    let one = Usage {
        images: Some(1),
        ..reported()
    };
    assert_eq!(
        counts(&begun(true, Some(one)), End::Complete(200)),
        (Some(1), None)
    );
    // Who bills seconds counts no tokens.
    let seconds = Some(Usage {
        audio_millis: Some(9_000),
        ..Usage::default()
    });
    let story = begun(true, seconds);
    assert_eq!(
        settled(&story, End::Complete(200)),
        (seconds, UsageSource::Provider, seconds)
    );
    // Images without tokens are completed like any other report.
    let images = Some(Usage {
        images: Some(2),
        ..Usage::default()
    });
    let usage = settled(&begun(true, images), End::Complete(200)).0.unwrap();
    assert_eq!(
        (usage.images, usage.input_tokens, usage.output_tokens),
        (Some(2), Some(30), Some(7))
    );
}

#[test]
fn only_the_serving_attempt_is_charged_but_each_one_has_its_own_cost() {
    let mut story = story(true, Some(reported()), true);
    let failed = Tried {
        usage: Some(estimated(1)),
        error: "server",
        sent: true,
        ..Tried::default()
    };
    story.attempts.insert(0, failed);
    let settlement = story.settlement(End::Complete(200), COUNTED, 100, 0);
    assert_eq!(settlement.usage, Some(reported()));
    let costs: Vec<_> = settlement.attempts.iter().map(|a| a.usage).collect();
    assert_eq!(costs, [Some(estimated(1)), Some(reported())]);
    let numbers: Vec<_> = settlement.attempts.iter().map(|a| a.number).collect();
    assert_eq!(numbers, [0, 1]);
}

#[test]
fn a_draft_estimates_from_bytes_and_is_provisional() {
    let mut story = story(true, None, true);
    story.input_bytes = 41;
    story.content_bytes = 8;
    let draft = story.draft(100);
    assert!(draft.provisional);
    assert_eq!(draft.ending(), Ending::GatewayLost);
    let usage = draft.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(11), Some(2))
    );
    story.counted_input = Some(9);
    let usage = story.draft(100).usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens),
        (Some(9), Some(2))
    );
}

#[test]
fn a_draft_has_what_was_reported_so_far_and_says_that_it_is_not_the_last_word() {
    let story = story(true, Some(reported()), true);
    let draft = story.draft(100);
    assert_eq!(draft.usage, Some(reported()));
    assert_eq!(draft.usage_source(), UsageSource::Estimated);
    assert_eq!(draft.attempts[0].usage_source(), UsageSource::Estimated);
}

#[test]
fn input_is_known_once_it_is_counted_or_reported() {
    let known = |usage: Option<Usage>| story(true, usage, true).knows_input();
    let said = |change: fn(&mut Usage)| {
        let mut usage = Usage::default();
        change(&mut usage);
        Some(usage)
    };
    assert!(!known(None));
    assert!(!known(said(|usage| usage.output_tokens = Some(3))));
    assert!(known(said(|usage| usage.input_tokens = Some(3))));
    assert!(known(said(|usage| usage.cached_input_tokens = Some(3))));
    assert!(known(said(|usage| usage.audio_millis = Some(3))));
    let mut counted = story(true, None, false);
    counted.counted_input = Some(4);
    assert!(counted.knows_input());
}

#[test]
fn a_later_count_replaces_the_estimate_of_input_and_nothing_else() {
    let mut story = story(true, None, true);
    (story.input_bytes, story.content_bytes, story.images) = (400, 20, 1);
    let draft = story.draft(9);
    let counted = with_input(draft.clone(), 6);
    let mut expected = draft;
    for usage in [&mut expected.usage, &mut expected.attempts[0].usage] {
        let usage = usage.as_mut().unwrap();
        assert_eq!(usage.input_tokens, Some(100));
        usage.input_tokens = Some(6);
    }
    assert_eq!(counted, expected);
}
