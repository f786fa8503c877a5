//! What Anthropic's API demands of a request that is written in it (PROTOCOLS §7.1, §11.1): turns that alternate and begin
//! with the user's, results of tools first in the turn after their calls and in the order of the calls, ids of a narrow
//! alphabet, texts that are not blank.

mod ids;
mod marks;
pub(crate) mod media;
pub(crate) mod model;
pub(crate) mod settings;
#[cfg(test)]
mod tests;
pub(crate) mod tools;

use std::borrow::Cow;

use self::ids::{Called, Ids};
pub(crate) use self::marks::take as mark;
use crate::convert::Format;
use crate::convert::names::{Alphabet, Names};
use crate::convert::node::{Node, one_line};
use crate::convert::seal::Seal;
use crate::json::{Cursor, Kind};

/// What the user says first where the model would.
const BEGIN: &str = "(The conversation begins.)";

/// The conversation.
#[derive(Debug)]
pub(crate) struct Turns<'a> {
    system: Vec<Node<'a>>,
    list: Vec<Turn<'a>>,
    ids: Ids,
    called: Vec<String>,
    names: Names,
}

impl Default for Turns<'_> {
    fn default() -> Self {
        Self {
            system: Vec::new(),
            list: Vec::new(),
            ids: Ids::default(),
            called: Vec::new(),
            names: Names::new(Alphabet::Anthropic),
        }
    }
}

#[derive(Debug)]
struct Turn<'a> {
    user: bool,
    /// Results of tools with the number of their calls; they come first.
    results: Vec<(usize, Node<'a>)>,
    blocks: Vec<Block<'a>>,
}

#[derive(Debug)]
enum Block<'a> {
    Text(Cow<'a, str>, Option<Node<'a>>),
    Thinking(Node<'a>),
    Call(Node<'a>),
    Other(Node<'a>),
}

impl<'a> Block<'a> {
    fn node(self) -> Node<'a> {
        match self {
            Self::Text(text, mark) => text_block(text, mark),
            Self::Thinking(node) | Self::Call(node) | Self::Other(node) => node,
        }
    }
}

impl<'a> Turns<'a> {
    fn turn(&mut self, user: bool) -> &mut Turn<'a> {
        if self.list.last().is_none_or(|turn| turn.user != user) {
            self.list.push(Turn {
                user,
                results: Vec::new(),
                blocks: Vec::new(),
            });
        }
        let last = self.list.len() - 1;
        // There is one: it was pushed or found.
        #[expect(
            clippy::indexing_slicing,
            reason = "the index is that of the last turn, which exists"
        )]
        &mut self.list[last]
    }

    /// Instructions. Those amid the conversation cannot stand in `system` without losing their place: they are said by the
    /// user, marked.
    pub(crate) fn instruct(&mut self, text: Cow<'a, str>, mark: Option<Node<'a>>) {
        if text.trim().is_empty() {
            return;
        }
        if self.list.is_empty() {
            self.system.push(text_block(text, mark));
        } else {
            let marked = format!("<system>\n{text}\n</system>");
            self.turn(true)
                .blocks
                .push(Block::Text(marked.into(), mark));
        }
    }

    /// Instructions of our own, behind the caller's.
    fn instruct_also(&mut self, text: &'static str) {
        self.system.push(text_block(text.into(), None));
    }

    /// The user says something.
    pub(crate) fn user_text(&mut self, text: Cow<'a, str>, mark: Option<Node<'a>>) {
        if !text.trim().is_empty() {
            self.turn(true).blocks.push(Block::Text(text, mark));
        }
    }

    /// The user shows something.
    pub(crate) fn user(&mut self, block: Node<'a>) {
        self.turn(true).blocks.push(Block::Other(block));
    }

    /// The model said something.
    pub(crate) fn text(&mut self, text: Cow<'a, str>, mark: Option<Node<'a>>) {
        if !text.trim().is_empty() {
            self.turn(false).blocks.push(Block::Text(text, mark));
        }
    }

    /// The model thought. Only this API's own thoughts can go back to it: `false` where they are left out.
    pub(crate) fn thought(&mut self, text: &str, seal: Option<Seal<'_>>) -> bool {
        let Some(seal) = seal else {
            return false;
        };
        let Some(value) = seal.for_target(Format::Anthropic) else {
            return false;
        };
        let block = if seal.redacted {
            Node::object([
                ("type", Node::text("redacted_thinking")),
                ("data", Node::text(value.to_owned())),
            ])
        } else {
            Node::object([
                ("type", Node::text("thinking")),
                ("thinking", Node::text(text.to_owned())),
                ("signature", Node::text(value.to_owned())),
            ])
        };
        self.turn(false).blocks.push(Block::Thinking(block));
        true
    }

    /// The model called a tool; `input` is an object.
    pub(crate) fn call(&mut self, id: &str, name: &str, input: Node<'a>) {
        self.turn(false);
        let id = self.ids.call(id, self.list.len() - 1);
        if !self.called.iter().any(|called| called == name) {
            self.called.push(name.to_owned());
        }
        let said = self.names.said(name.into()).into_owned();
        let call = Node::object([
            ("type", Node::text("tool_use")),
            ("id", Node::text(id)),
            ("name", Node::text(said)),
            ("input", input),
        ]);
        self.turn(false).blocks.push(Block::Call(call));
    }

    /// What a tool gave. It stands in the turn after its call's, whatever was said since. A result of no call is none: who
    /// reads a caller's request refuses it.
    pub(crate) fn result(&mut self, id: &str, content: Vec<Node<'a>>, error: bool) {
        let Some(Called { number, id, turn }) = self.ids.result(id) else {
            return;
        };
        let mut block = Node::object([
            ("type", Node::text("tool_result")),
            ("tool_use_id", Node::text(id)),
        ]);
        let mut content: Vec<_> = content.into_iter().filter(|node| !is_blank(node)).collect();
        if let Some(only) = plain(&mut content) {
            block.put("content", only);
        } else if !content.is_empty() {
            block.put("content", Node::Array(content));
        }
        if error {
            block.put("is_error", Node::Bool(true));
        }
        if turn + 1 == self.list.len() {
            self.turn(true);
        }
        // Turns alternate, so that the one after a turn of the model's is the user's.
        if let Some(after) = self.list.get_mut(turn + 1) {
            after.results.push((number, block));
        }
    }

    /// The tools that were called, and their names.
    fn called(&mut self) -> (Vec<String>, &mut Names) {
        (std::mem::take(&mut self.called), &mut self.names)
    }

    /// Whether the model's last turn goes on, or ends the conversation, and does not begin with a thought of its own: then no
    /// budget of thought is taken.
    fn resumes_without_thought(&self) -> bool {
        let ends = self.list.last().is_some_and(|turn| !turn.user);
        let mut turns = self.list.iter().rev();
        turns.find(|turn| !turn.user).is_some_and(|turn| {
            let calls = turn
                .blocks
                .iter()
                .any(|block| matches!(block, Block::Call(_)));
            let thinks = matches!(turn.blocks.first(), Some(Block::Thinking(_)));
            (calls || ends) && !thinks
        })
    }

    /// Puts `system` and `messages` into a body. A conversation of instructions alone is said by the user; before a first turn of
    /// the model's the user says that it begins; what the model is to go on with does not end in white space. Gives the names of tools.
    fn finish(mut self, body: &mut Node<'a>) -> Names {
        if self.list.is_empty() && !self.system.is_empty() {
            let said = std::mem::take(&mut self.system);
            let blocks = &mut self.turn(true).blocks;
            blocks.extend(said.into_iter().map(Block::Other));
        }
        if self.list.first().is_some_and(|turn| !turn.user) {
            let blocks = vec![Block::Text(BEGIN.into(), None)];
            let begin = Turn {
                user: true,
                results: Vec::new(),
                blocks,
            };
            self.list.insert(0, begin);
        }
        let last = self.list.last_mut().filter(|turn| !turn.user);
        if let Some(Block::Text(text, _)) = last.and_then(|turn| turn.blocks.last_mut()) {
            *text = Cow::Owned(text.trim_end().to_owned());
        }
        if let Some(only) = plain(&mut self.system) {
            body.put("system", only);
        } else if !self.system.is_empty() {
            body.put("system", Node::Array(self.system));
        }
        let turns = self.list.into_iter().map(|mut turn| {
            turn.results.sort_by_key(|(number, _)| *number);
            let results = turn.results.into_iter().map(|(_, block)| block);
            let blocks = turn.blocks.into_iter().map(Block::node);
            let mut blocks: Vec<_> = results.chain(blocks).collect();
            let role = if turn.user { "user" } else { "assistant" };
            let content = plain(&mut blocks).unwrap_or(Node::Array(blocks));
            Node::object([("role", Node::text(role)), ("content", content)])
        });
        body.put("messages", Node::Array(turns.collect()));
        self.names
    }
}

