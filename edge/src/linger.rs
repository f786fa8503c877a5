//! What is done with a body that nobody reads to its end: a refusal is often ready before the caller has sent everything.
//!
//! A connection that is closed with unread bytes in it is reset, and a reset can overtake the refusal: the caller sees a
//! broken connection instead of 413. So the rest is read and thrown away, within bounds of size and time, while the refusal
//! goes out. Over HTTP/2 a stream is refused by itself and nothing of this is needed.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Request, Version, header},
};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use switchboard_common::lifecycle::Lifecycle;

/// How much of a refused body is read, and by whom.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    pub(crate) lifecycle: Lifecycle,
}

impl Patience {
    /// A request whose body is read on when it is given up.
    pub(crate) fn wrap(&self, request: Request<Incoming>) -> Request<Body> {
        if request.version() >= Version::HTTP_2 || request.body().is_end_stream() {
            return request.map(Body::new);
        }
        // Reading would invite the caller to send what it rightly holds back.
        let invited = !request.headers().contains_key(header::EXPECT);
        request.map(|body| {
            Body::new(Lingering {
                body: Some(body),
                invited,
                patience: self.clone(),
            })
        })
    }
}

struct Lingering {
    /// `None` once it has ended.
    body: Option<Incoming>,
    /// The caller sends without more ado.
    invited: bool,
    patience: Patience,
}

impl http_body::Body for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.invited = true;
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = std::task::ready!(Pin::new(body).poll_frame(context));
        if !matches!(frame, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Incoming::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take().filter(|body| !body.is_end_stream()) else {
            return;
        };
        if !self.invited || self.patience.lifecycle.killed().is_cancelled() {
            return;
        }
        let Patience { bytes, time, .. } = self.patience;
        let killed = self.patience.lifecycle.killed();
        let rest = async move {
            let mut read = 0_u64;
            while read < bytes
                && let Some(Ok(frame)) = body.frame().await
            {
                read += frame.data_ref().map_or(0, |data| data.len() as u64);
            }
        };
        self.patience.lifecycle.spawn("refused body", async move {
            tokio::select! {
                () = rest => {}
                () = tokio::time::sleep(time) => {}
                () = killed.cancelled() => {}
            }
        });
    }
}
