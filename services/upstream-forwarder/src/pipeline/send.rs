//! send: one request to one upstream, up to the head of its answer (SPEC FWD-1, FWD-8, FWD-12).

use std::{pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, Uri};
use switchboard_common::error::{Failure, Reason};
use switchboard_dialects::{
    Change,
    parameters::{Handling, Unsupported},
};
use tokio::time::Instant;

use super::{Conductor, Course, Ended, admit::Request};
use crate::{
    adapter::{Credential, Draft},
    caller::{Caller, Elapsed},
    domain::{
        declared,
        outcome::{Fault, Kind},
        settlement::Tried,
    },
    pipe::Stop,
    upstream::{Hygiene, Incoming, Needs, Outgoing, Proxy, SendError, Sent, build, resource},
    vault::Secret,
};

pub(super) async fn send(
    conductor: &Arc<Conductor>,
    request: &Request,
    course: &mut Course,
    caller: &mut Caller,
    secret: Option<&Secret>,
    proxy: Option<Arc<Proxy>>,
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
    let (method, address) = resource::of(&request.call, &candidate.url);
    let Ok(url) = address.parse::<Uri>() else {
        return Ok(Err(Fault::of(Kind::Address)));
    };
    let hygiene = Hygiene {
        method,
        caller: &request.call.headers,
        content_type: request
            .asked
            .content_type()
            .and_then(|kind| HeaderValue::from_str(kind).ok()),
        form: request.asked.form(),
        hops: request.call.hops + 1,
        trace: conductor.config.trace_upstream,
    };
    let mut head = build(url, hygiene);
    let mut body = prepare(request, course, cap)?;
    let candidate = &course.candidate;
    let mut draft = Draft {
        url: &head.uri,
        headers: &mut head.headers,
        body: &mut body,
        credential: candidate
            .credential
            .as_ref()
            .zip(secret)
            .map(|(format, secret)| Credential {
                header: &format.name,
                format: &format.format,
                secret: secret.secret(),
            }),
        now: conductor.clock.now_ms() / 1_000,
    };
    let adapter = conductor.adapters.of(&candidate.provider);
    if adapter.dress(&mut draft).is_err() {
        return Ok(Err(Fault::of(Kind::NoCredential)));
    }
    let sent = Sent::new();
    let outgoing = Outgoing::new(body, Arc::clone(&sent), note_sent(conductor, course));
    let message = http::Request::from_parts(head, outgoing);
    let connect = Duration::from_millis(candidate.connect_timeout_ms);
    let needs = Needs {
        private: candidate.allow_private_address,
        connect,
        proxy,
    };
    let first_byte = Duration::from_millis(candidate.first_byte_timeout_ms);
    let sending = conductor.upstreams.send(&needs, message);
    let answer = wait(caller, sending, &sent, connect, first_byte).await;
    let began = Instant::now();
    course.first_byte_due = sent.connected().map(|at| at + first_byte);
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
            Ok(Err(SendError::Proxy(error))) => {
                tracing::debug!(%error, "upstream proxy failed");
                return Ok(Err(Fault::of(Kind::Proxy)));
            }
            Ok(Err(error @ (SendError::Connect(_) | SendError::Network(_)))) => {
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

/// The caller's body for this upstream: its model's name, our cap, and of the parameters what the account takes (FWD-11).
fn prepare(request: &Request, course: &mut Course, cap: Option<u64>) -> Result<Bytes, Failure> {
    let candidate = &course.candidate;
    let change = Change {
        model: &candidate.upstream_model,
        output_cap: cap,
    };
    let body = request.asked.prepare(&request.body, &change);
    course.dropped.clear();
    let (Some(declared), Some(layout)) = (&candidate.parameters, request.asked.layout()) else {
        return Ok(body);
    };
    let handling = Handling {
        reject: request.rejects_unsupported(declared.reject),
        capped: cap.is_some(),
    };
    let applied = declared::parameters(declared).apply(layout, handling, &body);
    let applied = applied.map_err(|Unsupported(name)| {
        let text = Unsupported(name.clone()).to_string();
        Failure::new(Reason::UnsupportedParameter, text).param(name)
    })?;
    if !applied.dropped.is_empty() {
        tracing::debug!(account = %candidate.account, parameters = ?applied.dropped, "parameters that the account does not take were left out");
    }
    course.dropped = applied.dropped;
    Ok(applied.body)
}
