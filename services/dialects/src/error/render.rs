//! Errors in OpenAI's form.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

#[derive(Serialize)]
struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    param: Option<&'a str>,
    code: &'a str,
}

/// OpenAI's `type` for an HTTP status (SPEC ERR-1).
#[must_use]
pub const fn error_type(status: u16) -> &'static str {
    match status {
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

/// The JSON body of an error: `{"error":{"message","type","param","code"}}`. `code` is a wire code of SPEC ERR-1.
#[must_use]
pub fn render_openai(code: &str, status: u16, message: &str, param: Option<&str>) -> Bytes {
    let mut out = BytesMut::with_capacity(message.len() + 128);
    put(&mut out, code, status, message, param);
    out.freeze()
}

/// The event that ends a stream which fails after its headers were sent (PROTOCOLS §3.3, 7): no `[DONE]` follows.
#[must_use]
pub fn render_openai_event(code: &str, status: u16, message: &str) -> Bytes {
    let mut out = BytesMut::with_capacity(message.len() + 128);
    out.put_slice(b"data: ");
    put(&mut out, code, status, message, None);
    out.put_slice(b"\n\n");
    out.freeze()
}

fn put(out: &mut BytesMut, code: &str, status: u16, message: &str, param: Option<&str>) {
    let kind = error_type(status);
    let envelope = Envelope {
        error: Body {
            message,
            kind,
            param,
            code,
        },
    };
    // strings into memory: this cannot fail
    let _written = serde_json::to_writer(out.writer(), &envelope);
}
