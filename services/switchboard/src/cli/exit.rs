//! How a command ends: the exit codes that scripts may rely on (CON-2), and the errors that lead to them.

use std::{io, process::ExitCode};

use switchboard_common::error::Failure;
use tonic::{Code, Status};

use crate::apply;

/// How a command ended (CON-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Ok,
    /// Something was checked and is wrong, or could not be done here.
    Wrong,
    /// The command line makes no sense.
    Usage,
    /// Nobody answered.
    Unreachable,
    /// Somebody answered, and refused.
    Refused,
}

impl Exit {
    /// The number that the shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Wrong => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Refused => 4,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command did not do what it was asked for. The text is the one line that the person gets.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Something was checked and is wrong.
    #[error("{0}")]
    Wrong(String),
    /// Nobody answered.
    #[error("{0}")]
    Unreachable(String),
    /// What a service answered instead of a result.
    #[error("{}", refusal(.0))]
    Status(#[from] Status),
    /// A catalogue was not applied, or not whole.
    #[error(transparent)]
    Apply(#[from] apply::Error),
    /// The result could not be written.
    #[error("the result cannot be written: {0}")]
    Output(#[source] io::Error),
}

impl Error {
    /// The exit code that it leads to.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Wrong(_) | Self::Output(_) => Exit::Wrong,
            Self::Unreachable(_) => Exit::Unreachable,
            Self::Status(status) => exit_of(status),
            Self::Apply(error) => exit_of(&error.status),
        }
    }
}

/// Whether a status says that nobody was there, or that somebody refused.
fn exit_of(status: &Status) -> Exit {
    if apply::is_away(status) {
        Exit::Unreachable
    } else {
        Exit::Refused
    }
}

/// One line: the reason's code, what is wrong, and which field.
fn refusal(status: &Status) -> String {
    let failure = Failure::from_status(status);
    if status.code() == Code::Unimplemented {
        return "the answering program does not know this method: is the address that of Switchboard's HTTP listener, and is it as new as this program?".to_owned();
    }
    match &failure.param {
        // Mostly it is what the message begins with.
        Some(param) if !failure.message.starts_with(&format!("{param}: ")) => {
            format!("{failure} ({param})")
        }
        _ => failure.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use switchboard_common::error::{Reason, ReasonExt as _, reasons};

    use super::*;

    #[test]
    fn a_status_is_unreachable_or_refused() {
        for (code, exit) in [
            (Code::Unavailable, 3),
            (Code::DeadlineExceeded, 3),
            (Code::Cancelled, 3),
            (Code::Unauthenticated, 4),
            (Code::PermissionDenied, 4),
            (Code::NotFound, 4),
            (Code::InvalidArgument, 4),
            (Code::FailedPrecondition, 4),
            (Code::Aborted, 4),
            (Code::Unimplemented, 4),
            (Code::Internal, 4),
        ] {
            let error = Error::from(Status::new(code, "x"));
            assert_eq!(error.exit().code(), exit, "{code:?}");
        }
        for reason in reasons() {
            let status = Status::from(Failure::new(reason, "because"));
            let expected = match reason.grpc_code() {
                Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => Exit::Unreachable,
                _ => Exit::Refused,
            };
            assert_eq!(Error::from(status).exit(), expected, "{reason:?}");
        }
    }

    #[test]
    fn a_refusal_says_why_and_where() {
        let failure = Failure::new(Reason::NotFound, "there is no group `x`").param("key.group");
        assert_eq!(
            Error::from(Status::from(failure)).to_string(),
            "not_found: there is no group `x` (key.group)"
        );
        let failure = Failure::new(Reason::InvalidRequest, "tenant: unknown").param("tenant");
        assert_eq!(
            Error::from(Status::from(failure)).to_string(),
            "invalid_request: tenant: unknown"
        );
    }

    #[test]
    fn an_address_of_another_listener_is_told_apart_from_a_refusal() {
        let failure = Failure::new(Reason::MethodNotAllowed, "there is no such method here");
        for status in [Status::unimplemented(""), failure.into()] {
            let told = Error::from(status).to_string();
            assert!(told.contains("Switchboard's HTTP listener"), "{told}");
        }
    }
}
