//! Names of files. OpenAI tells the type of a file by the ending of its name, and refuses one without; other dialects tell the
//! type beside the data, and need no name.

use std::borrow::Cow;

/// The name of a file, with an ending: that which it has, or the one of its type, where the data say a type that has one.
pub(crate) fn with_ending<'a>(name: Option<Cow<'a, str>>, data: &str) -> Cow<'a, str> {
    let name = name.filter(|name| !name.trim().is_empty());
    let name = name.unwrap_or(Cow::Borrowed("file"));
    if has_ending(&name) {
        return name;
    }
    match ending(data) {
        Some(ending) => Cow::Owned(format!("{name}.{ending}")),
        None => name,
    }
}

fn has_ending(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, ending)| {
        (1..=5).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The ending of names of the type that a `data:` URL tells.
fn ending(data: &str) -> Option<&'static str> {
    let (head, _) = data.strip_prefix("data:")?.split_once(',')?;
    let mime = head.split(';').next()?.trim().to_ascii_lowercase();
    Some(match &*mime {
        "application/pdf" => "pdf",
        "text/plain" => "txt",
        "text/markdown" => "md",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/xml" | "application/xml" => "xml",
        "application/json" => "json",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document" => "docx",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "xlsx",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation" => "pptx",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_an_ending_gets_that_of_its_type() {
        let pdf = "data:application/pdf;base64,JVBERi0=";
        for (name, data, expected) in [
            (None, pdf, "file.pdf"),
            (Some(" "), pdf, "file.pdf"),
            (Some("Report"), pdf, "Report.pdf"),
            (Some("A. Smith's report"), pdf, "A. Smith's report.pdf"),
            (Some("a.PDF"), pdf, "a.PDF"),
            (Some("notes.py"), "data:text/plain;base64,eA==", "notes.py"),
            (Some("x"), "data:application/x-odd;base64,eA==", "x"),
            (Some("x"), "JVBERi0=", "x"),
        ] {
            assert_eq!(with_ending(name.map(Cow::Borrowed), data), expected);
        }
    }
}
