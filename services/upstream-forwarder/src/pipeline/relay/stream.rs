//! A streamed answer: passed on as it arrives, event by event, without anything that the caller may not see.
//!
//! What one read of the upstream's connection brought together goes out as one frame (FWD-2). While the caller is slow
//! nothing is read, and the upstream's idle timer stands still (FWD-8).

use std::{sync::Arc, time::Duration};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, header};
use switchboard_dialects::{
    AnswerStream, Class, Form, ReadOptions, StreamOptions, UpstreamError,
    sse::{Codec, Framing, ObjectSplitter},
};
use switchboard_proto::inference::v1::StreamProgress;

use super::{
    super::{Conductor, Course, Ended, admit::Request, head, keep, settle},
    BOM, Begun, Relayed, collect, document, public_model, refuse,
};
use crate::{
    adapter::Reading,
    asked::shape,
    caller::Caller,
    domain::{
        declared,
        outcome::{Fault, Kind},
        settlement::End,
    },
    upstream::Decoded,
    vault::Secret,
};

/// What is gathered of one read at most, bytes. With the pipe's room (`stream_buffer`), the text kept for counting
/// (`count_output`) and one read more, a stream's memory stays within FWD-2's 256 KiB by default.
const GATHER: usize = 32 << 10;

pub(super) async fn relay(
    conductor: &Conductor,
    request: &Arc<Request>,
    course: &mut Course,
    caller: &mut Caller,
    headers: &HeaderMap,
    mut body: Decoded,
    secret: Option<&Secret>,
) -> Result<Relayed, Ended> {
    let upstream_head = head::of_stream(request, &course.rate_limits, Some((course, headers)));
    caller.set_head(upstream_head);
    let adapter = conductor.adapters.of(&course.candidate.provider);
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let asked = course.asked(request);
    let stream = asked.stream(options(conductor, request, course));
    let framing = asked.framing(content_type);
    course.stream = Some(stream);
    let reading = match framing {
        Some(Framing::Events) => Reading::Events,
        Some(Framing::Whole) => Reading::Whole,
        _ => adapter.reading(content_type, conductor.config.event_limit),
    };
    // What begins like events is a stream, whatever it is called, and what begins like a document is none.
    let called_json = framing.is_none() && Framing::of(content_type) == Framing::Whole;
    let mut whole = Whole::Never;
    let mut codec = match reading {
        Reading::Events => {
            whole = Whole::Beginning(b"{[");
            None
        }
        Reading::Coded(codec) => Some(codec),
        Reading::WholeOrArray(codec) => {
            whole = Whole::Beginning(b"{");
            Some(codec)
        }
        Reading::Whole if called_json => {
            whole = Whole::Always;
            None
        }
        Reading::Whole => {
            let whole = (body, content_type);
            let relayed = relay_whole(conductor, request, course, caller, whole, secret);
            return Box::pin(relayed).await;
        }
    };
    let raw = request.asked.form() == Form::Bytes;
    let mut begun = Begun::Nothing;
    // Who keeps the answer is written down while the model thinks. Another attempt's answer is another one.
    let mut binding = None;
    course.bound = false;
    loop {
        let (due, late) = course.patience(begun);
        let next = keep::meanwhile(&mut binding, body.next());
        let read = match caller.attend_until(due, next).await? {
            Ok(Some(Ok(mut bytes))) => {
                if begun == Begun::Nothing && bytes.starts_with(BOM) && !raw {
                    bytes.advance(BOM.len());
                }
                let events = called_json && begins(&bytes, EVENTS);
                if begun == Begun::Nothing && events {
                    codec = None;
                } else if begun == Begun::Nothing && called_json && begins(&bytes, b"[") {
                    codec.get_or_insert_with(|| {
                        Box::new(ObjectSplitter::new(conductor.config.event_limit))
                    });
                } else if begun == Begun::Nothing && is_document(request, &bytes, whole) {
                    let whole = (body.unread(bytes), content_type);
                    let relayed = relay_whole(conductor, request, course, caller, whole, secret);
                    return Box::pin(relayed).await;
                }
                push_at_hand(course, &mut body, &mut codec, bytes).await
            }
            Ok(Some(Err(error))) => {
                tracing::debug!(%error, "upstream broke off in mid-stream");
                course.broke_off(Failed::Cut)
            }
            Ok(None) => course.finish_stream(&mut codec),
            Err(_) => course.broke_off(Failed::Late(late)),
        };
        let (out, state) = look(course);
        if begun != Begun::Content {
            begun = course.begun();
        }
        if let Some(id) = course.stored_id() {
            binding = Some(keep::begin(conductor, request, course, id));
        }
        if state.done {
            settle::count_tokens(conductor, course, request, caller).await;
        }
        if let Some(out) = out {
            request.written(conductor, &course.live).await;
            if let Some(binding) = binding.take() {
                caller.attend(binding).await?;
            }
            let progress = course.progress();
            caller.pass(out, state.done, progress).await?;
        } else if state.done {
            // The end of bytes is nothing but an end.
            caller.pass(Bytes::new(), true, None).await?;
        }
        if state.begins {
            course.live.note(&conductor.journal, |_| ());
        }
        match read {
            Ok(()) if state.done => {
                if let Some(stream) = course.stream.as_ref().filter(|_| keep::may_owe(request)) {
                    let (finished, usage) = (stream.finished(), stream.usage());
                    Box::pin(keep::seen(conductor, request, finished, usage)).await;
                }
                drain(&mut body).await;
                return Ok(Relayed::Served(End::Complete(200)));
            }
            Ok(()) => {}
            Err(failed) => {
                return fail(request, course, caller, failed, state.committed, secret);
            }
        }
    }
}

