//! Bytes as a caller gets them: an event stream read strictly, and a connection without any client library.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

/// Reads an event stream as the gateway must write it: lines end with LF, an event is one or more `data: ` lines and an
/// empty line, comments begin with `:`. Anything else is an error of the gateway and panics.
#[derive(Debug, Default)]
pub struct Events {
    pending: Vec<u8>,
}

impl Events {
    /// Takes bytes and gives the data of all events that are complete with them. Comments are left out.
    ///
    /// # Panics
    /// The stream is not well-formed.
    pub fn read(&mut self, bytes: &[u8]) -> Vec<String> {
        self.pending.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.pending.windows(2).position(|pair| pair == b"\n\n") {
            let rest = self.pending.split_off(end + 2);
            let event = std::mem::replace(&mut self.pending, rest);
            let text = String::from_utf8(event).expect("an event stream is UTF-8");
            let mut data = Vec::new();
            for line in text.trim_end_matches('\n').split('\n') {
                assert!(!line.contains('\r'), "a carriage return in {line:?}");
                if line.starts_with(':') {
                    continue;
                }
                let field = line.strip_prefix("data: ");
                data.push(field.unwrap_or_else(|| panic!("no field of ours: {line:?}")));
            }
            if !data.is_empty() {
                events.push(data.join("\n"));
            }
        }
        events
    }

    /// Whether bytes are left that are no whole event.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !self.pending.is_empty()
    }
}

/// A connection that sends and reads bytes and nothing else; dropping it closes it.
#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
}

impl Raw {
    /// Connects with a small window, so that little of an answer fits into it unread.
    ///
    /// # Errors
    /// Nobody listens.
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4_096)?;
        let stream = socket.connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream })
    }

    /// Sends these bytes.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Sends `POST path` with a JSON body.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn post(&mut self, path: &str, key: &str, body: &str) -> io::Result<()> {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.send(request.as_bytes()).await
    }

    /// Reads up to `most` bytes; none at the connection's end.
    ///
    /// # Errors
    /// The connection was cut.
    pub async fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; most];
        let count = self.stream.read(&mut bytes).await?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Reads until these bytes have come; everything read so far.
    ///
    /// # Errors
    /// The connection ended before.
    pub async fn read_until(&mut self, needle: &str) -> io::Result<Vec<u8>> {
        let mut seen: Vec<u8> = Vec::new();
        let needle = needle.as_bytes();
        // Only what is new is searched, and the end of what was before it: answers have many megabytes.
        let mut searched = 0;
        loop {
            let fresh = &seen[searched..];
            if fresh.windows(needle.len()).any(|part| part == needle) {
                return Ok(seen);
            }
            searched = seen.len().saturating_sub(needle.len());
            let more = self.read(16 * 1_024).await?;
            if more.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            seen.extend(more);
        }
    }

    /// Reads all that comes until the connection ends.
    ///
    /// # Errors
    /// The connection was cut.
    pub async fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).await?;
        Ok(bytes)
    }
}
