//! A TCP proxy that misbehaves on command: it delays, stalls, cuts, refuses or swallows the connections to one server.
//!
//! Commands act on running and on new connections. Nothing happens by chance: a test says what, and when it heals.
//! The proxy knows no protocol; it moves bytes, at most [`CHUNK`] in hand for each direction of a connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

mod relay;

/// Bytes that a direction of a connection holds at most.
pub const CHUNK: usize = 16 * 1024;
/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// How long [`ChaosProxy::wait_for`] waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server behind the proxy.
#[derive(Clone, Debug)]
pub enum Target {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl From<SocketAddr> for Target {
    fn from(addr: SocketAddr) -> Self {
        Self::Tcp(addr)
    }
}

impl From<PathBuf> for Target {
    fn from(path: PathBuf) -> Self {
        Self::Unix(path)
    }
}

/// Which bytes a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// What clients send.
    ToServer,
    /// What the server sends.
    ToClient,
    /// All bytes.
    Both,
}

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flow {
    delay: Duration,
    stalled: bool,
    /// A connection is reset when it has carried so many bytes in this direction.
    cut_after: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rules {
    to_server: Flow,
    to_client: Flow,
    /// New connections are accepted and left without an answer.
    swallow: bool,
    /// Connections of an earlier generation are reset.
    generation: u64,
}

/// What the proxy has carried so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that live now.
    pub open: u64,
    /// Bytes passed on to the server.
    pub to_server: u64,
    /// Bytes passed on to clients.
    pub to_client: u64,
}

#[derive(Debug)]
struct Shared {
    target: Target,
    rules: watch::Sender<Rules>,
    traffic: watch::Sender<Traffic>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// A running proxy. Dropping it closes all its connections.
#[derive(Debug)]
pub struct ChaosProxy {
    addr: SocketAddr,
    /// Keeps the port ours while nobody listens on it.
    _reserved: TcpSocket,
    shared: Arc<Shared>,
    listening: parking_lot::Mutex<Option<(DropGuard, JoinHandle<()>)>>,
    _stop: DropGuard,
}

impl ChaosProxy {
    /// Starts on a free port of 127.0.0.1, inside the current Tokio runtime, as a faithful proxy.
    ///
    /// # Errors
    /// When the socket cannot be opened.
    pub fn start(target: impl Into<Target>) -> anyhow::Result<Self> {
        let reserved = socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let addr = reserved.local_addr()?;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            target: target.into(),
            rules: watch::Sender::new(Rules::default()),
            traffic: watch::Sender::new(Traffic::default()),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        });
        let proxy = Self {
            addr,
            _reserved: reserved,
            shared,
            listening: parking_lot::Mutex::new(None),
            _stop: stop.drop_guard(),
        };
        proxy.listen()?;
        Ok(proxy)
    }

    /// Where clients connect to.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Every piece of bytes is held for so long before it is passed on. Pieces of one direction follow each other, so
    /// this bounds throughput as well.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.change(direction, |flow| flow.delay = delay);
    }

    /// Bytes stop, connections stay open; until [`heal`](Self::heal).
    pub fn stall(&self, direction: Direction) {
        self.change(direction, |flow| flow.stalled = true);
    }

    /// Each connection is reset when it has carried `bytes` in this direction, counted from its start.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.change(direction, |flow| flow.cut_after = Some(bytes));
    }

    /// Resets all running connections; new ones work.
    pub fn cut(&self) {
        self.shared.rules.send_modify(|rules| rules.generation += 1);
    }

    /// Resets all running connections and refuses new ones, as if the server's process were dead.
    pub async fn refuse(&self) {
        let listening = self.listening.lock().take();
        if let Some((stop, accepting)) = listening {
            drop(stop);
            // The task neither panics nor is aborted; it takes the listener with it.
            let _ = accepting.await;
        }
        self.cut();
    }

    /// Running connections stall; new ones are accepted and never answered, as if the server were frozen.
    pub fn blackhole(&self) {
        self.shared.rules.send_modify(|rules| {
            rules.swallow = true;
            rules.to_server.stalled = true;
            rules.to_client.stalled = true;
        });
    }

    /// A faithful proxy again: what was held back flows on, swallowed connections reach the server.
    ///
    /// # Errors
    /// When the port cannot be listened on again.
    pub fn heal(&self) -> anyhow::Result<()> {
        self.shared.rules.send_modify(|rules| {
            *rules = Rules {
                generation: rules.generation,
                ..Rules::default()
            };
        });
        self.listen()
    }

    /// What was carried so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        *self.shared.traffic.borrow()
    }

    /// Waits until the traffic fulfils the condition.
    ///
    /// # Errors
    /// When it has not done so after 30 s.
    pub async fn wait_for(&self, condition: impl FnMut(&Traffic) -> bool) -> anyhow::Result<()> {
        let mut traffic = self.shared.traffic.subscribe();
        let waited = tokio::time::timeout(PATIENCE, traffic.wait_for(condition)).await;
        let seen = waited.map(|seen| seen.map(|_| ()));
        seen.with_context(|| format!("the proxy's traffic is {:?}", self.traffic()))??;
        Ok(())
    }

    fn change(&self, direction: Direction, change: impl Fn(&mut Flow)) {
        self.shared.rules.send_modify(|rules| {
            if direction != Direction::ToClient {
                change(&mut rules.to_server);
            }
            if direction != Direction::ToServer {
                change(&mut rules.to_client);
            }
        });
    }

    fn listen(&self) -> anyhow::Result<()> {
        let mut listening = self.listening.lock();
        if listening.is_some() {
            return Ok(());
        }
        let listener = socket(self.addr)?.listen(BACKLOG);
        let listener = listener.with_context(|| format!("cannot listen on {}", self.addr))?;
        let stop = self.shared.stop.child_token();
        let accept = accept(listener, Arc::clone(&self.shared), stop.clone());
        let accepting = self.shared.tasks.spawn(accept);
        *listening = Some((stop.drop_guard(), accepting));
        Ok(())
    }
}

