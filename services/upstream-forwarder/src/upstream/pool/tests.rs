//! What is taken out is closed once the lock was given back.

use std::{
    io,
    pin::Pin,
    sync::Weak,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

use super::*;

/// Whether the pool was free, each time a connection was closed.
type Closed = Arc<Mutex<Vec<bool>>>;

/// A connection that looks at its pool when it is closed.
struct Watched {
    wire: DuplexStream,
    pool: Weak<Pool>,
    closed: Closed,
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            self.closed.lock().push(pool.state.try_lock().is_some());
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_read(cx, buf)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.wire).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(cx)
    }
}

struct Bed {
    pool: Arc<Pool>,
    closed: Closed,
    /// The other ends.
    peers: Vec<DuplexStream>,
}

impl Bed {
    fn new(idle_per_host: usize, idle_total: usize) -> Self {
        let config = config::Upstream {
            idle_per_host,
            idle_total,
            idle_timeout: Duration::from_secs(90),
            ..config::Upstream::default()
        };
        Self {
            pool: Arc::new(Pool::new(&config)),
            closed: Closed::default(),
            peers: Vec::new(),
        }
    }

    /// A connection to a host that has nothing more to do.
    fn rest(&mut self, host: &str) {
        let (wire, peer) = tokio::io::duplex(1_024);
        self.peers.push(peer);
        let watched = Watched {
            wire,
            pool: Arc::downgrade(&self.pool),
            closed: Arc::clone(&self.closed),
        };
        let single = Single::open(Box::new(watched), self.pool.opened());
        self.pool.give_back(&key(host), single);
    }

    fn is_free_at_all(&self, closes: usize) {
        assert_eq!(*self.closed.lock(), vec![true; closes]);
    }
}

fn key(host: &str) -> Key {
    Key {
        tls: false,
        authority: host.parse().unwrap(),
        private: true,
        proxy: None,
    }
}

#[tokio::test(start_paused = true)]
async fn the_pool_is_free_while_connections_beyond_its_bounds_are_closed() {
    let mut bed = Bed::new(1, 2);
    for (host, closes) in [("a:1", 0), ("a:1", 1), ("b:1", 1), ("c:1", 2)] {
        bed.rest(host);
        bed.is_free_at_all(closes);
    }
    assert_eq!(bed.pool.connections().idle, 2);
    bed.pool.close();
    bed.is_free_at_all(4);
}

#[tokio::test(start_paused = true)]
async fn the_pool_is_free_while_what_is_of_no_use_is_closed() {
    let mut bed = Bed::new(8, 8);
    bed.rest("a:1");
    bed.rest("a:1");
    // The other side closed one: it is found when it is asked for, the next one is taken.
    bed.peers.pop();
    assert!(bed.pool.take(&key("a:1")).is_some());
    bed.is_free_at_all(2);
    // By the sweep one that was closed, and later the rest.
    bed.rest("a:1");
    bed.rest("b:1");
    bed.rest("b:1");
    bed.peers.remove(2);
    bed.pool.sweep();
    bed.is_free_at_all(3);
    assert_eq!(bed.pool.connections().idle, 2);
    tokio::time::advance(Duration::from_secs(91)).await;
    // One is too old when it is asked for, one when it is swept.
    assert!(bed.pool.take(&key("a:1")).is_none());
    bed.is_free_at_all(4);
    bed.pool.sweep();
    bed.is_free_at_all(5);
    let none = Connections { open: 0, idle: 0 };
    assert_eq!(bed.pool.connections(), none);
}
