//! admit: who calls, what for, and may they (SPEC AUTH-4, ROUTE-3, FWD-13).
//!
//! Nothing is taken yet: whatever fails here costs nobody anything and leaves no row. The body is read only after its
//! sender is known, so that strangers cannot fill the memory.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use secrecy::SecretString;
use switchboard_common::{
    error::{Failure, Reason},
    grpc::trace_id,
};
use switchboard_dialects::{DialectRequest, Form};
use switchboard_proto::{
    billing::v1::Party,
    common::v1::{Dialect, Endpoint},
    inference::v1::{Header, RelayRequest},
    scheduler::v1::ResponseBinding,
};
use tokio::time::Instant;
use tonic::Streaming;
use xxhash_rust::xxh3::Xxh3;

use super::{Conductor, Course, Ended, head, keep, limits, models, select::expected_output};
use crate::{
    asked::{self, Asking, Question},
    caller::Caller,
    domain::{
        admission,
        catalogue::{Catalogue, Resolved},
        settlement::{End, Story},
    },
    pipe::{Share, Stop},
    roster::Live,
    tokens::Prompt,
    upstream::Pieces,
};

/// One request as it came, whoever brought it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) request_id: String,
    pub(crate) dialect: Dialect,
    pub(crate) endpoint: Endpoint,
    pub(crate) credential: SecretString,
    pub(crate) peer: Option<IpAddr>,
    /// The caller's headers; what goes on is decided when it is sent.
    pub(crate) headers: Vec<Header>,
    /// What the path names: a model's or a response's id.
    pub(crate) resource: String,
    /// The body's type.
    pub(crate) content_type: String,
    /// The query, without the key.
    pub(crate) query: String,
    pub(crate) client_request_id: String,
    pub(crate) tags: String,
    pub(crate) hops: u32,
    /// When the caller's request arrived, Unix microseconds.
    pub(crate) arrived_us: i64,
    pub(crate) content_length: Option<u64>,
    pub(crate) body: Body,
}

/// A request's body.
#[derive(Debug)]
pub(crate) enum Body {
    /// At hand.
    Whole(Bytes),
    /// The first piece, and where the others come from.
    Pieces(Bytes, Box<Streaming<RelayRequest>>),
}

/// What admission gives.
pub(crate) enum Admitted {
    /// A request that goes on.
    Request(Arc<Request>),
    /// Nothing is left to do: a list of models.
    Answered(End),
}

/// A request that may go on, pinned to one version of the catalogue.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) call: Call,
    pub(crate) asked: Arc<dyn DialectRequest>,
    /// What is known of the response that is asked for.
    pub(crate) kept: Option<ResponseBinding>,
    pub(crate) body: Bytes,
    pub(crate) who: Arc<admission::Caller>,
    pub(crate) catalogue_version: u64,
    /// That version.
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) resolved: Resolved,
    pub(crate) price_version: u64,
    pub(crate) fingerprint: Bytes,
    /// When the caller's request arrived.
    pub(crate) arrived: Instant,
    /// Its total time, from arrival.
    pub(crate) total: Duration,
    /// The body's bytes, counted while the request lives.
    _share: Share,
}

pub(super) async fn admit(
    conductor: &Arc<Conductor>,
    mut call: Call,
    course: &mut Course,
    caller: &mut Caller,
) -> Result<Admitted, Ended> {
    conductor.accepts(&call)?;
    let now_ms = conductor.clock.now_ms();
    let who = caller
        .attend(conductor.principals.find(&call.credential))
        .await??;
    who.admit(call.peer, now_ms)?;
    course.who = Some(Arc::clone(&who));
    let Some(catalogue) = conductor.supply.current() else {
        return Err(unavailable("the catalogue is not loaded yet").into());
    };
    if models::asked_for(&call) {
        let listed = models::list(&call, &who, &catalogue)?;
        course.rate_limits = caller
            .attend(Box::pin(limits::of(conductor, &who, None)))
            .await?;
        return Ok(models::answer(listed, course, caller));
    }
    let mut share = Share::none(&conductor.bodies);
    let body = receive(conductor, &mut call, &mut share, caller).await?;
    let kept = Box::pin(keep::find(conductor, &call, &who, caller)).await?;
    let asked = asked::read(&call.asking(kept.as_ref()), &body)?;
    let resolved = who.model(&catalogue, asked.model(), call.dialect);
    let resolved = resolved.map_err(|failure| keep::of_kept(kept.as_ref(), failure))?;
    let price_version = match resolved.price_version() {
        None if asked.free() => Some(0),
        known => known,
    };
    let Some(price_version) = price_version else {
        conductor.meters.unpriced.inc();
        tracing::warn!(model = %resolved.public_name, "a model without a price was asked for");
        return Err(admission::unknown_model(asked.model()).into());
    };
    let fingerprint = fingerprint(&who, &call, &resolved, &body);
    let request = Request {
        arrived: conductor.instant_of(call.arrived_us),
        total: total(conductor, &resolved),
        catalogue_version: Catalogue::version(&catalogue),
        catalogue,
        call,
        asked,
        kept,
        body,
        who,
        resolved,
        price_version,
        fingerprint,
        _share: share,
    };
    conductor.retries.request(conductor.clock.now_us());
    request.set_the_clock(conductor, caller);
    Ok(Admitted::Request(Arc::new(request)))
}

