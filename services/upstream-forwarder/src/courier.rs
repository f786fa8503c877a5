//! One long-lived stream to a peer: items go out in batches and are kept until the peer has acknowledged them.
//!
//! For ever: a cut stream is opened again with growing pauses, and what was not acknowledged is sent again. Memory is
//! bounded; who has an item that does not fit keeps it elsewhere (the journal) and is asked for it when there is room.
//! What only matters now (renewals, touches) is passed once and not kept.

use std::{
    collections::{HashMap, VecDeque},
    future::Future,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::StreamExt as _;
use parking_lot::Mutex;
use switchboard_common::grpc::Answers;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::config::Config;

/// Where a courier goes, and what it carries.
pub(crate) trait Route: Send + 'static {
    /// What is carried.
    type Item: Clone + Send + 'static;
    /// Many of them in one message.
    type Batch: Send + 'static;
    /// The peer's answer.
    type Answer: Send + 'static;

    /// For logs.
    const NAME: &'static str;

    /// Packs items.
    fn batch(items: Vec<Self::Item>) -> Self::Batch;

    /// Which items arrived, by id.
    fn acknowledged(answer: Self::Answer) -> Vec<String>;

    /// Opens the stream.
    fn open(
        &mut self,
        batches: ReceiverStream<Self::Batch>,
    ) -> impl Future<Output = Result<Answers<Self::Answer>, Status>> + Send;

    /// These were carried and acknowledged.
    fn arrived(&mut self, ids: Vec<String>) -> impl Future<Output = ()> + Send;

    /// Items that did not fit earlier, at most `limit`.
    fn more(&mut self, limit: usize) -> impl Future<Output = Vec<(String, Self::Item)>> + Send;
}

/// Takes items to carry. Clones share it.
#[derive(Debug)]
pub(crate) struct Courier<T>(Arc<Shared<T>>);

impl<T> Clone for Courier<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

#[derive(Debug)]
struct Shared<T> {
    load: Mutex<Load<T>>,
    wake: Notify,
    capacity: usize,
}

#[derive(Debug)]
struct Load<T> {
    /// To be sent and kept.
    waiting: VecDeque<(String, T)>,
    /// Sent, not acknowledged.
    under_way: HashMap<String, T>,
    /// To be sent once.
    passing: Vec<T>,
    /// Since when the first of those that wait does.
    since: Option<Instant>,
    /// When the last batch went out.
    sent: Option<Instant>,
    /// Someone waits for the next one.
    hurry: bool,
    /// Who is told when the peer has an item.
    told: HashMap<String, oneshot::Sender<()>>,
    /// Places promised to items that come soon.
    promised: usize,
    /// Something did not fit.
    refused: bool,
}

impl<T> Courier<T> {
    /// Keeps at most `capacity` items. Asks for [more](Route::more) at once: something may be left from before.
    pub(crate) fn new(capacity: usize) -> Self {
        let load = Load {
            waiting: VecDeque::new(),
            under_way: HashMap::new(),
            passing: Vec::new(),
            since: None,
            sent: None,
            hurry: false,
            told: HashMap::new(),
            promised: 0,
            refused: true,
        };
        Self(Arc::new(Shared {
            load: Mutex::new(load),
            wake: Notify::new(),
            capacity,
        }))
    }

    /// Promises a place for one item, if there is one.
    pub(crate) fn promise(&self) -> bool {
        let mut load = self.0.load.lock();
        let held = load.waiting.len() + load.under_way.len() + load.promised;
        let fits = held < self.0.capacity;
        load.promised += usize::from(fits);
        load.refused |= !fits;
        fits
    }

    /// Carries an item at once, and tells when the peer has it; `None`: there is no room. Of two items with one id the first to
    /// arrive tells.
    pub(crate) fn hurry(&self, id: String, item: T) -> Option<oneshot::Receiver<()>> {
        if !self.promise() {
            return None;
        }
        let (told, arrived) = oneshot::channel();
        let mut load = self.0.load.lock();
        load.hurry = true;
        load.told.insert(id.clone(), told);
        drop(load);
        self.carry(id, item);
        // Also when others wait already.
        self.0.wake.notify_one();
        Some(arrived)
    }

    /// Carries an item for which there is a promise.
    pub(crate) fn carry(&self, id: String, item: T) {
        let mut load = self.0.load.lock();
        load.promised = load.promised.saturating_sub(1);
        load.waiting.push_back((id, item));
        // The others are carried along.
        let first = load.since.is_none();
        load.since.get_or_insert_with(Instant::now);
        drop(load);
        if first {
            self.0.wake.notify_one();
        }
    }