/// A bound socket; several of ours may have the same address, and only those that listen get connections.
fn socket(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((client, _)) => {
                let connection = connection(client, Arc::clone(&shared));
                shared.tasks.spawn(connection);
            }
            // A client that left at once, or no file descriptors: the next may do.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Counts a connection as open while it lives.
struct Open<'a>(&'a watch::Sender<Traffic>);

impl<'a> Open<'a> {
    fn new(traffic: &'a watch::Sender<Traffic>) -> Self {
        traffic.send_modify(|traffic| {
            traffic.accepted += 1;
            traffic.open += 1;
        });
        Self(traffic)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|traffic| traffic.open -= 1);
    }
}

/// Runs one connection. An error on one side is passed on to the other as a reset.
async fn connection(mut client: TcpStream, shared: Arc<Shared>) {
    let _open = Open::new(&shared.traffic);
    let mut life = Life::new(&shared);
    // It fails only on a socket that is gone already; so do all calls whose result is left alone here.
    let _ = client.set_nodelay(true);
    let mut rules = shared.rules.subscribe();
    let answering = async {
        let _ = rules.wait_for(|rules| !rules.swallow).await;
        Ok(())
    };
    let end = match (life.during(answering).await, &shared.target) {
        (Err(end), _) => end,
        (Ok(()), Target::Tcp(addr)) => match life.during(TcpStream::connect(addr)).await {
            Err(end) => end,
            Ok(mut server) => {
                let _ = server.set_nodelay(true);
                let end = life.carry(&mut client, &mut server, &shared).await;
                if end == End::Reset {
                    let _ = server.set_zero_linger();
                }
                end
            }
        },
        (Ok(()), Target::Unix(path)) => match life.during(UnixStream::connect(path)).await {
            Err(end) => end,
            Ok(mut server) => life.carry(&mut client, &mut server, &shared).await,
        },
    };
    if end == End::Reset {
        let _ = client.set_zero_linger();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Clean,
    Reset,
}

/// What may end a connection from outside.
struct Life {
    rules: watch::Receiver<Rules>,
    generation: u64,
    stop: CancellationToken,
}

impl Life {
    fn new(shared: &Shared) -> Self {
        let rules = shared.rules.subscribe();
        let generation = rules.borrow().generation;
        Self {
            rules,
            generation,
            stop: shared.stop.clone(),
        }
    }

    /// Does a piece of work unless the connection's life ends before; its errors end it as well.
    async fn during<T>(&mut self, work: impl Future<Output = io::Result<T>>) -> Result<T, End> {
        let born = self.generation;
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(End::Clean),
            // The sender outlives the connection, so an error cannot come.
            _ = self.rules.wait_for(|rules| rules.generation > born) => Err(End::Reset),
            done = work => done.map_err(|_| End::Reset),
        }
    }

    async fn carry<S>(&mut self, client: &mut TcpStream, server: &mut S, shared: &Shared) -> End
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let carried = self.during(relay::both(client, server, shared)).await;
        carried.map_or_else(|end| end, |()| End::Clean)
    }
}
