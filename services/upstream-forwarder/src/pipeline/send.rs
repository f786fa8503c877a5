//! send: one request to one upstream, up to the head of its answer (SPEC FWD-1, FWD-8, FWD-12).

use std::{pin::pin, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, Response, Uri};
use hyper::body::Incoming;
use switchboard_dialects::{Change, Form};
use tokio::time::Instant;

use super::{Conductor, Course, Ended, admit::Request};
use crate::{
    caller::{Caller, Elapsed},
    domain::{
        outcome::{Fault, Kind},
        settlement::Tried,
    },
    pipe::Stop,
    upstream::{Hygiene, Needs, Outgoing, SendError, Sent, build},
    vault::Secret,
};

pub(super) async fn send(
    conductor: &Arc<Conductor>,
    request: &Request,
    course: &mut Course,
    caller: &mut Caller,
    secret: Option<&Secret>,
) -> Result<Result<Response<Incoming>, Fault>, Ended> {
    let candidate = &course.candidate;
    let began_us = course.live.elapsed_us();
    let cap = course.live.story(|story| {
        if story.attempts.is_empty() {
            story.gateway_us = began_us;
        }
        story.attempts.push(Tried {
            account: candidate.account.clone(),
            upstream_model: candidate.upstream_model.clone(),
            cost_version: candidate.cost_version,
            began_us,
            ..Tried::default()
        });
        (story.output_cap > 0).then_some(story.output_cap)
    });
    let Ok(url) = candidate.url.parse::<Uri>() else {
        return Ok(Err(Fault::of(Kind::Address)));
    };
    let credential = match credential(course, secret) {
        Ok(credential) => credential,
        Err(fault) => return Ok(Err(fault)),
    };
    let hygiene = Hygiene {
        caller: &request.call.headers,
        credential,
        content_type: request
            .asked
            .content_type()
            .and_then(|kind| HeaderValue::from_str(kind).ok()),
        stream: request.asked.form() == Form::Events,
        hops: request.call.hops + 1,
        trace: conductor.config.trace_upstream,
    };
    let sent = Sent::new();
    let change = Change {
        model: &candidate.upstream_model,
        output_cap: cap,
    };
    let body = request.asked.prepare(&request.body, &change);
    let outgoing = Outgoing::new(body, Arc::clone(&sent), note_sent(conductor, course));
    let message = build(url, hygiene, outgoing);
    let connect = Duration::from_millis(candidate.connect_timeout_ms);
    let needs = Needs {
        private: candidate.allow_private_address,
        connect,
    };
    let first_byte = Duration::from_millis(candidate.first_byte_timeout_ms);
    let sending = conductor.upstreams.send(needs, message);
    let answer = wait(caller, sending, &sent, connect, first_byte).await;
    let began = Instant::now();
    let now_us = course.live.elapsed_us();
    course.tried(|tried| {
        tried.sent |= sent.all();
        let connected = sent
            .connected()
            .map(|at| began.saturating_duration_since(at));
        let since = connected.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0));
        if sent.connected().is_some() {
            tried.connect_us = now_us.saturating_sub(tried.began_us).saturating_sub(since);
        }
        if let Ok(Ok(answer)) = &answer {
            tried.status = answer.status().as_u16();
            tried.first_byte_us = now_us.saturating_sub(tried.began_us);
        }
    });
    Ok(answer?)
}

/// Waits for the head, at most `connect` for a connection and then `first_byte` for an answer.
async fn wait(
    caller: &mut Caller,
    sending: impl Future<Output = Result<Response<Incoming>, SendError>>,
    sent: &Sent,
    connect: Duration,
    first_byte: Duration,
) -> Result<Result<Response<Incoming>, Fault>, Stop> {
    let mut sending = pin!(sending);
    let began = Instant::now();
    let mut look = began + connect.min(first_byte);
    loop {
        match caller.attend_until(look, sending.as_mut()).await? {
            Ok(Ok(answer)) => return Ok(Ok(answer)),
            Ok(Err(SendError::Address)) => return Ok(Err(Fault::of(Kind::Address))),
            Ok(Err(SendError::Network(error))) => {
                tracing::debug!(%error, "upstream connection failed");
                return Ok(Err(Fault::of(Kind::Network)));
            }
            Err(Elapsed) => {}
        }
        // Exact without a wake-up at the moment of sending: it cannot have been later than now.
        let now = Instant::now();
        let (limit, kind) = match sent.connected() {
            Some(at) => (at + first_byte, Kind::FirstByteTimeout),
            None => (began + connect, Kind::ConnectTimeout),
        };
        if now >= limit {
            return Ok(Err(Fault::of(kind)));
        }
        look = limit.min(now + first_byte);
    }
}

/// What happens when the connection took the last byte: from then on the request costs money (BILL-5).
fn note_sent(conductor: &Arc<Conductor>, course: &Course) -> Box<dyn FnOnce() + Send> {
    let (conductor, live) = (Arc::clone(conductor), Arc::clone(&course.live));
    Box::new(move || {
        live.note_sent(&conductor.journal, |story| {
            if let Some(last) = story.attempts.last_mut() {
                last.sent = true;
            }
        });
    })
}

fn credential(
    course: &Course,
    secret: Option<&Secret>,
) -> Result<Option<(HeaderName, HeaderValue)>, Fault> {
    let (Some(format), Some(secret)) = (&course.candidate.credential, secret) else {
        return Ok(None);
    };
    let name = HeaderName::from_bytes(format.name.as_bytes()).ok();
    let header = name.zip(secret.header(format));
    header
        .map(Some)
        .ok_or_else(|| Fault::of(Kind::NoCredential))
}
