//! relay: an upstream's answer to the caller (SPEC FWD-1 to FWD-5, FWD-7).
//!
//! Until an answer is committed nothing of it was seen by the caller, and its failure is just a failed attempt. From then
//! on it is the answer: it ends well, or it breaks.

mod stream;

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, response::Parts};
use switchboard_common::error::Failure;
use switchboard_dialects::{
    Class, ReadOptions, UpstreamError, WholeAnswer,
    error::{MAX_BODY, Rendered},
    headers::passes_to_caller,
};
use tokio::time::Instant;

use super::{Conductor, Course, Ended, admit::Request, head, keep, settle};
use crate::{
    adapter::Adapter,
    asked::shape,
    caller::Caller,
    domain::{
        declared,
        outcome::{Fault, Kind, failure_of},
        settlement::End,
    },
    pipe::Stop,
    upstream::{Decoded, Incoming, Pieces},
    usage,
    vault::Secret,
};

/// What became of an answer.
#[derive(Debug)]
pub(super) enum Relayed {
    /// The caller has it.
    Served(End),
    /// The caller has a refusal that is its own.
    Refused(Fault, End),
    /// The same, when the head is out: the edge writes the failure as an event.
    Told(Fault, Failure),
    /// It failed before the caller got anything of it.
    Failed(Fault),
    /// The same, as the account refused what another one sealed; it may take the conversation without (CASES C19).
    Sealed(Fault),
    /// It failed after that.
    Broke(Fault),
}

pub(super) async fn relay(
    conductor: &Conductor,
    request: &Arc<Request>,
    course: &mut Course,
    caller: &mut Caller,
    answer: Response<Incoming>,
    secret: Option<&Secret>,
) -> Result<Relayed, Ended> {
    let (mut parts, body) = answer.into_parts();
    if let Some(secret) = secret {
        withhold(&mut parts.headers, secret);
    }
    let decoded = Decoded::new(&parts.headers, body);
    if !parts.status.is_success() {
        return relay_error(
            conductor,
            request,
            course,
            caller,
            (&parts, decoded),
            secret,
        )
        .await;
    }
    let Some(body) = decoded else {
        return Ok(Relayed::Failed(malformed(parts.status.as_u16())));
    };
    if request.streams() {
        let headers = &parts.headers;
        stream::relay(conductor, request, course, caller, headers, body, secret).await
    } else {
        relay_document(conductor, request, course, caller, (&parts, body), secret).await
    }
}

/// An answer that says that it is an error.
async fn relay_error(
    conductor: &Conductor,
    request: &Arc<Request>,
    course: &mut Course,
    caller: &mut Caller,
    (parts, decoded): (&Parts, Option<Decoded>),
    secret: Option<&Secret>,
) -> Result<Relayed, Ended> {
    let body = match decoded {
        Some(mut body) => collect(course, caller, &mut body, 4 * MAX_BODY).await?,
        None => Err(Kind::Answer(Class::Malformed)),
    };
    // What an error says may be lost, its status is not.
    let body = body.unwrap_or_default();
    let now =
        UNIX_EPOCH + Duration::from_micros(u64::try_from(conductor.clock.now_us()).unwrap_or(0));
    let adapter = conductor.adapters.of(&course.candidate.provider);
    let body = document(adapter, body).unwrap_or_default();
    let status = parts.status.as_u16();
    let mut error = UpstreamError::from_http(status, &parts.headers, &body, now);
    if let Some(class) = declared::rules(&course.candidate).class_of(&body) {
        error.class = class;
    }
    refuse(request, course, caller, &error, status, secret)
}

/// An answer that is one document.
async fn relay_document(
    conductor: &Conductor,
    request: &Arc<Request>,
    course: &mut Course,
    caller: &mut Caller,
    (parts, mut body): (&Parts, Decoded),
    secret: Option<&Secret>,
) -> Result<Relayed, Ended> {
    let status = parts.status.as_u16();
    let body = match collect(course, caller, &mut body, conductor.config.answer_limit).await? {
        Ok(body) => body,
        Err(kind) => {
            let mut fault = Fault::of(kind);
            fault.status = status;
            return Ok(Relayed::Failed(fault));
        }
    };
    let content_type = content_type(&parts.headers);
    match whole(conductor, request, course, &body, content_type) {
        Ok(mut answer) => {
            if let Some(id) = answer.stored_id.take() {
                Box::pin(keep::bind(conductor, request, course, caller, id)).await?;
            }
            course.unfinished &= answer.finished.is_none();
            if keep::may_owe(request) {
                let usage = answer.usage.as_ref();
                Box::pin(keep::seen(conductor, request, answer.finished, usage)).await;
            }
            let kind = answer.content_type.as_deref().unwrap_or(head::JSON);
            let head = head::of_answer(request, course, status, kind, Some(&parts.headers));
            request.written(conductor, &course.live).await;
            course.first_content();
            settle::count_tokens(conductor, course, request, caller).await;
            caller.answer(head, answer.body);
            Ok(Relayed::Served(End::Complete(status)))
        }
        Err(error) => refuse(request, course, caller, &error, status, secret),
    }
}

/// Checks a whole answer and gives it the public name (FWD-5).
fn whole(
    conductor: &Conductor,
    request: &Request,
    course: &mut Course,
    body: &Bytes,
    content_type: Option<&str>,
) -> Result<WholeAnswer, Box<UpstreamError>> {
    let adapter = conductor.adapters.of(&course.candidate.provider);
    let options = ReadOptions {
        public_model: public_model(request, course),
        text_bound: conductor.config.count_output,
        content_type,
    };
    let body = &document(adapter, body.clone())?;
    if let Some(failure) = declared::rules(&course.candidate).failure_in(body) {
        return Err(failure);
    }
    let mut answer = course.asked(request).read(body, &options)?;
    course.text = answer.text.take();
    if let Some(report) = &answer.usage {
        course.tried(|tried| {
            tried.usage = Some(usage::to_wire(&report.usage));
            tried.usage_raw = report.raw.clone();
        });
    }
    Ok(answer)
}