    /// Gives a promised place back.
    pub(crate) fn withdraw(&self) {
        let mut load = self.0.load.lock();
        load.promised = load.promised.saturating_sub(1);
        drop(load);
        self.0.wake.notify_one();
    }

    /// Sends items once, if the peer can be reached now; newer ones replace those that could not be sent.
    pub(crate) fn pass(&self, items: Vec<T>) {
        if !items.is_empty() {
            let mut load = self.0.load.lock();
            load.passing = items;
            load.since.get_or_insert_with(Instant::now);
            drop(load);
            self.0.wake.notify_one();
        }
    }

    /// Sends one more item with those that are passed, as soon as the peer can be reached. The next ones passed replace it.
    pub(crate) fn pass_too(&self, item: Option<T>) {
        if let Some(item) = item {
            let mut load = self.0.load.lock();
            load.passing.push(item);
            load.since.get_or_insert_with(Instant::now);
            drop(load);
            self.0.wake.notify_one();
        }
    }

    /// Items that the peer has not acknowledged.
    pub(crate) fn pending(&self) -> usize {
        let load = self.0.load.lock();
        load.waiting.len() + load.under_way.len() + load.promised
    }
}

/// When a courier ends.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    /// Nothing new will come: the courier ends as soon as all was acknowledged.
    pub(crate) drained: CancellationToken,
    /// No time is left: it ends after a last second.
    pub(crate) killed: CancellationToken,
}

