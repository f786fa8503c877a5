//! A proxy that upstreams are reached through: HTTP's CONNECT and SOCKS 5 on one port, told apart by their first byte.
//!
//! It connects everyone to one server, whatever they ask for, and writes down what that was: names that exist nowhere show
//! who resolved them. It asks for a login when it has one.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// A running proxy. Dropping it closes all its connections.
#[derive(Debug)]
pub struct Tunnel {
    addr: SocketAddr,
    shared: Arc<Shared>,
    _stop: DropGuard,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    login: Option<(&'static str, &'static str)>,
    refuses: Mutex<bool>,
    asked: Mutex<Vec<String>>,
}

const SOCKS: u8 = 5;

impl Tunnel {
    /// Starts on a free port of 127.0.0.1, inside the current Tokio runtime.
    ///
    /// # Errors
    /// When the socket cannot be opened.
    pub async fn start(
        target: SocketAddr,
        login: Option<(&'static str, &'static str)>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let stop = CancellationToken::new();
        let tunnel = Self {
            addr: listener.local_addr()?,
            shared: Arc::new(Shared {
                target,
                login,
                refuses: Mutex::new(false),
                asked: Mutex::default(),
            }),
            _stop: stop.clone().drop_guard(),
        };
        let shared = Arc::clone(&tunnel.shared);
        let tasks = TaskTracker::new();
        let calls = tasks.clone();
        tasks.spawn(stop.clone().run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                let serve = serve(Arc::clone(&shared), client);
                calls.spawn(stop.clone().run_until_cancelled_owned(serve));
            }
        }));
        Ok(tunnel)
    }

    /// Where it is.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Refuses everyone from now on, or no longer.
    pub fn refuse(&self, refuses: bool) {
        *self.shared.refuses.lock() = refuses;
    }

    /// What it was asked to connect to so far: `connect HOST:PORT`, `socks HOST:PORT`.
    #[must_use]
    pub fn asked(&self) -> Vec<String> {
        self.shared.asked.lock().clone()
    }
}

async fn serve(shared: Arc<Shared>, mut client: TcpStream) -> io::Result<()> {
    let mut first = [0];
    client.read_exact(&mut first).await?;
    let open = if first == [SOCKS] {
        socks(&shared, &mut client).await?
    } else {
        connect(&shared, &mut client).await?
    };
    if open {
        let mut server = TcpStream::connect(shared.target).await?;
        copy_bidirectional(&mut client, &mut server).await?;
    }
    Ok(())
}

async fn connect(shared: &Shared, client: &mut TcpStream) -> io::Result<bool> {
    let mut head = vec![b'C'];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let target = head.split(' ').nth(1).unwrap_or_default();
    shared.asked.lock().push(format!("connect {target}"));
    let status = if *shared.refuses.lock() {
        "403 Forbidden"
    } else if shared.login.is_some() && !head.contains("proxy-authorization: basic ") {
        "407 Proxy Authentication Required"
    } else {
        "200 OK"
    };
    let answer = format!("HTTP/1.1 {status}\r\n\r\n");
    client.write_all(answer.as_bytes()).await?;
    Ok(status.starts_with("200"))
}

async fn socks(shared: &Shared, client: &mut TcpStream) -> io::Result<bool> {
    let mut methods = vec![0; usize::from(client.read_u8().await?)];
    client.read_exact(&mut methods).await?;
    let method = if shared.login.is_some() { 2 } else { 0 };
    if !methods.contains(&method) {
        client.write_all(&[SOCKS, 0xff]).await?;
        return Ok(false);
    }
    client.write_all(&[SOCKS, method]).await?;
    if let Some((user, password)) = shared.login {
        client.read_u8().await?;
        let given = (text(client).await?, text(client).await?);
        let known = given == (user.to_owned(), password.to_owned());
        client.write_all(&[1, u8::from(!known)]).await?;
        if !known {
            return Ok(false);
        }
    }
    let mut request = [0; 4];
    client.read_exact(&mut request).await?;
    let [.., kind] = request;
    let host = match kind {
        1 => Ipv4Addr::from_bits(client.read_u32().await?).to_string(),
        3 => text(client).await?,
        _ => return Err(io::Error::other("an address of another kind")),
    };
    let port = client.read_u16().await?;
    shared.asked.lock().push(format!("socks {host}:{port}"));
    let refuses = *shared.refuses.lock();
    let reply = [SOCKS, if refuses { 2 } else { 0 }, 0, 1, 0, 0, 0, 0, 0, 0];
    client.write_all(&reply).await?;
    Ok(!refuses)
}

async fn text(client: &mut TcpStream) -> io::Result<String> {
    let mut text = vec![0; usize::from(client.read_u8().await?)];
    client.read_exact(&mut text).await?;
    String::from_utf8(text).map_err(io::Error::other)
}