/// A body as its dialect's own document, without a mark of byte order before JSON: clients need not bear one.
fn document(adapter: &Arc<dyn Adapter>, body: Bytes) -> Result<Bytes, Box<UpstreamError>> {
    let body = adapter.document(body)?;
    let json = body.strip_prefix(BOM).map(<[u8]>::trim_ascii_start);
    let json = json.is_some_and(|json| json.starts_with(b"{") || json.starts_with(b"["));
    Ok(if json { body.slice(BOM.len()..) } else { body })
}

/// U+FEFF in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The name that answers must carry, where the target's is another one.
fn public_model<'a>(request: &'a Request, course: &Course) -> Option<&'a str> {
    let public = request.resolved.public_name.as_str();
    (course.candidate.upstream_model != public).then_some(public)
}

/// An answer that is an error: the caller's own is passed on as it is, any other is a failed attempt (FWD-4).
fn refuse(
    request: &Request,
    course: &Course,
    caller: &mut Caller,
    error: &UpstreamError,
    status: u16,
    secret: Option<&Secret>,
) -> Result<Relayed, Ended> {
    let shape = shape(request.call.dialect);
    let fault = Fault::said(error, status, shape);
    let Some(mut rendered) = fault.for_caller.clone() else {
        return Ok(Relayed::Failed(fault));
    };
    if error.refuses_seals() && course.may_be_unsealed(request) {
        return Ok(Relayed::Sealed(fault));
    }
    if secret.is_some_and(|secret| repeats(secret, &rendered)) {
        scrub(&mut rendered);
    }
    if caller.opened() {
        return Ok(Relayed::Told(fault, failure_of(&rendered)));
    }
    let head = head::of_answer(request, course, rendered.status, head::JSON, None);
    caller.answer(head, rendered.body(shape, &request.call.request_id));
    Ok(Relayed::Refused(
        fault,
        End::Failed(rendered.status, rendered.code),
    ))
}

fn repeats(secret: &Secret, rendered: &Rendered) -> bool {
    let said = [
        rendered.message.as_bytes(),
        rendered.param.as_deref().unwrap_or("").as_bytes(),
        rendered.as_it_is.as_deref().unwrap_or(b""),
    ];
    said.into_iter().any(|said| secret.occurs_in(said))
}

/// An upstream that repeats our credential in its error is not repeated.
fn scrub(rendered: &mut Rendered) {
    "the upstream refused the request".clone_into(&mut rendered.message);
    rendered.param = None;
    rendered.as_it_is = None;
}

/// The type of an answer's body.
fn content_type(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(http::header::CONTENT_TYPE)?;
    value.to_str().ok()
}

/// A header that repeats our credential goes no further.
fn withhold(headers: &mut HeaderMap, secret: &Secret) {
    let repeats = |(name, value): (&HeaderName, &HeaderValue)| {
        (passes_to_caller(name) && secret.occurs_in(value.as_bytes())).then(|| name.clone())
    };
    let names: Vec<_> = headers.iter().filter_map(repeats).collect();
    for name in names {
        headers.remove(name);
    }
}

/// Reads a body to its end, at most `limit` bytes.
async fn collect(
    course: &mut Course,
    caller: &mut Caller,
    body: &mut Decoded,
    limit: usize,
) -> Result<Result<Bytes, Kind>, Stop> {
    let mut pieces = Pieces::default();
    let mut begun = Begun::Nothing;
    loop {
        let (due, late) = course.patience(begun);
        let piece = match caller.attend_until(due, body.next()).await? {
            Ok(Some(Ok(piece))) => piece,
            Ok(None) => break,
            Ok(Some(Err(error))) => {
                tracing::debug!(%error, "upstream broke off");
                return Ok(Err(Kind::Answer(Class::Cut)));
            }
            Err(_) => return Ok(Err(late)),
        };
        begun = Begun::Content;
        if pieces.add(piece, limit).is_err() {
            return Ok(Err(Kind::Answer(Class::Malformed)));
        }
        course.share.set(pieces.len());
    }
    course.share.set(0);
    Ok(Ok(pieces.into_bytes()))
}

/// How far an answer's body has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begun {
    /// Its head is all there is.
    Nothing,
    /// Bytes, but none of content.
    Bytes,
    /// Content.
    Content,
}

fn malformed(status: u16) -> Fault {
    let mut fault = Fault::of(Kind::Answer(Class::Malformed));
    fault.status = status;
    fault
}

impl Course {
    /// Until when the next bytes must come, and what it is when they do not (FWD-8). A head that comes early is no answer: the
    /// first byte of the body has the time of the first byte. A model may think after its stream has begun, so until
    /// content both times must have passed.
    fn patience(&self, begun: Begun) -> (Instant, Kind) {
        let idle = Instant::now() + Duration::from_millis(self.candidate.idle_timeout_ms);
        match (begun, self.first_byte_due) {
            (Begun::Nothing, Some(due)) => (due, Kind::FirstByteTimeout),
            (Begun::Bytes, Some(due)) => (idle.max(due), Kind::IdleTimeout),
            _ => (idle, Kind::IdleTimeout),
        }
    }

    /// The caller gets something now.
    fn first_content(&self) {
        let now = self.live.elapsed_us();
        self.live
            .story(|story| story.first_content_us.get_or_insert(now).to_owned());
    }
}
