//! OpenAI's Responses: `POST /v1/responses` and what can be asked of a response that exists (PROTOCOLS §5).
//!
//! A response is kept by the account that made it: [`WholeAnswer::stored_id`](crate::WholeAnswer) and
//! [`AnswerStream::stored_id`](crate::AnswerStream) say under which id. A stream that breaks is ended by
//! [`failed_event`], which has to know where it stood.
//!
//! This module does not speak WebSocket and keeps no conversations.

mod answer;
mod asked;
mod count;
mod envelope;
mod events;
mod failed;
mod request;
mod stored;
mod stream;
mod strings;

pub use count::CountRequest;
pub use failed::failed_event;
pub use request::ResponsesRequest;
pub use stored::{StoredCall, StoredRequest};
