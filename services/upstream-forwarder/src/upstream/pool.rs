//! The connections that are open, and which of them wait for a request.
//!
//! Invariants: idle connections are bounded per host and over all hosts, the one that is idle for longest goes first; an
//! HTTP/2 connection is idle while it has no stream; a connection that ended is in no list. Every operation is short and
//! under one lock; nothing here waits. No connection is closed, read from or written to under that lock: what is taken out is
//! dropped after it, since closing costs system calls, and over TLS bytes on the wire.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{
    Uri,
    uri::{Authority, Scheme},
};
use hyper::client::conn::http2;
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Connections, Needs, Outgoing, Proxy, single::Single};
use crate::config;

/// Whose connections can stand for each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) tls: bool,
    pub(super) authority: Authority,
    pub(super) private: bool,
    pub(super) proxy: Option<Arc<Proxy>>,
}

impl Key {
    /// `None`: the URL is none of HTTP.
    pub(super) fn of(url: &Uri, needs: &Needs) -> Option<Self> {
        let scheme = url.scheme()?;
        if *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS {
            return None;
        }
        Some(Self {
            tls: *scheme == Scheme::HTTPS,
            authority: url.authority()?.clone(),
            private: needs.private,
            proxy: needs.proxy.clone(),
        })
    }

    pub(super) fn scheme(&self) -> Scheme {
        if self.tls {
            Scheme::HTTPS
        } else {
            Scheme::HTTP
        }
    }

    /// The host, without the brackets of an IPv6 address.
    pub(super) fn host(&self) -> &str {
        let host = self.authority.host();
        host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The host as requests name it: with the port where it is not the usual one.
    pub(super) fn named_host(&self) -> &str {
        let usual = if self.tls { 443 } else { 80 };
        if self.authority.port_u16() == Some(usual) {
            self.authority.host()
        } else {
            self.authority.as_str()
        }
    }

    pub(super) fn port(&self) -> u16 {
        let usual = if self.tls { 443 } else { 80 };
        self.authority.port_u16().unwrap_or(usual)
    }
}

/// A connection as requests use it.
pub(super) enum Sender {
    /// HTTP/1.1: one request at a time.
    Single(Box<Single>),
    /// HTTP/2: shared, with its number.
    Shared(u64, http2::SendRequest<Outgoing>),
}

/// An open connection is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See the module's page.
pub(super) struct Pool {
    idle_per_host: usize,
    idle_total: usize,
    idle_timeout: Duration,
    ids: AtomicU64,
    /// Nothing runs any more: connections end.
    closed: CancellationToken,
    open: Arc<AtomicUsize>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hosts: HashMap<Key, Host>,
    /// All idle connections in the order in which they became idle.
    idle: BTreeMap<u64, (Key, Instant)>,
    /// The next place in that order.
    next: u64,
}

#[derive(Default)]
struct Host {
    /// Idle HTTP/1.1 connections, the latest last.
    waiting: VecDeque<Waiting>,
    /// HTTP/2 connections.
    shared: Vec<Shared>,
    /// TLS agreed on HTTP/1.1 the last time.
    single: bool,
    /// Who opens a connection that others may share.
    queue: Option<Arc<Semaphore>>,
}

struct Waiting {
    place: u64,
    single: Box<Single>,
}

struct Shared {
    id: u64,
    sender: http2::SendRequest<Outgoing>,
    streams: usize,
    /// Streams that it may have; changes when the peer says so.
    most: Arc<AtomicUsize>,
    /// Its place among the idle ones.
    place: Option<u64>,
}

/// Connections that were taken out, closed when this is dropped. It stands before the lock in whatever takes some out, so that
/// the lock is given back first.
#[derive(Default)]
struct Out {
    waiting: Vec<Waiting>,
    shared: Vec<Shared>,
}

/// Hosts whose protocol is remembered while they have no connection.
const MAX_HOSTS: usize = 4_096;

impl Pool {
    pub(super) fn new(config: &config::Upstream) -> Self {
        Self {
            idle_per_host: config.idle_per_host,
            idle_total: config.idle_total,
            idle_timeout: config.idle_timeout,
            ids: AtomicU64::new(0),
            closed: CancellationToken::new(),
            open: Arc::default(),
            state: Mutex::default(),
        }
    }