impl Conductor {
    /// What is refused whoever calls.
    fn accepts(&self, call: &Call) -> Result<(), Failure> {
        if call.hops > self.config.max_hops {
            let text = format!(
                "`x-switchboard-hops` says that more than {} gateways passed this request on, or is no number: a loop \
                 between Switchboards",
                self.config.max_hops
            );
            return Err(Failure::new(Reason::InvalidRequest, text));
        }
        if self.buffers.full() {
            return Err(unavailable("the gateway's buffers are full"));
        }
        if self.journal.refuses() {
            return Err(unavailable("settlements cannot be written down"));
        }
        let limit = self.config.body_limit;
        if call
            .content_length
            .is_some_and(|length| length > limit as u64)
        {
            return Err(too_large(limit));
        }
        Ok(())
    }

    /// A wall time of now or a short while ago as a time for timers.
    fn instant_of(&self, unix_us: i64) -> Instant {
        let ago = self.clock.now_us().saturating_sub(unix_us).max(0);
        let ago = Duration::from_micros(u64::try_from(ago).unwrap_or(0));
        let now = Instant::now();
        // Another machine's clock may be far off: a request is not older than a minute when it gets here.
        now.checked_sub(ago.min(Duration::from_secs(60)))
            .unwrap_or(now)
    }
}

impl Call {
    fn asking<'a>(&'a self, kept: Option<&'a ResponseBinding>) -> Asking<'a> {
        Asking {
            dialect: self.dialect,
            endpoint: self.endpoint,
            resource: &self.resource,
            content_type: &self.content_type,
            query: &self.query,
            made_by: kept.map_or("", |kept| &kept.public_model),
        }
    }
}

impl Request {
    /// Sets the model's own times and, for a stream, when its head goes out at the latest.
    fn set_the_clock(&self, conductor: &Conductor, caller: &mut Caller) {
        let model = &self.resolved.model;
        let write = match model.write_timeout_ms {
            0 => conductor.config.write_timeout,
            ms => Duration::from_millis(ms),
        };
        caller.set_times(self.arrived + self.total, write);
        if self.streams() {
            caller.expect_stream(
                head::of_stream(self, &[], None),
                self.head_goes_out_at(),
                conductor.config.keep_alive,
                self.asked.keep_alive(),
            );
        }
    }

    /// When a stream's head goes out at the latest, if ever before there is something to say.
    pub(super) fn head_goes_out_at(&self) -> Option<Instant> {
        let after = self
            .resolved
            .model
            .commit_after_ms
            .filter(|_| self.streams() && self.asked.form() != Form::Bytes)?;
        Some(self.arrived + Duration::from_millis(after))
    }

    /// The part of the story that is known from the start.
    pub(super) fn introduce(&self, story: &mut Story) {
        let who = &self.who.principal;
        story.fingerprint = self.fingerprint.clone();
        story.party = self.party();
        story
            .client_request_id
            .clone_from(&self.call.client_request_id);
        story.public_model.clone_from(&self.resolved.public_name);
        story.dialect = self.call.dialect;
        story.stream = self.streams();
        story.generates = self.asked.generates();
        story.images = self.asked.images();
        story.audio_millis = self.asked.audio_millis();
        story.free = self.asked.free();
        story.expected_output = expected_output(self.asked.as_ref(), &self.resolved);
        story.price_version = self.price_version;
        story.catalogue_version = self.catalogue_version;
        story.trace_id = trace_id();
        story.tags.clone_from(&self.call.tags);
        story.abandoned_free = who.abandoned_free;
        story.input_bytes = self.asked.text_bytes();
    }

    /// Whether the answer goes out piece by piece.
    pub(super) fn streams(&self) -> bool {
        self.asked.form() != Form::Whole
    }

    /// Whether a parameter that the account does not take is an error: as the key says, else the account, else the gateway.
    pub(super) fn rejects_unsupported(&self, account: Option<bool>) -> bool {
        self.who.principal.reject_unsupported
            || account.unwrap_or(self.resolved.model.reject_unsupported)
    }