/// What is a document instead of a stream.
#[derive(Clone, Copy)]
enum Whole {
    Never,
    /// What begins with one of these.
    Beginning(&'static [u8]),
    Always,
}

/// With what the lines of events begin: a field, or a comment. No JSON does.
const EVENTS: &[u8] = b":deir";

/// Whether what begins like this is a document, also under the content type of events, where it mostly is an error: no
/// event begins so. Bytes that mean nothing to us are one only where they are an error beyond doubt.
fn is_document(request: &Request, first: &[u8], whole: Whole) -> bool {
    if request.asked.form() == Form::Bytes {
        let member = first.trim_ascii_start().strip_prefix(b"{");
        return member.is_some_and(|member| member.trim_ascii_start().starts_with(b"\"error\""));
    }
    match whole {
        Whole::Never => false,
        Whole::Beginning(with) => begins(first, with),
        Whole::Always => true,
    }
}

/// Whether bytes begin with one of these, white space apart.
fn begins(bytes: &[u8], with: &[u8]) -> bool {
    let first = bytes.trim_ascii_start().first();
    first.is_some_and(|byte| with.contains(byte))
}

/// What makes events of an upstream's own framing, where it has one.
type Coded = Option<Box<dyn Codec>>;

/// Where the stream stands.
struct State {
    committed: bool,
    done: bool,
    /// This is the first content: the caller has it before it is written down.
    begins: bool,
}

/// Why reading ended.
enum Failed {
    /// The upstream said so, or is no stream.
    Said(Box<UpstreamError>),
    /// The connection broke.
    Cut,
    /// Nothing came in time.
    Late(Kind),
}

fn fail(
    request: &Request,
    course: &Course,
    caller: &mut Caller,
    failed: Failed,
    committed: bool,
    secret: Option<&Secret>,
) -> Result<Relayed, Ended> {
    let fault = match failed {
        Failed::Said(error) if !committed => {
            return refuse(request, course, caller, &error, 200, secret);
        }
        Failed::Said(error) => Fault::said(&error, 200, shape(request.call.dialect)),
        Failed::Cut => Fault::of(Kind::Answer(Class::Cut)),
        Failed::Late(kind) => Fault::of(kind),
    };
    Ok(if committed {
        Relayed::Broke(fault)
    } else {
        Relayed::Failed(fault)
    })
}

fn options(conductor: &Conductor, request: &Request, course: &Course) -> StreamOptions {
    StreamOptions {
        public_model: public_model(request, course).map(str::to_owned),
        text_bound: conductor.config.count_output,
        hold_bound: conductor.config.hold,
        max_event: conductor.config.event_limit,
        rules: declared::rules(&course.candidate),
    }
}

/// Pushes a piece and what came with it in the same read.
async fn push_at_hand(
    course: &mut Course,
    body: &mut Decoded,
    codec: &mut Coded,
    first: Bytes,
) -> Result<(), Failed> {
    let mut gathered = first.len();
    course.push_stream(codec, first)?;
    while gathered < GATHER {
        match body.at_hand().await {
            Some(Some(Ok(bytes))) => {
                gathered += bytes.len();
                course.push_stream(codec, bytes)?;
            }
            Some(Some(Err(_))) => return course.broke_off(Failed::Cut),
            Some(None) => return course.finish_stream(codec),
            None => break,
        }
    }
    Ok(())
}

/// Takes what may go out, and notes how far the answer is.
fn look(course: &mut Course) -> (Option<Bytes>, State) {
    let Some(stream) = course.stream.as_mut() else {
        let nothing = State {
            committed: false,
            done: false,
            begins: false,
        };
        return (None, nothing);
    };
    let out = stream.take();
    let (committed, done) = (stream.committed(), stream.done());
    course.share.set(stream.buffered());
    course.live.set_content(stream.text().bytes());
    let has_content = stream.has_content();
    course.note_usage();
    let begins = has_content && !course.has_content();
    if begins {
        course.first_content();
    }
    let state = State {
        committed,
        done,
        begins,
    };
    (out, state)
}

/// A target that cannot stream serves a streaming caller (FWD-7).
async fn relay_whole(
    conductor: &Conductor,
    request: &Arc<Request>,
    course: &mut Course,
    caller: &mut Caller,
    (mut body, content_type): (Decoded, Option<&str>),
    secret: Option<&Secret>,
) -> Result<Relayed, Ended> {
    let body = match collect(course, caller, &mut body, conductor.config.answer_limit).await? {
        Ok(body) => body,
        Err(kind) => return Ok(Relayed::Failed(Fault::of(kind))),
    };
    let adapter = conductor.adapters.of(&course.candidate.provider);
    let read = document(adapter, body).and_then(|body| {
        if let Some(failure) = declared::rules(&course.candidate).failure_in(&body) {
            return Err(failure);
        }
        let options = ReadOptions {
            content_type,
            ..ReadOptions::default()
        };
        course.asked(request).read(&body, &options)?;
        Ok(body)
    });
    let body = match read {
        Ok(body) => body,
        Err(error) => return refuse(request, course, caller, &error, 200, secret),
    };
    let events = course.asked(request).as_events(&body);
    let read = course
        .push_stream(&mut None, events)
        .and_then(|()| course.with_stream(|stream| stream.finish_whole()));
    let (out, state) = look(course);
    if let Err(failed) = read {
        return fail(request, course, caller, failed, state.committed, secret);
    }
    request.written(conductor, &course.live).await;
    if let Some(id) = course.stored_id() {
        Box::pin(keep::bind(conductor, request, course, caller, id)).await?;
    }
    settle::count_tokens(conductor, course, request, caller).await;
    caller.pass(out.unwrap_or_default(), true, None).await?;
    Ok(Relayed::Served(End::Complete(200)))
}

/// Reads what is left of a finished answer, so that its connection can be used again.
async fn drain(body: &mut Decoded) {
    let rest = async {
        let mut bytes = 0;
        while bytes < GATHER
            && let Some(Ok(piece)) = body.next().await
        {
            bytes += piece.len();
        }
    };
    let _ = tokio::time::timeout(Duration::from_millis(100), rest).await;
}

impl Course {
    /// Under which id the upstream keeps the answer, while that is not written down.
    fn stored_id(&self) -> Option<String> {
        if self.bound {
            return None;
        }
        self.stream.as_deref()?.stored_id().map(str::to_owned)
    }