/// Whether it is a text block without a text.
fn is_blank(node: &Node<'_>) -> bool {
    let Node::Object(members) = node else {
        return false;
    };
    let text = members.iter().find(|(key, _)| key == "text");
    matches!(text, Some((_, Node::Text(text))) if text.trim().is_empty())
}

/// The text where it is all that there is, as a string.
fn plain<'a>(blocks: &mut [Node<'a>]) -> Option<Node<'a>> {
    let [Node::Object(members)] = blocks else {
        return None;
    };
    let text = members.len() == 2
        && members
            .first()
            .is_some_and(|(_, kind)| *kind == Node::text("text"));
    let (_, text) = text.then(|| members.pop()).flatten()?;
    Some(text)
}

/// A text block, with a cache mark.
pub(crate) fn text_block<'a>(text: Cow<'a, str>, mark: Option<Node<'a>>) -> Node<'a> {
    let mut block = Node::object([("type", Node::text("text")), ("text", Node::Text(text))]);
    block.put_some("cache_control", mark);
    block
}

/// Arguments as an object: none are `{}`; what is no object goes into `_raw` of one, so that nothing of it is lost.
pub(crate) fn input<'a>(arguments: Cow<'a, str>) -> Node<'a> {
    let text = arguments.trim();
    if text.is_empty() || text == "null" {
        return Node::raw("{}");
    }
    let mut cursor = Cursor::new(text);
    let valid = cursor.skip().is_ok_and(|value| value.kind == Kind::Object) && cursor.end().is_ok();
    if valid {
        return Node::raw(one_line(text).into_owned());
    }
    Node::object([("_raw", Node::text(text.to_owned()))])
}

/// The input of a tool of free text.
pub(crate) fn free_input<'a>(text: Cow<'a, str>) -> Node<'a> {
    Node::object([("input", Node::Text(text))])
}
