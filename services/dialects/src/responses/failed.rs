//! The event that ends a stream which broke (SPEC FWD-3).

use bytes::{Bytes, BytesMut};

use crate::carry::Progress;
use crate::chat::quote;
use crate::error::{Saying, Shape};

/// `response.failed` with the next `sequence_number`, for a stream of which the caller has the beginning: clients then raise the
/// error with its message (PROTOCOLS §5.3). Before the beginning there is no response that could fail: an `error` event says it.
#[must_use]
pub fn failed_event(at: &Progress, saying: &Saying<'_>) -> Bytes {
    let mut out = BytesMut::new();
    if at.response_id.is_empty() {
        let body = Shape::OpenAi.body(saying);
        let error = std::str::from_utf8(&body).ok();
        let error = error.and_then(|body| body.strip_prefix('{')).unwrap_or("}");
        let data = format!(
            r#"{{"type":"error","sequence_number":{},{error}"#,
            at.next_sequence
        );
        crate::sse::write_event(&mut out, Some(b"error"), &data);
        return out.freeze();
    }
    // The codes that a response's error can have; ours are told in words.
    let code = match saying.status {
        429 => "rate_limit_exceeded",
        _ => "server_error",
    };
    let data = format!(
        concat!(
            r#"{{"type":"response.failed","sequence_number":{sequence},"response":{{"id":{id},"object":"response","created_at":{created},"#,
            r#""status":"failed","error":{{"code":"{code}","message":{message}}},"incomplete_details":null,"instructions":null,"#,
            r#""max_output_tokens":null,"model":{model},"output":[],"parallel_tool_calls":true,"previous_response_id":null,"#,
            r#""reasoning":null,"temperature":null,"text":null,"tool_choice":"auto","tools":[],"top_p":null,"truncation":null,"#,
            r#""usage":null,"metadata":{{}}}}}}"#,
        ),
        sequence = at.next_sequence,
        id = quote(&at.response_id),
        created = at.created_at,
        code = code,
        message = quote(saying.message),
        model = quote(&at.model),
    );
    crate::sse::write_event(&mut out, Some(b"response.failed"), &data);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAYING: Saying<'_> = Saying {
        code: "upstream_failed",
        status: 502,
        message: "it \"broke\"\n",
        param: None,
        request_id: Some("r1"),
        retry_after: None,
    };

    fn event(at: &Progress) -> (String, serde_json::Value) {
        let bytes = failed_event(at, &SAYING);
        let text = std::str::from_utf8(&bytes).unwrap();
        let (name, data) = text
            .strip_prefix("event: ")
            .unwrap()
            .split_once("\ndata: ")
            .unwrap();
        let data = data.strip_suffix("\n\n").unwrap();
        (name.to_owned(), serde_json::from_str(data).unwrap())
    }

    #[test]
    fn a_response_that_began_fails_with_the_next_number() {
        let (name, data) = event(&Progress {
            response_id: "resp_1".to_owned(),
            created_at: 7,
            model: "public".to_owned(),
            next_sequence: 12,
        });
        assert_eq!(name, "response.failed");
        assert_eq!(data["type"], "response.failed");
        assert_eq!(data["sequence_number"], 12);
        let response = &data["response"];
        assert_eq!(response["id"], "resp_1");
        assert_eq!(response["status"], "failed");
        assert_eq!(response["model"], "public");
        assert_eq!(response["created_at"], 7);
        assert_eq!(response["error"]["code"], "server_error");
        assert_eq!(response["error"]["message"], "it \"broke\"\n");
    }

    #[test]
    fn before_a_response_began_there_is_an_error() {
        let (name, data) = event(&Progress::default());
        assert_eq!(name, "error");
        assert_eq!(data["type"], "error");
        assert_eq!(data["sequence_number"], 0);
        assert_eq!(data["error"]["message"], "it \"broke\"\n");
        assert_eq!(data["error"]["code"], "upstream_failed");
    }
}
