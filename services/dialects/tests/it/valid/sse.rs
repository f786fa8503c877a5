//! Events as we write them: `event: X` where the dialect has names, `data: ` and one line of JSON, a blank line; LF, nothing else.

/// An event: its name, and its data.
pub(crate) type Event<'a> = (Option<&'a str>, &'a str);

/// Reads events that must be written exactly so.
pub(crate) fn strict(text: &str) -> Result<Vec<Event<'_>>, String> {
    let mut events = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (event, after) = rest
            .split_once("\n\n")
            .ok_or_else(|| format!("an event without a blank line after it: {rest}"))?;
        let (name, data) = match event.strip_prefix("event: ") {
            Some(named) => {
                let (name, data) = named.split_once('\n').ok_or("a name without data")?;
                (Some(name), data)
            }
            None => (None, event),
        };
        let data = data
            .strip_prefix("data: ")
            .ok_or_else(|| format!("no `data: `: {event}"))?;
        if data.contains(['\n', '\r']) {
            return Err(format!("more than one line: {data:?}"));
        }
        events.push((name, data));
        rest = after;
    }
    Ok(events)
}