    /// What the model is asked.
    pub(super) fn prompt(&self) -> Prompt {
        Prompt {
            asked: Arc::clone(&self.asked),
            body: self.body.clone(),
        }
    }

    /// What is asked, for the journal; `None`: that is more than it keeps.
    pub(super) fn question(&self, conductor: &Conductor) -> Option<Question> {
        let kept = self.body.len() <= conductor.config.journal.prompt_bytes;
        kept.then(|| Question {
            dialect: self.call.dialect as i32,
            endpoint: self.call.endpoint as i32,
            resource: self.call.resource.clone(),
            content_type: self.call.content_type.clone(),
            query: self.call.query.clone(),
            body: self.body.clone(),
        })
    }

    /// Waits until the line of the attempt that was sent is out of this process.
    pub(super) async fn written(&self, conductor: &Conductor, live: &Live) {
        let question = || self.question(conductor);
        live.written(&conductor.journal, question).await;
    }

    /// Whose money it is.
    pub(super) fn party(&self) -> Party {
        let who = &self.who.principal;
        Party {
            tenant: who.tenant.clone(),
            user: who.user.clone(),
            key_id: who.key_id.clone(),
            key_name: who.key_name.clone(),
            app: String::new(),
            group: who.group.clone(),
            group_multiplier: who.group_multiplier,
            user_multiplier: who.user_multiplier,
            cost_center: who.cost_center.clone(),
        }
    }

    /// The end of its total time, Unix milliseconds.
    pub(super) fn deadline_ms(&self) -> i64 {
        let total = i64::try_from(self.total.as_millis()).unwrap_or(i64::MAX);
        (self.call.arrived_us / 1_000).saturating_add(total)
    }
}

/// Reads the body within its bounds.
async fn receive(
    conductor: &Conductor,
    call: &mut Call,
    share: &mut Share,
    caller: &mut Caller,
) -> Result<Bytes, Ended> {
    let limit = conductor.config.body_limit;
    let count = |share: &mut Share, bytes: usize| {
        if bytes > limit {
            return Err(too_large(limit));
        }
        if conductor.bodies.full() {
            return Err(unavailable("too many request bodies are in flight"));
        }
        share.set(bytes);
        Ok(())
    };
    let (first, mut rest) = match std::mem::replace(&mut call.body, Body::Whole(super::NOTHING)) {
        Body::Whole(body) => {
            count(share, body.len())?;
            return Ok(body);
        }
        Body::Pieces(first, rest) => (first, rest),
    };
    let length = call
        .content_length
        .and_then(|length| length.try_into().ok());
    let mut pieces = Pieces::of(length.unwrap_or(0));
    count(share, first.len())?;
    pieces.add(first, limit).map_err(|_| too_large(limit))?;
    loop {
        let idle = Instant::now() + conductor.config.body_idle;
        let message = match caller.attend_until(idle, rest.message()).await? {
            Ok(Ok(Some(message))) => message,
            Ok(Ok(None)) => return Ok(pieces.into_bytes()),
            // The line broke while the caller was sending.
            Ok(Err(_)) => return Err(Ended::Stopped(Stop::Left)),
            Err(_) => {
                let text = "the request body did not arrive in time";
                return Err(Failure::new(Reason::InvalidRequest, text).into());
            }
        };
        count(share, pieces.len() + message.body.len())?;
        pieces
            .add(message.body, limit)
            .map_err(|_| too_large(limit))?;
        if message.end {
            return Ok(pieces.into_bytes());
        }
    }
}

/// Hash of key, dialect, model and body: a second settlement of the id must bear the same (BILL-4). It tells requests apart
/// that got one id by mistake; nobody gains by making two that are alike, since nobody chooses a request's id. So it need not
/// withstand an attacker, and costs a large body less than a copy of it.
fn fingerprint(who: &admission::Caller, call: &Call, resolved: &Resolved, body: &[u8]) -> Bytes {
    let mut hash = Xxh3::new();
    for part in [
        who.principal.key_id.as_bytes(),
        resolved.public_name.as_bytes(),
    ] {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.update(&(call.dialect as i32).to_le_bytes());
    hash.update(body);
    Bytes::copy_from_slice(&hash.digest128().to_le_bytes())
}

fn total(conductor: &Conductor, resolved: &Resolved) -> Duration {
    match resolved.model.total_timeout_ms {
        0 => conductor.config.total_timeout,
        ms => Duration::from_millis(ms),
    }
}

fn too_large(limit: usize) -> Failure {
    let text = format!("the request body is larger than {limit} bytes");
    Failure::new(Reason::BodyTooLarge, text)
}

fn unavailable(text: &str) -> Failure {
    Failure::new(Reason::Unavailable, text).retry_after(Duration::from_secs(1))
}
