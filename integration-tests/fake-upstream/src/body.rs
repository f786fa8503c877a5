//! Performs a plan: the body of an answer, pulled by the protocol. Dropping it means that the caller left.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, StreamBody};

use crate::format::Usage;
use crate::log::{Outcome, Ticket};
use crate::plan::Part;
use crate::script::Action;
use crate::wire::Line;

pub(crate) type AnswerBody = UnsyncBoxBody<Bytes, Infallible>;

pub(crate) struct Performance {
    pub(crate) parts: VecDeque<Part>,
    pub(crate) line: Arc<Line>,
    pub(crate) ticket: Ticket,
    pub(crate) usage_at_end: Option<Usage>,
    /// The line's flush count when the head, or the last write, was handed over.
    pub(crate) mark: u64,
    pub(crate) begun: bool,
}

impl Performance {
    pub(crate) fn into_body(self) -> AnswerBody {
        let frames = stream::unfold(self, |mut performance| async move {
            let frame = performance.next().await?;
            Some((Ok(Frame::data(frame)), performance))
        });
        StreamBody::new(frames).boxed_unsync()
    }

    /// The next write, after the actions that stand before it.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.parts.pop_front() {
                None => {
                    self.complete();
                    return None;
                }
                Some(Part::Act(action)) => {
                    self.line.flushed_since(self.mark).await;
                    perform(action, &self.line, &mut self.ticket).await;
                }
                Some(Part::Write {
                    bytes,
                    events,
                    tokens,
                }) => {
                    if self.begun {
                        self.line.flushed_since(self.mark).await;
                    }
                    self.ticket.wrote(bytes.len(), events, tokens);
                    if self.parts.is_empty() {
                        self.complete();
                    }
                    self.begun = true;
                    self.mark = self.line.flushes();
                    return Some(bytes);
                }
            }
        }
    }

    fn complete(&mut self) {
        if let Some(usage) = self.usage_at_end.take() {
            self.ticket.served(usage);
        }
        self.ticket.finish(Outcome::Completed);
    }
}

/// Does one action. The ones that end the connection never return.
pub(crate) async fn perform(action: Action, line: &Line, ticket: &mut Ticket) {
    match action {
        Action::Delay(delay) => tokio::time::sleep(delay).await,
        Action::Gate(gate) => gate.wait().await,
        Action::Hang => std::future::pending().await,
        Action::Reset | Action::Close => {
            ticket.finish(Outcome::Cut);
            line.drop_connection(matches!(action, Action::Reset));
            std::future::pending().await
        }
        // Both are resolved when the plan is made, and mean nothing before the head.
        Action::Write(_) | Action::End => {}
    }
}