impl<T: Clone + Send + 'static> Courier<T> {
    /// Runs until the end that `ends` describes.
    pub(crate) async fn run<R>(self, mut route: R, config: Config, ends: Ends)
    where
        R: Route<Item = T>,
    {
        let work = self.carry_for_ever(&mut route, &config, &ends.drained);
        let last_second = async {
            ends.killed.cancelled().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        tokio::select! {
            () = work => {}
            () = last_second => {}
        }
    }

    async fn carry_for_ever<R>(&self, route: &mut R, config: &Config, drained: &CancellationToken)
    where
        R: Route<Item = T>,
    {
        let mut pause = config.reconnect;
        let mut silent = false;
        loop {
            let (batches, receiver) = mpsc::channel(4);
            match route.open(ReceiverStream::new(receiver)).await {
                Ok(answers) => {
                    if std::mem::take(&mut silent) {
                        tracing::info!(peer = R::NAME, "stream is open again");
                    }
                    pause = config.reconnect;
                    if self.pump(route, config, batches, answers, drained).await {
                        return;
                    }
                }
                Err(error) if !silent => {
                    silent = true;
                    tracing::warn!(peer = R::NAME, code = ?error.code(), "stream cannot be opened; trying on");
                }
                Err(_) => {}
            }
            self.take_back();
            if drained.is_cancelled() && self.idle() {
                return;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(config.reconnect_max);
        }
    }

    /// Carries over one open stream until it is cut (false) or all is done (true).
    async fn pump<R>(
        &self,
        route: &mut R,
        config: &Config,
        batches: mpsc::Sender<R::Batch>,
        mut answers: Answers<R::Answer>,
        drained: &CancellationToken,
    ) -> bool
    where
        R: Route<Item = T>,
    {
        let mut due = pin!(tokio::time::sleep(Duration::ZERO));
        loop {
            let wanted = self.refill();
            if wanted > 0 {
                let more = route.more(wanted).await;
                self.add(more, wanted);
            }
            if drained.is_cancelled() && self.idle() {
                return true;
            }
            let at = self.due(config.gather);
            if let Some(at) = at
                && at != due.deadline()
            {
                due.as_mut().reset(at);
            }
            let ready = at.is_some_and(|at| at <= Instant::now());
            tokio::select! {
                permit = batches.reserve(), if ready => {
                    let Ok(permit) = permit else { return false };
                    permit.send(R::batch(self.next(config.batch)));
                }
                () = due.as_mut(), if at.is_some() && !ready => {}
                answer = answers.next() => match answer {
                    Some(Ok(answer)) => {
                        let ids = self.remove(R::acknowledged(answer));
                        if !ids.is_empty() {
                            route.arrived(ids).await;
                        }
                    }
                    None | Some(Err(_)) => return false,
                },
                () = self.0.wake.notified() => {}
                () = drained.cancelled(), if !drained.is_cancelled() => {}
            }
        }
    }

    /// When the next batch goes out. What comes alone goes at once: who was just served and asks again finds its slot free and its
    /// tokens counted. Under load it gathers for a while after the batch before; what only matters now takes it along.
    fn due(&self, gather: Duration) -> Option<Instant> {
        let load = self.0.load.lock();
        let since = load.since?;
        match load.sent {
            Some(sent) if load.passing.is_empty() && !load.hurry => Some(since.max(sent + gather)),
            _ => Some(since),
        }
    }

    fn idle(&self) -> bool {
        let load = self.0.load.lock();
        load.waiting.is_empty() && load.under_way.is_empty() && load.promised == 0 && !load.refused
    }

    /// How many of the items that did not fit earlier fit now.
    fn refill(&self) -> usize {
        let load = self.0.load.lock();
        let held = load.waiting.len() + load.under_way.len() + load.promised;
        let room = self.0.capacity.saturating_sub(held);
        if load.refused && room >= self.0.capacity.div_ceil(2) {
            room
        } else {
            0
        }
    }

    fn add(&self, items: Vec<(String, T)>, wanted: usize) {
        let mut load = self.0.load.lock();
        load.refused = items.len() >= wanted;
        if !items.is_empty() {
            load.since.get_or_insert_with(Instant::now);
        }
        load.waiting.extend(items);
    }

    fn next(&self, limit: usize) -> Vec<T> {
        let mut load = self.0.load.lock();
        load.sent = Some(Instant::now());
        let mut items = std::mem::take(&mut load.passing);
        while items.len() < limit
            && let Some((id, item)) = load.waiting.pop_front()
        {
            items.push(item.clone());
            load.under_way.insert(id, item);
        }
        if load.waiting.is_empty() {
            load.since = None;
            load.hurry = false;
        }
        items
    }

    fn remove(&self, mut ids: Vec<String>) -> Vec<String> {
        let mut load = self.0.load.lock();
        ids.retain(|id| {
            if let Some(told) = load.told.remove(id) {
                // Whoever waited may have given up.
                let _ = told.send(());
            }
            load.under_way.remove(id).is_some()
        });
        ids
    }

    fn take_back(&self) {
        let mut load = self.0.load.lock();
        let Load {
            waiting, under_way, ..
        } = &mut *load;
        waiting.extend(under_way.drain());
        load.passing.clear();
        load.since = (!load.waiting.is_empty()).then(Instant::now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_comes_alone_goes_at_once_and_what_follows_gathers() {
        let courier = Courier::new(8);
        let gather = Duration::from_millis(2);
        let carry = |id: &str, item: u8| {
            assert!(courier.promise());
            courier.carry(id.to_owned(), item);
        };
        assert_eq!(courier.due(gather), None);
        carry("a", 1);
        assert_eq!(courier.due(gather), Some(Instant::now()));
        assert_eq!(courier.next(8), [1]);
        carry("b", 2);
        carry("c", 3);
        assert_eq!(courier.due(gather), Some(Instant::now() + gather));
        assert_eq!(courier.next(8), [2, 3]);
        tokio::time::advance(gather * 2).await;
        carry("d", 4);
        assert_eq!(courier.due(gather), Some(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_hurries_takes_along_what_waits_and_tells_when_it_is_there() {
        let courier = Courier::new(3);
        let gather = Duration::from_millis(2);
        let carry = |id: &str, item: u8| {
            assert!(courier.promise());
            courier.carry(id.to_owned(), item);
        };
        carry("a", 1);
        assert_eq!(courier.next(8), [1]);
        carry("b", 2);
        let mut arrived = courier.hurry("c".to_owned(), 3).unwrap();
        assert!(courier.hurry("d".to_owned(), 4).is_none());
        assert_eq!(courier.due(gather), Some(Instant::now()));
        assert_eq!(courier.next(8), [2, 3]);
        assert!(arrived.try_recv().is_err());
        assert_eq!(courier.remove(vec!["c".to_owned()]), ["c"]);
        assert_eq!(arrived.await, Ok(()));
        carry("e", 5);
        assert_eq!(courier.due(gather), Some(Instant::now() + gather));
    }

    #[test]
    fn whoever_holds_a_promise_keeps_a_courier_until_it_is_given_back() {
        let courier = Courier::<u8>::new(8);
        courier.add(Vec::new(), 8);
        assert!(courier.idle() && courier.promise());
        assert!(!courier.idle());
        courier.withdraw();
        assert!(courier.idle());
    }
}