    /// Where the stream stands, for an edge that must end it in our place. What never changes is told once.
    fn progress(&mut self) -> Option<StreamProgress> {
        let stream = self.stream.as_deref()?;
        if self.introduced
            && let Some(next_sequence) = stream.next_sequence()
        {
            return Some(StreamProgress {
                next_sequence,
                ..StreamProgress::default()
            });
        }
        let at = stream.progress()?;
        self.introduced = true;
        Some(StreamProgress {
            response_id: at.response_id,
            created_at: at.created_at,
            model: at.model,
            next_sequence: at.next_sequence,
        })
    }

    /// How far the answer is once bytes of it came.
    fn begun(&self) -> Begun {
        if self.has_content() {
            Begun::Content
        } else {
            Begun::Bytes
        }
    }

    /// The upstream will say no more. Where every answer had its finish reason by then nothing of it is missing, just as
    /// when the body ends without `[DONE]`.
    fn broke_off(&mut self, failed: Failed) -> Result<(), Failed> {
        match self.stream.as_deref_mut() {
            Some(stream) if stream.complete() => stream.finish().map_err(|_| failed),
            _ => Err(failed),
        }
    }

    fn push_stream(&mut self, codec: &mut Coded, bytes: Bytes) -> Result<(), Failed> {
        let Some(codec) = codec else {
            return self.with_stream(|stream| stream.push(bytes));
        };
        let mut events = BytesMut::new();
        let read = codec.push(&bytes, &mut events);
        self.with_stream(|stream| stream.push(events.freeze()))?;
        read.map_err(Failed::Said)
    }

    fn finish_stream(&mut self, codec: &mut Coded) -> Result<(), Failed> {
        if let Some(codec) = codec {
            let rest = codec.finish();
            self.with_stream(|stream| stream.push(rest))?;
        }
        self.with_stream(|stream| stream.finish())
    }

    fn with_stream(
        &mut self,
        work: impl FnOnce(&mut dyn AnswerStream) -> Result<(), Box<UpstreamError>>,
    ) -> Result<(), Failed> {
        match self.stream.as_deref_mut() {
            Some(stream) => work(stream).map_err(Failed::Said),
            None => Err(Failed::Cut),
        }
    }
}
