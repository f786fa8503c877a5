//! What a call says about itself, read once.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use secrecy::SecretString;
use switchboard_common::{
    error::{Failure, Reason},
    ids::RequestId,
};
use switchboard_proto::{
    common::v1::{Dialect, Endpoint},
    inference::v1::{RelayHead, RelayRequest},
};
use tonic::{Request, Status, Streaming};

use crate::pipeline::{Body, Call, Conductor};

/// A call before its body is known.
pub(super) struct Intake {
    pub(super) call: Call,
}

impl Intake {
    /// For a call whose head is yet to be read.
    pub(super) fn new(conductor: &Arc<Conductor>) -> Self {
        Self {
            call: Call {
                request_id: String::new(),
                dialect: Dialect::Unspecified,
                endpoint: Endpoint::Unspecified,
                credential: SecretString::default(),
                peer: None,
                headers: Vec::new(),
                resource: String::new(),
                content_type: String::new(),
                query: String::new(),
                client_request_id: String::new(),
                tags: String::new(),
                hops: 0,
                arrived_us: conductor.clock.now_us(),
                content_length: None,
                body: Body::Whole(Bytes::new()),
            },
        }
    }

    /// For a caller on gRPC: the key stands in `authorization`, the address is the connection's.
    pub(super) fn of<T>(conductor: &Arc<Conductor>, request: &Request<T>) -> Self {
        let mut intake = Self::new(conductor);
        let call = &mut intake.call;
        call.request_id = RequestId::generate(call.arrived_us / 1_000).to_string();
        let given = request.metadata().get("authorization");
        let given = given.and_then(|value| value.to_str().ok()).unwrap_or("");
        let (scheme, key) = given.split_once(' ').unwrap_or(("", ""));
        if scheme.eq_ignore_ascii_case("bearer") {
            call.credential = SecretString::from(key.trim());
        }
        call.peer = request.remote_addr().map(|address| address.ip());
        intake
    }

    pub(super) fn request_id(&self) -> String {
        self.call.request_id.clone()
    }

    /// A call that the edge relays.
    pub(super) fn relayed(
        self,
        first: RelayRequest,
        rest: Option<Streaming<RelayRequest>>,
    ) -> Result<Call, Status> {
        let head = first
            .head
            .ok_or_else(|| wrong("the first message has no head"))?;
        let id: RequestId = head
            .request_id
            .parse()
            .map_err(|_| wrong("request_id is no UUID"))?;
        let (dialect, endpoint) = (head.dialect(), head.endpoint());
        let RelayHead {
            client_request_id,
            credential,
            peer,
            headers,
            resource,
            content_length,
            tags,
            hops,
            arrived_us,
            content_type,
            query,
            ..
        } = head;
        let body = match rest {
            Some(rest) if !first.end => Body::Pieces(first.body, Box::new(rest)),
            _ => Body::Whole(first.body),
        };
        Ok(Call {
            // As we write it: it is a key.
            request_id: id.to_string(),
            dialect,
            endpoint,
            credential: SecretString::from(credential),
            peer: address(&peer),
            headers,
            resource,
            content_type: bounded(content_type, 256),
            query: bounded(query, 2_048),
            client_request_id: bounded(client_request_id, 256),
            tags: bounded(tags, 1_024),
            hops,
            arrived_us: if arrived_us > 0 {
                arrived_us
            } else {
                self.call.arrived_us
            },
            content_length,
            body,
        })
    }
}

/// An address with or without a port.
fn address(text: &str) -> Option<IpAddr> {
    let alone = text.parse::<IpAddr>().ok();
    alone.or_else(|| text.parse::<std::net::SocketAddr>().ok().map(|a| a.ip()))
}

/// A caller's text, bounded.
pub(super) fn bounded(mut text: String, limit: usize) -> String {
    let end = text.floor_char_boundary(limit);
    text.truncate(end);
    text
}

fn wrong(text: &str) -> Status {
    Failure::new(Reason::InvalidRequest, text).into()
}

/// Nothing new is taken, or the id is in use.
pub(super) fn not_taken() -> Status {
    Failure::new(
        Reason::Unavailable,
        "the gateway is shutting down, or this request runs already",
    )
    .retry_after(std::time::Duration::from_secs(1))
    .into()
}
