//! Tunnels through a proxy: HTTP's CONNECT (RFC 9110, 9.3.6) and SOCKS 5 (RFC 1928, RFC 1929).
//!
//! Not hyper-util's: that one hides the proxy's status, and whom to blame follows from it. Names, passwords and addresses
//! are in no error and no `Debug`.

use std::{
    hash::{Hash, Hasher},
    io,
    net::IpAddr,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{Uri, uri::Authority};
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::dial::Stream;

/// How a proxy is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Http,
    Https,
    /// We resolve names.
    Socks5,
    /// The proxy does.
    Socks5h,
}

/// A proxy: its address, and who we are to it.
pub(crate) struct Proxy {
    /// As it is written: what makes it different from others.
    text: String,
    kind: Kind,
    url: Uri,
    /// User and password.
    login: Option<(String, String)>,
}

/// Why there is no tunnel.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The proxy broke off.
    #[error("the connection to the proxy broke: {0}")]
    Io(#[from] io::Error),
    /// The proxy does not serve us.
    #[error("the proxy refused: {0}")]
    Refused(u16),
    /// It says something else than its protocol.
    #[error("the proxy does not speak its protocol")]
    Protocol,
    /// The proxy could not reach the upstream.
    #[error("the proxy does not reach the upstream: {0}")]
    Upstream(u16),
}

/// The longest answer to CONNECT, bytes.
const MAX_HEAD: usize = 8 << 10;

