//! Writing a request in Gemini's dialect: what it demands of one, whoever asks (PROTOCOLS §8, §11.7).
//!
//! Roles alternate: what one side says in several turns is one content. The answers to the calls of a turn stand in one
//! content, first, in the order of the calls, under the function's name, which is looked up by the call's id. The first call of a
//! content has its seal; where that was lost, models that demand one get the documented value that skips the check.

pub(in crate::convert) mod media;
pub(in crate::convert) mod model;
pub(in crate::convert) mod settings;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::model::Model;
use crate::convert::fields::Refusal;
use crate::convert::names::{Alphabet, Names};
use crate::convert::node::{Node, one_line, quote_into};
use crate::convert::seal::{SKIP, Seal};
use crate::convert::{Format, gemini::request::Role};
use crate::json::{Cursor, Kind};

/// What the user says first where the model would.
const BEGIN: &str = "(The conversation begins.)";

/// A conversation that is being written.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    model: Model,
    system: Vec<Node<'a>>,
    turns: Vec<Turn<'a>>,
    /// Every call so far.
    calls: Vec<Called<'a>>,
    /// Names of functions.
    names: Names,
    /// A seal that belongs to what the model says next.
    seal: Option<String>,
}

#[derive(Debug)]
struct Called<'a> {
    id: Cow<'a, str>,
    name: Cow<'a, str>,
    /// The turn that it is in.
    turn: usize,
    answered: bool,
}

#[derive(Debug)]
struct Turn<'a> {
    role: Role,
    /// Answers, with the places of their calls.
    answers: Vec<(usize, Node<'a>)>,
    parts: Vec<Node<'a>>,
    calls: bool,
}

impl<'a> Contents<'a> {
    /// Nothing was said yet.
    pub(crate) const fn new(model: Model) -> Self {
        Self {
            model,
            system: Vec::new(),
            turns: Vec::new(),
            calls: Vec::new(),
            names: Names::new(Alphabet::Gemini),
            seal: None,
        }
    }

