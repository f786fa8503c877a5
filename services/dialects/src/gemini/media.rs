//! What parts of a request are no text: inline data and references to files.

use crate::json::{Cursor, JsonError, Kind};
use crate::usage::key_is;

/// Media of a request, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Media {
    /// What must be seen: images, videos.
    pub seen: u64,
    /// What must be heard.
    pub heard: u64,
    /// Anything else, such as documents.
    pub files: u64,
    /// Bytes of their values in the body.
    pub bytes: usize,
}

impl Media {
    /// Reads `contents`, one content or several of them. Anything else is the upstream's to judge.
    pub(super) fn read_contents(&mut self, cursor: &mut Cursor<'_>) -> Result<(), JsonError> {
        each(cursor, |cursor| self.read_content(cursor))
    }

    fn read_content(&mut self, cursor: &mut Cursor<'_>) -> Result<(), JsonError> {
        let text = cursor.text();
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            if key_is(text, key, "parts") {
                each(cursor, |cursor| self.read_part(cursor))?;
            } else {
                cursor.skip()?;
            }
        }
        Ok(())
    }

    fn read_part(&mut self, cursor: &mut Cursor<'_>) -> Result<(), JsonError> {
        let text = cursor.text();
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            match (&*key.decode(text), cursor.kind()?) {
                ("inlineData" | "inline_data" | "fileData" | "file_data", Kind::Object) => {
                    let value = cursor.skip()?;
                    self.bytes += value.span.end - value.span.start;
                    self.count(&mut Cursor::at_value(text, value))?;
                }
                // What a function gave back may have parts of its own.
                ("functionResponse" | "function_response", Kind::Object) => {
                    self.read_content(cursor)?;
                }
                _ => {
                    cursor.skip()?;
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, blob: &mut Cursor<'_>) -> Result<(), JsonError> {
        let text = blob.text();
        let mut kind = &mut self.files;
        blob.enter_object()?;
        let mut first = true;
        while let Some(key) = blob.next_key(&mut first)? {
            let named = matches!(&*key.decode(text), "mimeType" | "mime_type");
            let value = blob.skip()?;
            if named && let Some(mime) = value.text() {
                let mime = mime.decode(text);
                kind = match mime.split('/').next() {
                    Some("image" | "video") => &mut self.seen,
                    Some("audio") => &mut self.heard,
                    _ => &mut self.files,
                };
            }
        }
        *kind += 1;
        Ok(())
    }
}

/// Reads the objects of an array, or the one object that stands in its place: Google takes both. What is neither is
/// skipped.
pub(super) fn each(
    cursor: &mut Cursor<'_>,
    mut read: impl FnMut(&mut Cursor<'_>) -> Result<(), JsonError>,
) -> Result<(), JsonError> {
    match cursor.kind()? {
        Kind::Object => read(cursor),
        Kind::Array => {
            cursor.enter_array()?;
            let mut first = true;
            while cursor.next_item(&mut first)? {
                if cursor.kind()? == Kind::Object {
                    read(cursor)?;
                } else {
                    cursor.skip()?;
                }
            }
            Ok(())
        }
        _ => cursor.skip().map(|_| ()),
    }
}