    /// Takes a connection that can carry a request now: the latest one, so that the others may go.
    pub(super) fn take(&self, key: &Key) -> Option<Sender> {
        loop {
            let (mut sender, since) = self.state.lock().latest(key)?;
            let fresh = since.is_some_and(|since| since.elapsed() < self.idle_timeout);
            let usable = match &mut sender {
                Sender::Shared(..) => true,
                Sender::Single(single) => fresh && single.is_usable(),
            };
            if usable {
                return Some(sender);
            }
        }
    }

    /// Where to wait for one's turn to open a connection to a host that may share it; `None`: it does not.
    pub(super) fn queue(&self, key: &Key) -> Option<Arc<Semaphore>> {
        if !key.tls {
            return None;
        }
        let mut state = self.state.lock();
        let host = state.host(key);
        if host.single {
            return None;
        }
        let queue = host
            .queue
            .get_or_insert_with(|| Arc::new(Semaphore::new(1)));
        Some(Arc::clone(queue))
    }

    /// Counts a new connection.
    pub(super) fn opened(&self) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(&self.open))
    }

    /// A connection of this host is HTTP/1.1.
    pub(super) fn is_single(&self, key: &Key) {
        self.state.lock().host(key).single = true;
    }

    /// A connection of this host is HTTP/2, and has its first stream. [`Pool::gone`] takes it out. Gives its number.
    pub(super) fn share(
        &self,
        key: &Key,
        sender: http2::SendRequest<Outgoing>,
        most: Arc<AtomicUsize>,
    ) -> u64 {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        let host = state.host(key);
        host.single = false;
        host.shared.push(Shared {
            id,
            sender,
            streams: 1,
            most,
            place: None,
        });
        id
    }

    /// An HTTP/1.1 connection has nothing more to do.
    pub(super) fn give_back(&self, key: &Key, mut single: Box<Single>) {
        if self.idle_per_host == 0 || self.closed.is_cancelled() || !single.is_usable() {
            return;
        }
        let mut out = Out::default();
        let mut state = self.state.lock();
        let place = state.rest(key);
        let host = state.host(key);
        host.waiting.push_back(Waiting { place, single });
        if host.waiting.len() > self.idle_per_host
            && let Some(first) = host.waiting.pop_front()
        {
            state.idle.remove(&first.place);
            out.waiting.push(first);
        }
        state.bound(self.idle_total, &mut out);
    }

    /// A stream of an HTTP/2 connection ended.
    pub(super) fn stream_ended(&self, key: &Key, id: u64) {
        let mut out = Out::default();
        let mut state = self.state.lock();
        let place = state.next;
        let Some(host) = state.hosts.get_mut(key) else {
            return;
        };
        let Some(shared) = host.shared.iter_mut().find(|shared| shared.id == id) else {
            return;
        };
        shared.streams = shared.streams.saturating_sub(1);
        if shared.streams > 0 {
            return;
        }
        shared.place = Some(place);
        let idle = host.shared.iter().filter(|shared| shared.place.is_some());
        let full = idle.count() + host.waiting.len() > self.idle_per_host;
        state.rest(key);
        if full {
            state.evict(place, &mut out);
        }
        state.bound(self.idle_total, &mut out);
    }

    /// A shared connection ended.
    pub(super) fn gone(&self, key: &Key, id: u64) {
        let mut out = Out::default();
        let mut state = self.state.lock();
        let State { hosts, idle, .. } = &mut *state;
        let Some(host) = hosts.get_mut(key) else {
            return;
        };
        if let Some(at) = host.shared.iter().position(|shared| shared.id == id) {
            let shared = host.shared.swap_remove(at);
            if let Some(place) = shared.place {
                idle.remove(&place);
            }
            out.shared.push(shared);
        }
    }

    /// Closes what is idle for too long, and what the other side closed.
    pub(super) fn sweep(&self) {
        for (key, place) in self.waiting_places() {
            // One at a time: a request that comes meanwhile misses this one alone.
            let Some(mut waiting) = self.state.lock().lift(&key, place) else {
                continue;
            };
            let unwanted = if waiting.single.is_usable() {
                self.state.lock().put_back(&key, waiting)
            } else {
                self.state.lock().idle.remove(&place);
                Some(waiting)
            };
            drop(unwanted);
        }
    }

    /// Closes what is idle for too long. Gives the others that have one request at a time.
    fn waiting_places(&self) -> Vec<(Key, u64)> {
        let mut out = Out::default();
        let mut state = self.state.lock();
        while let Some((place, (_, since))) = state.idle.first_key_value()
            && since.elapsed() >= self.idle_timeout
        {
            let place = *place;
            state.evict(place, &mut out);
        }
        let hosts = state.hosts.iter();
        let places = hosts.flat_map(|(key, host)| {
            let waiting = host.waiting.iter();
            waiting.map(|waiting| (key.clone(), waiting.place))
        });
        places.collect()
    }

    /// Ends all connections, and every later one. For when no request runs any more.
    pub(super) fn close(&self) {
        self.closed.cancel();
        let mut state = self.state.lock();
        state.idle.clear();
        let hosts = std::mem::take(&mut state.hosts);
        drop(state);
        drop(hosts);
    }

    /// Cancelled when connections are to end.
    pub(super) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    pub(super) fn connections(&self) -> Connections {
        let state = self.state.lock();
        Connections {
            open: self.open.load(Ordering::Relaxed),
            idle: state.idle.len(),
        }
    }
}

