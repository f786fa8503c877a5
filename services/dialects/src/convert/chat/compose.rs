
/// The free text in arguments that [`free_text`] asked for; the arguments themselves where they are something else.
pub(crate) fn free_input(arguments: &str) -> Cow<'_, str> {
    let inside = crate::json::member(arguments, "input").and_then(|value| value.text());
    match inside {
        Some(text) => text.decode(arguments),
        None => Cow::Borrowed(arguments),
    }
}