    fn turn(&mut self, role: Role) -> Option<&mut Turn<'a>> {
        if self.turns.last().is_none_or(|turn| turn.role != role) {
            self.turns.push(Turn {
                role,
                answers: Vec::new(),
                parts: Vec::new(),
                calls: false,
            });
        }
        self.turns.last_mut()
    }

    fn put(&mut self, role: Role, part: Node<'a>) {
        if role == Role::User {
            self.flush();
        }
        if let Some(turn) = self.turn(role) {
            turn.parts.push(part);
        }
    }

    /// Says a seal that nothing came to belong to.
    fn flush(&mut self) {
        if let Some(seal) = self.seal.take()
            && let Some(turn) = self.turn(Role::Model)
        {
            let mut part = text_part(Cow::Borrowed(""));
            part.put("thoughtSignature", Node::text(seal));
            turn.parts.push(part);
        }
    }

    /// Instructions. Those that come before everything else are the system's; later ones stay where they are, marked, as
    /// this dialect has nothing for them there.
    pub(crate) fn instruct(&mut self, text: Cow<'a, str>) {
        if text.is_empty() {
            return;
        }
        if self.turns.is_empty() {
            self.system.push(text_part(text));
        } else {
            let marked = format!("<system>\n{text}\n</system>");
            self.put(Role::User, text_part(Cow::Owned(marked)));
        }
    }

    /// The user says something.
    pub(crate) fn user_text(&mut self, text: Cow<'a, str>) {
        if !text.is_empty() {
            self.put(Role::User, text_part(text));
        }
    }

    /// The user shows something.
    pub(crate) fn user(&mut self, part: Node<'a>) {
        self.put(Role::User, part);
    }

    /// The model said something.
    pub(crate) fn model_text(&mut self, text: Cow<'a, str>) {
        if text.is_empty() {
            return;
        }
        let mut part = text_part(text);
        part.put_some("thoughtSignature", self.seal.take().map(Node::text));
        self.put(Role::Model, part);
    }

    /// The model thought. `false`: it is not this dialect's own thought, and was left out.
    #[must_use]
    pub(crate) fn thought(&mut self, text: Cow<'a, str>, seal: Option<Seal<'_>>) -> bool {
        let Some(own) = seal.and_then(|seal| seal.for_target(Format::Gemini)) else {
            return false;
        };
        self.flush();
        if text.is_empty() {
            self.seal = Some(own.to_owned());
            return true;
        }
        let mut part = text_part(text);
        part.put("thought", Node::Bool(true));
        part.put("thoughtSignature", Node::text(own.to_owned()));
        self.put(Role::Model, part);
        true
    }

    /// The model called a function. `args`: see [`arguments`] and [`free_text`].
    pub(crate) fn call(
        &mut self,
        (id, name): (Cow<'a, str>, Cow<'a, str>),
        args: Node<'a>,
        seal: Option<Seal<'_>>,
    ) {
        let name = self.names.said(name);
        let own = seal.and_then(|seal| seal.for_target(Format::Gemini));
        let seal = own.map(str::to_owned).or_else(|| self.seal.take());
        let needs = self.model.demands_signatures();
        let (called, named) = (id.clone(), name.clone());
        let Some(turn) = self.turn(Role::Model) else {
            return;
        };
        let lost = (!turn.calls && needs).then(|| SKIP.to_owned());
        turn.calls = true;
        let call = Node::object([
            ("id", Node::text(id)),
            ("name", Node::text(name)),
            ("args", args),
        ]);
        let mut part = Node::object([("functionCall", call)]);
        part.put_some("thoughtSignature", seal.or(lost).map(Node::text));
        turn.parts.push(part);
        self.calls.push(Called {
            id: called,
            name: named,
            turn: self.turns.len() - 1,
            answered: false,
        });
    }

    /// What a function gave, in the turn after its call's, whatever was said since: text, and media, which stand in it where the model
    /// takes them there, else behind all answers. An object is the answer itself, all else is its `result`; of a function that failed the
    /// `error`.
    ///
    /// # Errors
    /// No call has this id; `path` names it.
    pub(crate) fn answer(
        &mut self,
        (id, path): (&str, String),
        text: &str,
        failed: bool,
        media: Vec<Node<'a>>,
    ) -> Result<(), Box<Refusal>> {
        self.flush();
        let mut calls = self.calls.iter_mut().enumerate();
        let Some((at, call)) = calls.find(|(_, call)| call.id == id && !call.answered) else {
            return Err(Refusal::invalid(
                path,
                "the id of a call that came before it",
            ));
        };
        call.answered = true;
        let (name, turn) = (call.name.clone(), call.turn);
        let response = if failed {
            Node::object([("error", Node::text(text.to_owned()))])
        } else if is_object(text) {
            Node::raw(one_line(text).into_owned())
        } else {
            Node::object([("result", Node::text(text.to_owned()))])
        };
        let mut answer = Node::object([
            ("id", Node::text(id.to_owned())),
            ("name", Node::text(name)),
            ("response", response),
        ]);
        let inside =
            |part: &Node<'_>| self.model.takes_media_of_tools() && media::is_of_tools(part);
        let (inside, behind): (Vec<_>, Vec<_>) = media.into_iter().partition(inside);
        if !inside.is_empty() {
            answer.put("parts", Node::Array(inside));
        }
        if turn + 1 == self.turns.len() {
            self.turn(Role::User);
        }
        // Turns alternate, so that the one after a turn of the model's is the user's.
        if let Some(after) = self.turns.get_mut(turn + 1) {
            let answer = Node::object([("functionResponse", answer)]);
            after.answers.push((at, answer));
            after.parts.extend(behind);
        }
        Ok(())
    }

    /// The members of the request that say it, `contents` and `systemInstruction`, and what functions are called in it. Instructions alone are said by the user,
    /// as somebody must speak.
    pub(crate) fn finish(mut self) -> (Node<'a>, Names) {
        self.flush();
        let mut body = Node::Object(Vec::new());
        if self.turns.is_empty() && !self.system.is_empty() {
            let turn = (Role::User, std::mem::take(&mut self.system));
            body.put("contents", Node::Array(vec![content(turn)]));
            return (body, self.names);
        }
        let first = self.turns.first().map(|turn| turn.role);
        let begin = (first == Some(Role::Model))
            .then(|| content((Role::User, vec![text_part(Cow::Borrowed(BEGIN))])));
        let turns = self.turns.into_iter().map(|mut turn| {
            // An order that is there stays: of equal keys, too.
            turn.answers.sort_by_key(|(at, _)| *at);
            let answers = turn.answers.into_iter().map(|(_, answer)| answer);
            content((turn.role, answers.chain(turn.parts).collect()))
        });
        body.put(
            "contents",
            Node::Array(begin.into_iter().chain(turns).collect()),
        );
        if !self.system.is_empty() {
            let system = Node::object([("parts", Node::Array(self.system))]);
            body.put("systemInstruction", system);
        }
        (body, self.names)
    }
}

fn content((role, parts): (Role, Vec<Node<'_>>)) -> Node<'_> {
    let role = match role {
        Role::User => "user",
        Role::Model => "model",
    };
    Node::object([("role", Node::text(role)), ("parts", Node::Array(parts))])
}

fn text_part(text: Cow<'_, str>) -> Node<'_> {
    Node::object([("text", Node::text(text))])
}

fn is_object(text: &str) -> bool {
    let mut cursor = Cursor::new(text);
    let object = cursor.skip().is_ok_and(|value| value.kind == Kind::Object);
    object && cursor.end().is_ok()
}

/// Arguments of a call in the history: none at all are `{}` (CASES C13); what is no object, as only a model that erred can
/// have said, is kept as the text that it is, `{"_raw": …}`.
pub(crate) fn arguments(text: Cow<'_, str>) -> Node<'_> {
    if text.trim().is_empty() {
        return Node::raw("{}");
    }
    if is_object(&text) {
        return match text {
            Cow::Borrowed(text) => Node::raw(one_line(text)),
            Cow::Owned(text) => Node::raw(one_line(&text).into_owned()),
        };
    }
    Node::object([("_raw", Node::text(text))])
}

/// Arguments of a tool of free text: to this dialect a function with one string, `input`.
pub(crate) fn free_text(text: &str) -> Node<'static> {
    let mut out = String::from(r#"{"input":"#);
    quote_into(&mut out, text);
    out.push('}');
    Node::raw(out)
}