impl State {
    fn host(&mut self, key: &Key) -> &mut Host {
        if self.hosts.len() >= MAX_HOSTS && !self.hosts.contains_key(key) {
            self.hosts
                .retain(|_, host| !host.waiting.is_empty() || !host.shared.is_empty());
        }
        self.hosts.entry(key.clone()).or_default()
    }

    /// A connection with room for one request more, else the latest that waits for one, and since when.
    fn latest(&mut self, key: &Key) -> Option<(Sender, Option<Instant>)> {
        let host = self.hosts.get_mut(key)?;
        for shared in &mut host.shared {
            if shared.streams < shared.most.load(Ordering::Relaxed) && !shared.sender.is_closed() {
                shared.streams += 1;
                if let Some(place) = shared.place.take() {
                    self.idle.remove(&place);
                }
                return Some((Sender::Shared(shared.id, shared.sender.clone()), None));
            }
        }
        let last = host.waiting.pop_back()?;
        let since = self.idle.remove(&last.place).map(|(_, since)| since);
        Some((Sender::Single(last.single), since))
    }

    /// Takes the connection at a place out, to be looked at. It stays among the idle ones.
    fn lift(&mut self, key: &Key, place: u64) -> Option<Waiting> {
        let waiting = &mut self.hosts.get_mut(key)?.waiting;
        let at = waiting.binary_search_by_key(&place, |w| w.place).ok()?;
        waiting.remove(at)
    }

    /// Puts it where it was; gives it back where it was to be closed meanwhile.
    fn put_back(&mut self, key: &Key, lifted: Waiting) -> Option<Waiting> {
        match self.hosts.get_mut(key) {
            Some(host) if self.idle.contains_key(&lifted.place) => {
                let at = host.waiting.partition_point(|w| w.place < lifted.place);
                host.waiting.insert(at, lifted);
                None
            }
            _ => {
                self.idle.remove(&lifted.place);
                Some(lifted)
            }
        }
    }

    /// The last place among the idle ones.
    fn rest(&mut self, key: &Key) -> u64 {
        let place = self.next;
        self.next += 1;
        self.idle.insert(place, (key.clone(), Instant::now()));
        place
    }

    fn bound(&mut self, most: usize, out: &mut Out) {
        while self.idle.len() > most
            && let Some((place, _)) = self.idle.first_key_value()
        {
            let place = *place;
            self.evict(place, out);
        }
    }

    /// Takes the idle connection at a place out.
    fn evict(&mut self, place: u64, out: &mut Out) {
        let Some((key, _)) = self.idle.remove(&place) else {
            return;
        };
        if let Some(host) = self.hosts.get_mut(&key) {
            // Mostly the first one.
            let waiting = host.waiting.iter().position(|w| w.place == place);
            out.waiting
                .extend(waiting.and_then(|at| host.waiting.remove(at)));
            let shared = host.shared.iter().position(|s| s.place == Some(place));
            out.shared
                .extend(shared.map(|at| host.shared.swap_remove(at)));
        }
    }
}

#[cfg(test)]
mod tests;
