//! Which result answers which call in a caller's conversation. Every dialect refuses calls without results and results without
//! calls; said by an upstream of another dialect that would name fields which the caller never wrote.

use super::fields::Refusal;

/// The calls that were not answered yet: their ids, and where they stand.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<(String, String)>);

impl Calls {
    /// A call. Ids may come again, also before the first one is answered: results go to calls in their order.
    pub(super) fn called(&mut self, id: &str, path: impl Into<String>) {
        self.0.push((id.to_owned(), path.into()));
    }

    /// A result; `path` is that of the id by which it names its call.
    ///
    /// # Errors
    /// No call before it waits for one.
    pub(super) fn answered(&mut self, id: &str, path: String) -> Result<(), Box<Refusal>> {
        let Some(at) = self.0.iter().position(|(known, _)| known == id) else {
            let expected = "the id of a call before it that has no result yet";
            return Err(Refusal::invalid(path, expected));
        };
        self.0.remove(at);
        Ok(())
    }

    /// The conversation has ended.
    ///
    /// # Errors
    /// A call has no result.
    pub(super) fn ended(self) -> Result<(), Box<Refusal>> {
        match self.0.into_iter().next() {
            None => Ok(()),
            Some((_, path)) => {
                let expected = "a call whose result comes after it: every call needs one";
                Err(Refusal::invalid(path, expected))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_results_meet_one_by_one() {
        let mut calls = Calls::default();
        calls.called("a", "one");
        calls.called("a", "two");
        calls.answered("a", "r1".into()).unwrap();
        let other = calls.answered("b", "r2".into()).unwrap_err();
        assert_eq!((&*other.param, other.unsupported), ("r2", false));
        assert_eq!(calls.ended().unwrap_err().param, "two");
        assert!(Calls::default().ended().is_ok());
    }
}
