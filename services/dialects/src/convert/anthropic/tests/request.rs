//! Reading a request (PROTOCOLS §7.1).

use super::super::block::{Content, Source};
use super::super::request::{Request, Role, ThinkingMode, ToolChoice, ToolKind, drop_all};
use crate::convert::fields::{Drops, Raw};

#[test]
fn every_kind_of_block_is_read_and_what_is_unknown_is_named() {
    let body = r#"{"model":"m","max_tokens":9,"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral","ttl":"1h"}}],
        "thinking":{"type":"enabled","budget_tokens":2048,"later":1},"output_config":{"effort":"high","format":{"type":"json_schema","schema":{"a":1e3}},"new":2},
        "tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"metadata":{"user_id":"u","x":1},"container":"c",
        "tools":[{"name":"f","input_schema":{"type":"object"},"strict":true},{"type":"web_search_20250305","name":"web_search","max_uses":3}],
        "messages":[
        {"role":"user","content":"hi"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"S"},{"type":"redacted_thinking","data":"R"},
            {"type":"tool_use","id":"c1","name":"f","input":{"n":9007199254740993}},{"type":"server_tool_use","id":"s","name":"web_search","input":{}}]},
        {"role":"system","content":"now in French"},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":[{"type":"text","text":"no"},
            {"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}]},
            {"type":"document","title":"T","source":{"type":"url","url":"https://x/y.pdf"},"citations":{"enabled":true}},
            {"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"found"}]},
            {"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain","odd":1}}]}]}"#;
    let request = Request::read(&Raw::body(body)).unwrap();
    assert_eq!(request.max_tokens, Some(9));
    assert_eq!(
        request.system[0].cache.as_ref().unwrap().ttl.as_deref(),
        Some("1h")
    );
    assert_eq!(request.thinking.unwrap().mode, ThinkingMode::Budget(2048));
    assert_eq!(request.schema.unwrap().text, r#"{"a":1e3}"#);
    assert_eq!(request.tool_choice, Some(ToolChoice::Tool("f".into())));
    assert!(request.one_call);
    assert!(matches!(
        &request.tools[0].kind,
        ToolKind::Custom {
            strict: Some(true),
            ..
        }
    ));
    assert!(
        matches!(&request.tools[1].kind, ToolKind::Versioned(kind) if kind == "web_search_20250305")
    );
    let turns = &request.turns;
    assert_eq!(turns[2].role, Role::System);
    assert!(
        matches!(&turns[1].blocks[2].content, Content::ToolUse { input, .. } if *input == r#"{"n":9007199254740993}"#)
    );
    assert!(
        matches!(&turns[1].blocks[3].content, Content::Other { kind, .. } if kind == "server_tool_use")
    );
    let Content::ToolResult {
        content,
        is_error: true,
        ..
    } = &turns[3].blocks[0].content
    else {
        panic!("{:?}", turns[3].blocks[0]);
    };
    assert!(
        matches!(&content[1].content, Content::Image(Source::Base64 { mime, .. }) if mime == "image/png")
    );
    let mut drops = Drops::default();
    drop_all(request.rest, &mut drops);
    for turn in request.turns {
        turn.rest.drop_rest(&mut drops);
        for block in turn.blocks {
            drop_all(block.rest, &mut drops);
        }
    }
    assert_eq!(
        drops.names(),
        [
            "output_config.new",
            "thinking.later",
            "metadata.x",
            "container",
            "messages[].content[].source.odd"
        ]
        .map(str::to_owned)
    );
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let body = r#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"ftp"}}]}]}"#;
    let refusal = Request::read(&Raw::body(body)).unwrap_err();
    assert_eq!(refusal.param, "messages[0].content[0].source.type");
    assert!(!refusal.unsupported);
}
