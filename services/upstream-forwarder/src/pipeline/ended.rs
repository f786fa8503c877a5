//! Why a request stops on its way.

use switchboard_common::error::Failure;

use crate::pipe::Stop;

/// Why a request did not come to its regular end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The caller is told this.
    Failed(Failure),
    /// It was not to go on.
    Stopped(Stop),
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<Stop> for Ended {
    fn from(stop: Stop) -> Self {
        Self::Stopped(stop)
    }
}