impl Proxy {
    /// Reads `http://`, `https://`, `socks5://` or `socks5h://`, with or without `USER:PASSWORD@`; `None`: it is none of
    /// these.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (kind, port) = match scheme {
            "http" => (Kind::Http, 80),
            "https" => (Kind::Https, 443),
            "socks5" => (Kind::Socks5, 1080),
            "socks5h" => (Kind::Socks5h, 1080),
            _ => return None,
        };
        let (login, host) = match rest.rsplit_once('@') {
            Some((login, host)) => (Some(read_login(login)?), host),
            None => (None, rest),
        };
        let host: Authority = host.trim_end_matches('/').parse().ok()?;
        let port = host.port_u16().unwrap_or(port);
        let authority = format!("{}:{port}", host.host());
        let url = Uri::builder().scheme("http").authority(authority);
        Some(Self {
            text: text.to_owned(),
            kind,
            url: url.path_and_query("/").build().ok()?,
            login,
        })
    }

    /// Where it is.
    pub(super) fn url(&self) -> &Uri {
        &self.url
    }

    /// Its host, without the brackets of an IPv6 address.
    pub(super) fn host(&self) -> &str {
        let host = self.url.host().unwrap_or_default();
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Whether it is spoken to over TLS.
    pub(super) fn tls(&self) -> bool {
        self.kind == Kind::Https
    }

    /// Whether it resolves names itself.
    pub(super) fn resolves(&self) -> bool {
        self.kind != Kind::Socks5
    }

    /// Makes a connection to the proxy one to `host`: a name, or an address without brackets.
    ///
    /// # Errors
    /// There is no tunnel.
    pub(super) async fn tunnel(
        &self,
        stream: &mut Box<dyn Stream>,
        host: &str,
        port: u16,
    ) -> Result<(), Error> {
        match self.kind {
            Kind::Http | Kind::Https => self.connect(stream, host, port).await,
            Kind::Socks5 | Kind::Socks5h => self.socks(stream, host, port).await,
        }
    }

    async fn connect(
        &self,
        stream: &mut Box<dyn Stream>,
        host: &str,
        port: u16,
    ) -> Result<(), Error> {
        let target = match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        let mut head = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some((user, password)) = &self.login {
            let login = STANDARD.encode(format!("{user}:{password}"));
            head.push_str(&format!("Proxy-Authorization: Basic {login}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::with_capacity(512);
        while !answer.ends_with(b"\r\n\r\n") {
            // One by one: what comes after the head is the upstream's. A head is short, and read once a connection.
            answer.push(stream.read_u8().await?);
            if answer.len() > MAX_HEAD {
                return Err(Error::Protocol);
            }
        }
        let status = answer
            .strip_prefix(b"HTTP/1.")
            .and_then(|rest| rest.get(2..5));
        let status = status.and_then(|digits| std::str::from_utf8(digits).ok());
        let status: u16 = status
            .and_then(|digits| digits.parse().ok())
            .ok_or(Error::Protocol)?;
        match status {
            200..=299 => Ok(()),
            502..=504 => Err(Error::Upstream(status)),
            _ => Err(Error::Refused(status)),
        }
    }

    async fn socks(
        &self,
        stream: &mut Box<dyn Stream>,
        host: &str,
        port: u16,
    ) -> Result<(), Error> {
        const VERSION: u8 = 5;
        const OPEN: u8 = 0;
        const LOGIN: u8 = 2;
        let method = if self.login.is_some() { LOGIN } else { OPEN };
        stream.write_all(&[VERSION, 1, method]).await?;
        stream.flush().await?;
        let mut answer = [0; 2];
        stream.read_exact(&mut answer).await?;
        match answer {
            [VERSION, chosen] if chosen == method => {}
            [VERSION, chosen] => return Err(Error::Refused(chosen.into())),
            _ => return Err(Error::Protocol),
        }
        if let Some((user, password)) = &self.login {
            let mut login = vec![1];
            for part in [user, password] {
                login.push(u8::try_from(part.len()).map_err(|_| Error::Protocol)?);
                login.extend_from_slice(part.as_bytes());
            }
            stream.write_all(&login).await?;
            stream.flush().await?;
            stream.read_exact(&mut answer).await?;
            let [_, refused] = answer;
            if refused != 0 {
                return Err(Error::Refused(refused.into()));
            }
        }
        let mut request = vec![VERSION, 1, 0];
        match host.parse() {
            Ok(IpAddr::V4(v4)) => {
                request.push(1);
                request.extend_from_slice(&v4.octets());
            }
            Ok(IpAddr::V6(v6)) => {
                request.push(4);
                request.extend_from_slice(&v6.octets());
            }
            Err(_) => {
                request.push(3);
                request.push(u8::try_from(host.len()).map_err(|_| Error::Upstream(0))?);
                request.extend_from_slice(host.as_bytes());
            }
        }
        request.extend_from_slice(&port.to_be_bytes());
        stream.write_all(&request).await?;
        stream.flush().await?;
        let mut reply = [0; 4];
        stream.read_exact(&mut reply).await?;
        let [VERSION, said, _, kind] = reply else {
            return Err(Error::Protocol);
        };
        match said {
            0 => {}
            // Network or host unreachable, connection refused, time to live expired.
            3..=6 => return Err(Error::Upstream(said.into())),
            _ => return Err(Error::Refused(said.into())),
        }
        let length = match kind {
            1 => 4,
            4 => 16,
            3 => usize::from(stream.read_u8().await?),
            _ => return Err(Error::Protocol),
        };
        let mut bound = [0; 255 + 2];
        let bound = bound.get_mut(..length + 2).ok_or(Error::Protocol)?;
        stream.read_exact(bound).await?;
        Ok(())
    }
}

fn read_login(text: &str) -> Option<(String, String)> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let decoded = |part: &str| percent_decode_str(part).decode_utf8().map(Into::into).ok();
    Some((decoded(user)?, decoded(password)?))
}

impl PartialEq for Proxy {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Proxy {}

impl Hash for Proxy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy")
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::DuplexStream;

    use super::*;

    /// What a proxy heard, after it said `answers` one by one, each after as many bytes as stand beside it.
    async fn tunnelled(
        proxy: &str,
        host: &str,
        answers: &[(usize, &[u8])],
    ) -> (Vec<u8>, Result<(), Error>) {
        let (ours, mut theirs): (DuplexStream, DuplexStream) = tokio::io::duplex(1 << 10);
        let proxy = Proxy::read(proxy).unwrap();
        let mut ours: Box<dyn Stream> = Box::new(ours);
        let hear = async {
            let mut heard = Vec::new();
            for (length, answer) in answers {
                let mut next = vec![0; *length];
                theirs.read_exact(&mut next).await.unwrap();
                heard.extend_from_slice(&next);
                theirs.write_all(answer).await.unwrap();
            }
            heard
        };
        let (heard, tunnel) = tokio::join!(hear, proxy.tunnel(&mut ours, host, 443));
        (heard, tunnel)
    }

    #[tokio::test]
    async fn connect_names_the_upstream_and_who_we_are() {
        let expected = "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\
            Proxy-Authorization: Basic dTpwQHNz\r\n\r\n";
        let ok: &[u8] = b"HTTP/1.1 200 Connection established\r\nvia: x\r\n\r\n";
        let proxy = "http://u:p%40ss@proxy:3128";
        let answers = [(expected.len(), ok)];
        let (heard, tunnel) = tunnelled(proxy, "api.example.com", &answers).await;
        assert_eq!(String::from_utf8(heard).unwrap(), expected);
        tunnel.unwrap();
    }

    #[tokio::test]
    async fn what_a_proxy_says_tells_whose_fault_it_is() {
        let head = "CONNECT [2606::1]:443 HTTP/1.1\r\nHost: [2606::1]:443\r\n\r\n".len();
        for (status, upstream) in [(407, false), (403, false), (502, true), (504, true)] {
            let answer = format!("HTTP/1.1 {status} No\r\n\r\n");
            let answers = [(head, answer.as_bytes())];
            let (_, tunnel) = tunnelled("http://proxy", "2606::1", &answers).await;
            match tunnel.unwrap_err() {
                Error::Upstream(said) => assert_eq!((said, true), (status, upstream)),
                Error::Refused(said) => assert_eq!((said, false), (status, upstream)),
                other => panic!("{other}"),
            }
        }
        for (said, upstream) in [(2, false), (4, true), (5, true), (1, false)] {
            let reply = [5, said, 0, 1, 0, 0, 0, 0, 0, 0];
            let answers: [(usize, &[u8]); 2] = [(3, &[5, 0]), (4 + 1 + 1 + 2, &reply)];
            let (_, tunnel) = tunnelled("socks5h://proxy", "h", &answers).await;
            let blamed = matches!(tunnel.unwrap_err(), Error::Upstream(_));
            assert_eq!(blamed, upstream, "{said}");
        }
        let answers: [(usize, &[u8]); 1] = [(3, &[5, 0xff])];
        let (_, tunnel) = tunnelled("socks5://proxy", "h", &answers).await;
        assert!(matches!(tunnel, Err(Error::Refused(0xff))));
    }

    #[tokio::test]
    async fn socks_logs_in_and_leaves_the_name_to_the_proxy_or_gives_an_address() {
        let reply: &[u8] = &[5, 0, 0, 3, 2, b'o', b'k', 0, 80];
        let answers = [(3, &[5, 2][..]), (5, &[1, 0][..]), (4 + 2 + 2, reply)];
        let (heard, tunnel) = tunnelled("socks5h://u:p@proxy", "h", &answers).await;
        let expected = [5, 1, 2, 1, 1, b'u', 1, b'p', 5, 1, 0, 3, 1, b'h', 1, 187];
        assert_eq!(heard, expected);
        tunnel.unwrap();
        let reply: &[u8] = &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let answers = [(3, &[5, 0][..]), (4 + 4 + 2, reply)];
        let (heard, tunnel) = tunnelled("socks5://proxy", "9.8.7.6", &answers).await;
        assert_eq!(heard, [5, 1, 0, 5, 1, 0, 1, 9, 8, 7, 6, 1, 187]);
        tunnel.unwrap();
    }

    #[test]
    fn an_address_has_its_schemes_usual_port_and_shows_no_password() {
        for (text, url) in [
            ("http://proxy", "http://proxy:80/"),
            ("https://proxy/", "http://proxy:443/"),
            ("socks5://u:secret@[::1]", "http://[::1]:1080/"),
            ("socks5h://proxy:9050", "http://proxy:9050/"),
        ] {
            let proxy = Proxy::read(text).unwrap();
            assert_eq!(proxy.url(), url);
            assert!(!format!("{proxy:?}").contains("secret"));
        }
        for text in ["proxy:3128", "ftp://proxy", "http://", "http://a b"] {
            assert!(Proxy::read(text).is_none(), "{text}");
        }
    }
}
