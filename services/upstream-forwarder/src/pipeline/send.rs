//! send: one request to one upstream, up to the head of its answer (SPEC FWD-1, FWD-8, FWD-12).

use std::{
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Response, Uri};
use switchboard_common::error::{Failure, Reason};
use switchboard_dialects::{
    Change,
    convert::{Format, Target, Translation, seals_of, without_seals},
    parameters::{Handling, Unsupported},
};
use switchboard_proto::common::v1::Dialect;
use tokio::time::Instant;

use super::{Conductor, Course, Ended, admit::Request};
use crate::{
    adapter::{Credential, Draft},
    asked::format,
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
    let mut body = match prepare(conductor, request, course, cap)? {
        Ok(body) => body,
        Err(fault) => return Ok(Err(fault)),
    };
    let asked = course.asked(request);
    let hygiene = Hygiene {
        method,
        // What they say is said in the caller's dialect.
        caller: match &course.translated {
            Some(_) => &[],
            None => &request.call.headers,
        },
        content_type: asked
            .content_type()
            .and_then(|kind| HeaderValue::from_str(kind).ok()),
        form: asked.form(),
        hops: request.call.hops + 1,
        trace: conductor.config.trace_upstream,
    };
    let mut head = build(url, hygiene);
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
    let outgoing = Outgoing::new(
        body,
        Arc::clone(&sent),
        note_sent(conductor, request, course),
    );
    let message = http::Request::from_parts(head, outgoing);
    let connect = Duration::from_millis(candidate.connect_timeout_ms);
    let needs = Needs {
        private: candidate.allow_private_address,
        connect,
        fresh: course.fresh,
        proxy,
    };
    let first_byte = Duration::from_millis(candidate.first_byte_timeout_ms);
    let sending = pin!(conductor.upstreams.send(&needs, message));
    let answer = wait(caller, sending, &sent, connect, first_byte).await;
    let began = Instant::now();
    course.first_byte_due = sent.connected().map(|at| at + first_byte);
    let now_us = course.live.elapsed_us();
    let answered = matches!(&answer, Ok(Ok(answer)) if answer.status().is_success());
    if answered && !sent.all() {
        note_sent(conductor, request, course)();
    }
    course.tried(|tried| {
        // Who answers has what it needs, also when it did not read all.
        tried.sent |= sent.all() || answered;
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
    mut sending: Pin<&mut impl Future<Output = Result<Response<Incoming>, SendError>>>,
    sent: &Sent,
    connect: Duration,
    first_byte: Duration,
) -> Result<Result<Response<Incoming>, Fault>, Stop> {
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
            Ok(Err(SendError::Connect(obstacle, error))) => {
                tracing::debug!(?obstacle, %error, "no connection to an upstream");
                return Ok(Err(Fault::of(Kind::Unreached(obstacle))));
            }
            Ok(Err(SendError::Network(error))) => {
                tracing::debug!(%error, "upstream connection failed");
                return Ok(Err(Fault::of(Kind::Network)));
            }
            Ok(Err(SendError::Worn(error))) => {
                tracing::debug!(%error, "an idle upstream connection ended when it was used");
                return Ok(Err(Fault::of(Kind::Worn)));
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
fn note_sent(
    conductor: &Arc<Conductor>,
    request: &Request,
    course: &Course,
) -> Box<dyn FnOnce() + Send> {
    let (conductor, live) = (Arc::clone(conductor), Arc::clone(&course.live));
    let question = request.question(&conductor);
    Box::new(move || {
        live.note_sent(&conductor.journal, question, |story| {
            if let Some(last) = story.attempts.last_mut() {
                last.sent = true;
            }
        });
    })
}

/// The caller's body for this upstream: in its dialect, its model's name, our cap, and of the parameters what it takes
/// (DIAL-1, FWD-11). What the target has nothing for may suit another one.
fn prepare(
    conductor: &Conductor,
    request: &Request,
    course: &mut Course,
    cap: Option<u64>,
) -> Result<Result<Bytes, Fault>, Failure> {
    course.dropped.clear();
    course.translated = None;
    if let Some(formats) = course.formats(request) {
        match translate(conductor, request, course, formats)? {
            Ok(translated) => course.translated = Some(translated),
            Err(fault) => return Ok(Err(fault)),
        }
    }
    let candidate = &course.candidate;
    let change = Change {
        model: &candidate.upstream_model,
        output_cap: cap,
    };
    let asked = course.asked(request);
    let mut body = asked.prepare(&request.body, &change);
    let mut dropped = match &course.translated {
        Some(translated) => translated.dropped().to_vec(),
        None => Vec::new(),
    };
    let declared = candidate.parameters.as_ref();
    let reject = request.rejects_unsupported(declared.and_then(|declared| declared.reject));
    if let (Some(declared), Some(layout)) = (declared, asked.layout()) {
        let handling = Handling {
            reject,
            capped: cap.is_some(),
        };
        let map = declared::parameters(declared);
        let applied = map.apply(layout, handling, asked.content_type(), &body);
        // The account tells of them in its dialect.
        let called = |name: String| match &course.translated {
            Some(translated) => translated.called_by_caller(&name, &request.body),
            None => vec![name],
        };
        match applied {
            Ok(applied) => {
                body = applied.body;
                for name in applied.dropped.into_iter().flat_map(called) {
                    if !dropped.contains(&name) {
                        dropped.push(name);
                    }
                }
            }
            Err(Unsupported(name)) => {
                return Ok(Err(unsupported(called(name).swap_remove(0))));
            }
        }
    }
    if course.unsealed
        && let Some(unsealed) = unsealed(request, course, &body)
    {
        body = unsealed;
        dropped.extend(format(request.call.dialect).map(|caller| seals_of(caller).to_owned()));
    }
    if !dropped.is_empty() {
        if reject {
            return Ok(Err(unsupported(dropped.swap_remove(0))));
        }
        tracing::debug!(account = %candidate.account, parameters = ?dropped, "parameters that the account does not take were left out");
    }
    course.dropped = dropped;
    Ok(Ok(body))
}

/// The conversation without seals; `None`: it has none.
fn unsealed(request: &Request, course: &Course, body: &Bytes) -> Option<Bytes> {
    let upstream = match course.candidate.dialect() {
        Dialect::Unspecified => request.call.dialect,
        told => told,
    };
    without_seals(format(upstream)?, body)
}

fn unsupported(name: String) -> Fault {
    let text = Unsupported(name.clone()).to_string();
    Fault::unsupported(Failure::new(Reason::UnsupportedParameter, text).param(name))
}

/// The request in the candidate's dialect, from the caller's own body (CASES C33).
fn translate(
    conductor: &Conductor,
    request: &Request,
    course: &Course,
    formats: (Format, Format),
) -> Result<Result<Translation, Fault>, Failure> {
    let target = Target {
        model: &course.candidate.upstream_model,
        public_model: &request.resolved.public_name,
        max_output: request.resolved.model.max_output,
        stream: request.streams(),
        request_id: &request.call.request_id,
        now: conductor.clock.now_ms() / 1_000,
    };
    match Translation::open(formats, &request.asked, &request.body, &target) {
        Ok(translated) => Ok(Ok(translated)),
        Err(refusal) => {
            let reason = if refusal.unsupported {
                Reason::UnsupportedParameter
            } else {
                Reason::InvalidRequest
            };
            let failure = Failure::new(reason, refusal.message).param(refusal.param);
            if refusal.unsupported {
                Ok(Err(Fault::unsupported(failure)))
            } else {
                Err(failure)
            }
        }
    }
}

impl Course {
    /// Whether the candidate can be asked again without the seals that it refused: there are some, which the caller's policy lets
    /// be left out, and that was not done before.
    pub(super) fn may_be_unsealed(&self, request: &Request) -> bool {
        let declared = self.candidate.parameters.as_ref();
        if self.unsealed || request.rejects_unsupported(declared.and_then(|it| it.reject)) {
            return false;
        }
        let change = Change {
            model: &self.candidate.upstream_model,
            output_cap: None,
        };
        let body = self.asked(request).prepare(&request.body, &change);
        unsealed(request, self, &body).is_some()
    }

    /// The caller's and the candidate's dialect, where they differ.
    fn formats(&self, request: &Request) -> Option<(Format, Format)> {
        let upstream = self.candidate.dialect();
        if upstream == request.call.dialect {
            return None;
        }
        format(request.call.dialect).zip(format(upstream))
    }
}
