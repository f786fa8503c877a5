//! Where results go: standard output alone, as a table for people or as JSON for programs. Everything else goes to
//! standard error. A reader that went away (`| head`) is no mistake: what it does not want is dropped.

use std::{
    fmt::Display,
    io::{self, Write},
};

use clap::ValueEnum;
use serde::Serialize;

use super::{
    exit::Error,
    json::{Answer, Protos},
    table::Table,
};

/// The form of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// proto3 JSON with the protos' own names; 64-bit integers as strings, `null` for what is not known.
    Json,
    /// Aligned columns for people; amounts in USD.
    #[default]
    Table,
}

/// The two outputs of a command.
pub(super) struct Screen<'a> {
    /// The form of results.
    pub(super) format: Format,
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
}

impl<'a> Screen<'a> {
    pub(super) fn new(format: Format, out: &'a mut dyn Write, err: &'a mut dyn Write) -> Self {
        Self { format, out, err }
    }

    pub(super) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// A line of the result.
    pub(super) fn line(&mut self, text: impl Display) -> Result<(), Error> {
        self.write(format!("{text}\n").as_bytes())
    }

    /// A table, or a line that says that it would be empty.
    pub(super) fn table(&mut self, table: &Table, empty: &str) -> Result<(), Error> {
        if table.is_empty() {
            return self.line(empty);
        }
        let text = table.render();
        self.write(text.as_bytes())
    }

    /// A service's answer as JSON.
    pub(super) fn answer<A: Answer>(&mut self, answer: &A) -> Result<(), Error> {
        let message = Protos::load()?.message(answer)?;
        self.json(&message)
    }

    /// Something put together here, as JSON.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let mut text =
            serde_json::to_vec_pretty(value).map_err(|error| Error::Output(error.into()))?;
        text.push(b'\n');
        self.write(&text)
    }

    /// A line for the person, beside the result.
    pub(super) fn note(&mut self, text: impl Display) {
        // Nobody is left to tell.
        let _ = writeln!(self.err, "{text}");
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.out.write_all(bytes).and_then(|()| self.out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::Output(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_mistake_and_a_full_disk_is() {
        let mut err = Vec::new();
        let mut gone = Failing(io::ErrorKind::BrokenPipe);
        assert!(
            Screen::new(Format::Table, &mut gone, &mut err)
                .line("x")
                .is_ok()
        );
        let mut full = Failing(io::ErrorKind::StorageFull);
        let error = Screen::new(Format::Table, &mut full, &mut err)
            .line("x")
            .unwrap_err();
        assert_eq!(error.exit().code(), 1);
    }
}
