//! Whole answers, compressed for callers that take it.

use std::{convert::Infallible, future::ready};

use axum::{
    body::Body,
    http::{HeaderMap, Request, Response, header},
};
use http_body::Body as _;
use tower::{Layer as _, ServiceExt as _};
use tower_http::compression::{
    CompressionLayer,
    predicate::{And, NotForContentType, Predicate as _, SizeAbove},
};

/// See the module's page.
#[derive(Clone)]
pub(crate) struct Compression(CompressionLayer<And<SizeAbove, NotForContentType>>);

impl Compression {
    /// For answers of at least `least` bytes.
    pub(crate) fn from(least: u16) -> Self {
        let worth_it = SizeAbove::new(least).and(NotForContentType::IMAGES);
        Self(CompressionLayer::new().compress_when(worth_it))
    }

    /// What a request says of the codings that its answer may have.
    pub(crate) fn accepted(request: &HeaderMap) -> HeaderMap {
        let name = header::ACCEPT_ENCODING;
        let values = request.get_all(&name).iter().cloned();
        values.map(|value| (name.clone(), value)).collect()
    }

    /// The answer as the caller takes it. What has no length yet is left alone: a coding would keep a stream's pieces together
    /// until there are enough of them, and its body has room for the state of every coding as long as it is open.
    pub(crate) async fn apply(
        &self,
        accepted: HeaderMap,
        answer: Response<Body>,
    ) -> Response<Body> {
        if answer.body().size_hint().exact().is_none() {
            return answer;
        }
        let mut asked = Request::new(());
        *asked.headers_mut() = accepted;
        let mut answer = Some(answer);
        // It is asked once.
        let answered = tower::service_fn(move |_: Request<()>| {
            ready(Ok::<_, Infallible>(answer.take().unwrap_or_default()))
        });
        match self.0.layer(answered).oneshot(asked).await {
            Ok(answer) => answer.map(Body::new),
            Err(never) => match never {},
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::stream;

    use super::*;

    #[tokio::test]
    async fn what_goes_out_piece_by_piece_is_left_alone() {
        let compression = Compression::from(1);
        let mut accepted = HeaderMap::new();
        accepted.insert(header::ACCEPT_ENCODING, "gzip".parse().unwrap());
        let coding = |answer: &Response<Body>| {
            let value = answer.headers().get(header::CONTENT_ENCODING)?;
            value.to_str().ok().map(str::to_owned)
        };
        let whole = Response::new(Body::from("[1,2,3]"));
        let whole = compression.apply(accepted.clone(), whole).await;
        assert_eq!(coding(&whole).as_deref(), Some("gzip"));
        let pieces = stream::iter([Ok::<_, Infallible>(Bytes::from("[1,"))]);
        let pieces = Response::new(Body::from_stream(pieces));
        let pieces = compression.apply(accepted, pieces).await;
        assert_eq!(coding(&pieces), None);
    }
}
