//! Calls, which may grow side by side, and what stands beside texts: sources and images.

use bytes::BytesMut;

use super::item::Call;
use super::{Open, ResponsesWriter};
use crate::convert::node::quote_into;

impl ResponsesWriter {
    pub(super) fn call(
        &mut self,
        key: u32,
        id: &str,
        name: &str,
        custom: bool,
        out: &mut BytesMut,
    ) {
        self.close(None, out);
        let named = self.saying.names.find(name);
        let number = self.calls.len();
        let mut call = Call {
            key,
            index: self.items.len(),
            id: match id {
                "" => format!("call_{}_{number}", self.seed),
                id => id.to_owned(),
            },
            name: named.map_or_else(|| name.to_owned(), |named| named.name.clone()),
            namespace: named.and_then(|named| named.namespace.clone()),
            custom,
            arguments: String::new(),
            ended: false,
        };
        let item = call.json(&self.call_item(&call), "in_progress");
        call.index = self.added(&item, out);
        self.calls.push(call);
    }

    fn call_item(&self, call: &Call) -> String {
        self.id(if call.custom { "ctc" } else { "fc" }, call.index)
    }

    pub(super) fn arguments(&mut self, key: u32, piece: &str, out: &mut BytesMut) {
        let call = self.calls.iter_mut().find(|call| call.key == key);
        let Some(call) = call.filter(|call| !call.ended && !piece.is_empty()) else {
            return;
        };
        call.arguments.push_str(piece);
        if self.whole {
            return;
        }
        let (index, custom) = (call.index, call.custom);
        let id = self.id(if custom { "ctc" } else { "fc" }, index);
        let mut members = format!(r#","item_id":"{id}","output_index":{index},"delta":"#);
        quote_into(&mut members, piece);
        let kind = match custom {
            true => "response.custom_tool_call_input.delta",
            false => "response.function_call_arguments.delta",
        };
        self.event(kind, &members, out);
    }

    /// A call ends; one that was broken off may not look as if it was complete.
    pub(super) fn call_end(&mut self, key: u32, broken: bool, out: &mut BytesMut) {
        let argued = self
            .calls
            .iter()
            .find(|call| call.key == key && !call.ended);
        let Some(call) = argued else {
            return;
        };
        if call.arguments.is_empty() && !call.custom && !broken {
            self.arguments(key, "{}", out);
        }
        let Some(call) = self.calls.iter_mut().find(|call| call.key == key) else {
            return;
        };
        call.ended = true;
        let (index, custom) = (call.index, call.custom);
        let id = self.id(if custom { "ctc" } else { "fc" }, index);
        let Some(call) = self.calls.iter().find(|call| call.key == key) else {
            return;
        };
        let item = call.json(&id, if broken { "incomplete" } else { "completed" });
        let mut members = format!(r#","item_id":"{id}","output_index":{index}"#);
        let kind = if custom {
            members.push_str(r#","input":"#);
            "response.custom_tool_call_input.done"
        } else {
            members.push_str(r#","name":"#);
            quote_into(&mut members, &call.name);
            members.push_str(r#","arguments":"#);
            "response.function_call_arguments.done"
        };
        quote_into(&mut members, &call.arguments);
        self.event(kind, &members, out);
        self.done(index, item, out);
    }

    /// Where the text comes from. It stands on the text that is open: on an empty one where that has ended.
    pub(super) fn cite(
        &mut self,
        url: &str,
        title: &str,
        span: Option<(u64, u64)>,
        out: &mut BytesMut,
    ) {
        if url.is_empty() {
            return;
        }
        self.part_open(false, out);
        let (start, end) = span.unwrap_or_default();
        let mut json =
            format!(r#"{{"type":"url_citation","start_index":{start},"end_index":{end},"url":"#);
        quote_into(&mut json, url);
        json.push_str(r#","title":"#);
        quote_into(&mut json, title);
        json.push('}');
        let place = self.place();
        let Open::Message {
            part: Some(part), ..
        } = &mut self.open
        else {
            return;
        };
        let number = part.annotations.len();
        part.annotations.push(json.clone());
        let members = format!(r#"{place},"annotation_index":{number},"annotation":{json}"#);
        self.event("response.output_text.annotation.added", &members, out);
    }

    pub(super) fn image(&mut self, data: &str, out: &mut BytesMut) {
        self.close(None, out);
        let id = self.id("ig", self.items.len());
        let head = format!(r#"{{"id":"{id}","type":"image_generation_call","status":"#);
        let index = self.added(&format!(r#"{head}"in_progress","result":null}}"#), out);
        let mut item = format!(r#"{head}"completed","result":"#);
        quote_into(&mut item, data);
        item.push('}');
        self.done(index, item, out);
    }
}
