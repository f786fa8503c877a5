//! `proxy`: through whom an account is reached. The address stands in the catalogue, or is a secret by reference.

use crate::accounts::Account;
use crate::decode::Scalar as _;
use crate::scalar::SecretRef;

const SCHEMES: [&str; 4] = ["http://", "https://", "socks5://", "socks5h://"];

/// Whether a text is a proxy's address: `http`, `https`, `socks5` or `socks5h`, `USER:PASSWORD@` where it is asked for, and
/// HOST:PORT.
pub fn is_proxy(text: &str) -> bool {
    let rest = SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme));
    let Some(rest) = rest else { return false };
    let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let host = host.strip_suffix('/').unwrap_or(host);
    let authority: Result<http::uri::Authority, _> = host.parse();
    authority.is_ok_and(|authority| {
        let name = authority.host();
        !name.is_empty() && (authority.as_str().len() == name.len() || authority.port().is_some())
    })
}

/// What is wrong with a `proxy`, and what to do; never the text: it might hold a password.
pub(crate) fn check(text: &str) -> Result<(), (String, String)> {
    if refers(text) {
        let read = SecretRef::read(text).map(drop);
        return read.map_err(|wrong| {
            let fix = wrong
                .fix
                .unwrap_or_else(|| "write `env:NAME` or `file:PATH`".to_owned());
            (wrong.message, fix)
        });
    }
    if text.contains('@') {
        return Err((
            "a user name or password stands in this address".to_owned(),
            "put the whole address into an environment variable or a file and write `env:NAME` or `file:PATH`".to_owned(),
        ));
    }
    if is_proxy(text) {
        return Ok(());
    }
    Err((
        "this is not a proxy's address".to_owned(),
        "write `http://`, `https://`, `socks5://` or `socks5h://` and HOST:PORT, or `env:NAME` or `file:PATH` where it needs a password".to_owned(),
    ))
}

fn refers(text: &str) -> bool {
    text.starts_with("env:") || text.starts_with("file:")
}

impl Account {
    /// Where its proxy's address is found, when it does not stand in the catalogue.
    pub fn proxy_reference(&self) -> Option<SecretRef> {
        let text = self.proxy.as_deref().filter(|text| refers(text))?;
        SecretRef::read(text).ok()
    }

    /// The name of the credential that holds its proxy's address, where that is a secret.
    pub fn proxy_credential(&self) -> Option<String> {
        self.proxy_reference()
            .map(|_| format!("{}/proxy", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stands_there_or_is_referred_to_but_no_password_does() {
        for text in [
            "http://proxy:3128",
            "https://proxy/",
            "socks5://127.0.0.1:1080",
            "socks5h://[::1]:1080",
            "env:PROXY",
            "file:/run/secrets/proxy",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for (text, word) in [
            ("proxy:3128", "not a proxy"),
            ("ftp://proxy", "not a proxy"),
            ("http://", "not a proxy"),
            ("http://proxy:port", "not a proxy"),
            ("http://proxy/path", "not a proxy"),
            ("socks5://user:pass@proxy:1080", "password"),
            ("env:", "environment variable"),
            ("file:", "path"),
        ] {
            let (message, _) = check(text).unwrap_err();
            assert!(message.contains(word), "{text}: {message}");
        }
        assert!(is_proxy("socks5://user:pass@proxy:1080"));
    }
}
