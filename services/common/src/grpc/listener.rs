//! Where a server listens and where a peer is: TCP (`127.0.0.1:7001`, port 0 allowed) or a Unix socket (`unix:/path`).

use std::{fmt, io, net::SocketAddr, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize, de::Error as _};
use tokio::net::{TcpListener, TcpSocket, UnixListener, UnixStream};

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// Host and port.
    Tcp(SocketAddr),
    /// A Unix socket's path.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        text.parse().map(Self::Tcp).map_err(|_| {
            format!(
                "`{text}` is no address; expected IP:PORT such as 127.0.0.1:8080, or unix:/path"
            )
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

/// A bound socket whose real address is known.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: Bound,
    address: Address,
}

/// The socket itself.
#[derive(Debug)]
pub enum Bound {
    /// TCP.
    Tcp(TcpListener),
    /// Unix.
    Unix(UnixListener),
}

/// An address that was free when it was taken. Until it [listens](Reserved::listen) whoever connects is refused, so that a
/// process that is not ready keeps nobody waiting.
#[derive(Debug)]
pub struct Reserved {
    address: Address,
    /// `None`: the file of a Unix socket is made when it listens.
    socket: Option<TcpSocket>,
}

/// Connections that wait to be accepted, at most.
const BACKLOG: u32 = 1_024;

impl Reserved {
    /// Takes an address; port 0 becomes a free one.
    ///
    /// # Errors
    /// The address is taken or not ours.
    pub async fn new(address: &Address) -> io::Result<Self> {
        let told = |error| cannot_listen(address, &error);
        match address {
            Address::Tcp(tcp) => {
                let socket = match tcp {
                    SocketAddr::V4(_) => TcpSocket::new_v4(),
                    SocketAddr::V6(_) => TcpSocket::new_v6(),
                };
                let socket = socket.map_err(told)?;
                // Connections of an earlier process that are still being closed do not count.
                socket.set_reuseaddr(true).map_err(told)?;
                socket.bind(*tcp).map_err(told)?;
                Ok(Self {
                    address: Address::Tcp(socket.local_addr().map_err(told)?),
                    socket: Some(socket),
                })
            }
            Address::Unix(path) if UnixStream::connect(path).await.is_ok() => {
                Err(told(io::ErrorKind::AddrInUse.into()))
            }
            Address::Unix(_) => Ok(Self {
                address: address.clone(),
                socket: None,
            }),
        }
    }

    /// From now on connections are taken. A stale Unix socket file is replaced.
    ///
    /// # Errors
    /// Somebody else listens there since.
    pub async fn listen(self) -> io::Result<Listener> {
        let told = |error| cannot_listen(&self.address, &error);
        let socket = match (&self.address, self.socket) {
            (Address::Unix(path), _) => {
                if path.exists() && UnixStream::connect(path).await.is_err() {
                    tokio::fs::remove_file(path).await.map_err(told)?;
                }
                Bound::Unix(UnixListener::bind(path).map_err(told)?)
            }
            (Address::Tcp(_), Some(socket)) => Bound::Tcp(socket.listen(BACKLOG).map_err(told)?),
            (Address::Tcp(tcp), None) => Bound::Tcp(TcpListener::bind(tcp).await.map_err(told)?),
        };
        Ok(Listener {
            socket,
            address: self.address,
        })
    }
}

fn cannot_listen(address: &Address, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
}

impl Listener {
    /// Where it listens, with the real port.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The socket.
    #[must_use]
    pub fn into_socket(self) -> Bound {
        self.socket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_address_is_refused_and_a_reserved_one_answers_nobody_before_it_listens() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(taken.local_addr().unwrap());
        let error = Reserved::new(&address).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let told = error.to_string();
        assert!(
            told.starts_with(&format!("cannot listen on {address}: ")),
            "{told}"
        );

        let any = "127.0.0.1:0".parse().unwrap();
        let reserved = Reserved::new(&any).await.unwrap();
        let Address::Tcp(tcp) = reserved.address else {
            panic!("{reserved:?}");
        };
        assert_ne!(tcp.port(), 0);
        let refused = tokio::net::TcpStream::connect(tcp).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
        let listener = reserved.listen().await.unwrap();
        assert_eq!(*listener.address(), Address::Tcp(tcp));
        assert!(tokio::net::TcpStream::connect(tcp).await.is_ok());
    }

    #[tokio::test]
    async fn a_socket_file_is_replaced_unless_somebody_answers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let address = Address::Unix(path.clone());
        let reserved = Reserved::new(&address).await.unwrap();
        assert!(!path.exists(), "nothing is on the disk before it listens");
        let first = reserved.listen().await.unwrap();
        let error = Reserved::new(&address).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        let again = Reserved::new(&address).await.unwrap().listen().await;
        assert!(again.is_ok(), "{again:?}");
    }
}
