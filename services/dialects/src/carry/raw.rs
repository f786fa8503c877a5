//! Carrying what is no stream of events.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::AnswerStream;
use crate::error::{Class, UpstreamError};
use crate::text::TextBuffer;
use crate::usage::UsageReport;

/// Carries bytes that mean nothing to us, such as audio: they are content from the first one on.
#[derive(Debug, Default)]
pub struct RawStream {
    out: BytesMut,
    first: Bytes,
    begun: bool,
    done: bool,
    text: TextBuffer,
}

impl AnswerStream for RawStream {
    fn push(&mut self, bytes: Bytes) -> Result<(), Box<UpstreamError>> {
        self.begun |= !bytes.is_empty();
        if self.first.is_empty() && self.out.is_empty() {
            self.first = bytes;
        } else {
            let first = std::mem::take(&mut self.first);
            self.out.put_slice(&first);
            self.out.put_slice(&bytes);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Box<UpstreamError>> {
        if !self.begun {
            let text = "the upstream's answer was empty";
            return Err(Box::new(UpstreamError::found(Class::Empty, text)));
        }
        self.done = true;
        Ok(())
    }

    fn take(&mut self) -> Option<Bytes> {
        if self.out.is_empty() {
            return Some(std::mem::take(&mut self.first)).filter(|first| !first.is_empty());
        }
        Some(self.out.split().freeze())
    }

    fn committed(&self) -> bool {
        self.begun
    }

    fn has_content(&self) -> bool {
        self.begun
    }

    fn done(&self) -> bool {
        self.done
    }

    fn complete(&self) -> bool {
        false
    }

    fn usage(&self) -> Option<&UsageReport> {
        None
    }

    fn text(&self) -> &TextBuffer {
        &self.text
    }

    fn buffered(&self) -> usize {
        self.out.len() + self.first.len()
    }
}
