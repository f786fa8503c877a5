//! Where a server listens and where a peer is: TCP (`127.0.0.1:7001`, port 0 allowed) or a Unix socket (`unix:/path`).

use std::{fmt, io, net::SocketAddr, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize, de::Error as _};
use tokio::net::{TcpListener, UnixListener};

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

impl Listener {
    /// Binds. A stale Unix socket file is replaced.
    ///
    /// # Errors
    /// The address is taken or not ours.
    pub async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(tcp) => {
                let socket = TcpListener::bind(tcp).await.map_err(|error| {
                    io::Error::new(error.kind(), format!("cannot listen on {tcp}: {error}"))
                })?;
                let address = Address::Tcp(socket.local_addr()?);
                Ok(Self {
                    socket: Bound::Tcp(socket),
                    address,
                })
            }
            Address::Unix(path) => {
                if path.exists() && tokio::net::UnixStream::connect(path).await.is_err() {
                    tokio::fs::remove_file(path).await?;
                }
                let socket = UnixListener::bind(path).map_err(|error| {
                    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
                })?;
                Ok(Self {
                    socket: Bound::Unix(socket),
                    address: address.clone(),
                })
            }
        }
    }

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
