//! A provider with everything that the adapter seam has to carry (SPEC DIAL-3): each request is signed over its body with
//! HMAC-SHA256, and a stream comes in AWS's binary event-stream framing, exceptions in frames of their own (CASES C22).
//!
//! It is what a provider's own adapter would be: one value that implements [`Adapter`], and its codec. The payloads are
//! those of `openai.chat`.

mod event_stream;

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderValue;
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use switchboard_forwarder::{Adapter, Draft, Reading, Unusable};

pub use event_stream::{EventStream, encode, exception};

/// The content type of the binary framing.
pub const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";

/// The sample provider. Its accounts' secrets are `ID:KEY`.
#[derive(Debug)]
pub struct Sample;

impl Adapter for Sample {
    fn dress(&self, draft: &mut Draft<'_>) -> Result<(), Unusable> {
        let credential = draft.credential.as_ref().ok_or(Unusable)?;
        let secret = credential.secret.expose_secret();
        let (id, key) = secret.split_once(':').ok_or(Unusable)?;
        let signature = signature(key, draft.url.path(), draft.now, draft.body);
        let text = format!("SAMPLE-HMAC-SHA256 Credential={id}, Signature={signature}");
        let mut value = HeaderValue::try_from(text).map_err(|_| Unusable)?;
        value.set_sensitive(true);
        draft.headers.insert(http::header::AUTHORIZATION, value);
        draft
            .headers
            .insert("x-sample-date", HeaderValue::from(draft.now));
        Ok(())
    }

    fn reading(&self, content_type: Option<&str>, max_event: usize) -> Reading {
        if content_type == Some(CONTENT_TYPE) {
            Reading::Coded(Box::new(EventStream::new(max_event)))
        } else {
            Reading::Whole
        }
    }
}

/// What a request must be signed with: key, path, Unix seconds, body.
#[must_use]
pub fn signature(key: &str, path: &str, now: i64, body: &Bytes) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key.as_bytes()) else {
        return String::new();
    };
    let body = hex::encode(Sha256::digest(body));
    mac.update(format!("POST\n{path}\n{now}\n{body}").as_bytes());
    hex::encode(mac.finalize().into_bytes())
}
