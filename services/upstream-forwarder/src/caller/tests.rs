use std::{future::pending, sync::Arc};

use futures_util::StreamExt as _;

use super::*;
use crate::pipe::{Buffers, Reader, pipe};

const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn caller(total: u64) -> (Caller, Reader, Arc<Buffers>) {
    let buffers = Buffers::new(1 << 20);
    let (writer, reader) = pipe(10, &buffers);
    let deadline = Instant::now() + secs(total);
    (Caller::new(writer, 0, deadline, secs(60)), reader, buffers)
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_gets_its_head_and_keep_alives_on_the_callers_clock() {
    let (mut caller, mut reader, _) = caller(40);
    let head = ResponseHead {
        status: 200,
        ..ResponseHead::default()
    };
    let start = Instant::now();
    caller.expect_stream(head, Some(start + secs(10)), secs(15), Some(KEEP_ALIVE));
    let read = async {
        let mut seen = Vec::new();
        while let Some(Ok(message)) = reader.next().await {
            assert_eq!(message.frame, KEEP_ALIVE);
            seen.push((start.elapsed().as_secs(), message.head.is_some()));
            if seen.len() == 2 {
                break;
            }
        }
        seen
    };
    let (seen, stop) = tokio::join!(read, caller.attend(pending::<()>()));
    assert_eq!(seen, [(10, true), (25, false)]);
    assert_eq!(stop, Err(Stop::Deadline));
    assert!(caller.opened());
}

#[tokio::test(start_paused = true)]
async fn where_clients_bear_no_keep_alive_the_head_goes_out_alone() {
    let (mut caller, mut reader, _) = caller(60);
    let head = ResponseHead {
        status: 200,
        ..ResponseHead::default()
    };
    caller.expect_stream(head, Some(Instant::now() + secs(10)), secs(15), None);
    assert_eq!(caller.attend(pending::<()>()).await, Err(Stop::Deadline));
    let seen = reader.next().await.unwrap().unwrap();
    assert!(seen.head.is_some() && seen.frame.is_empty() && !seen.end);
    caller.fail(Failure::internal());
    assert!(reader.next().await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn work_has_its_own_limit_within_the_deadline() {
    let (mut caller, _reader, _) = caller(40);
    let start = Instant::now();
    let late = caller.attend_until(start + secs(5), pending::<()>()).await;
    assert_eq!(late, Ok(Err(Elapsed)));
    assert_eq!(start.elapsed(), secs(5));
    let late = caller
        .attend_until(start + secs(100), pending::<()>())
        .await;
    assert_eq!(late, Err(Stop::Deadline));
    assert_eq!(start.elapsed(), secs(40));
}

#[tokio::test(start_paused = true)]
async fn what_can_be_done_without_is_waited_for_while_there_is_time_and_somebody_to_answer() {
    let start = Instant::now();
    let (mut here, mut reader, _) = caller(40);
    assert_eq!(here.spare(secs(5), async { 7 }).await, Some(7));
    assert_eq!(start.elapsed(), secs(0));
    assert_eq!(here.spare(secs(5), pending::<()>()).await, None);
    assert_eq!(start.elapsed(), secs(5));
    // The total time is over, and the answer that is there still goes out whole.
    assert_eq!(here.spare(secs(100), pending::<()>()).await, None);
    assert_eq!(start.elapsed(), secs(40));
    let last = Bytes::from_static(b"end");
    assert_eq!(here.pass(last.clone(), true, None).await, Ok(()));
    assert_eq!(reader.next().await.unwrap().unwrap().frame, last);

    let (mut left, reader, _) = caller(40);
    let start = Instant::now();
    let leaves = async {
        tokio::time::sleep(secs(2)).await;
        drop(reader);
    };
    let (waited, ()) = tokio::join!(left.spare(secs(30), pending::<()>()), leaves);
    assert_eq!((waited, start.elapsed()), (None, secs(2)));
    let told = left.pass(Bytes::new(), true, None).await;
    assert_eq!(told, Err(Stop::Left));
}

/// A token every 20 s, taken at once, until all are out or it is stopped.
async fn steady(total: u64, tokens: u64) -> (usize, Duration, Result<(), Stop>) {
    let (mut caller, mut reader, _) = caller(total);
    let start = Instant::now();
    let mut seen = 0;
    for at in 1..=tokens {
        let token = tokio::time::sleep_until(start + secs(20 * at));
        let idle = Instant::now() + secs(30);
        match caller.attend_until(idle, token).await {
            Ok(come) => assert_eq!(come, Ok(()), "a steady stream is never idle"),
            Err(stop) => return (seen, start.elapsed(), Err(stop)),
        }
        let (written, read) = tokio::join!(
            caller.pass(Bytes::from_static(b"x"), at == tokens, None),
            reader.next()
        );
        written.unwrap();
        seen += read.unwrap().unwrap().frame.len();
    }
    (seen, start.elapsed(), Ok(()))
}

#[tokio::test(start_paused = true)]
async fn a_steady_stream_of_half_an_hour_lives_as_long_as_its_total_time() {
    assert_eq!(steady(1_801, 90).await, (90, secs(1_800), Ok(())));
    assert_eq!(
        steady(1_799, 90).await,
        (89, secs(1_799), Err(Stop::Deadline))
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_takes_nothing_is_gone_after_the_write_timeout() {
    let (mut caller, _reader, _) = caller(900);
    let start = Instant::now();
    caller
        .pass(Bytes::from_static(b"0123456789"), false, None)
        .await
        .unwrap();
    let stop = caller.pass(Bytes::from_static(b"x"), false, None).await;
    assert_eq!(stop, Err(Stop::Left));
    assert_eq!(start.elapsed(), secs(60));
    assert_eq!(caller.waited(), secs(60));
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_ends_what_is_waited_for() {
    let (mut caller, reader, buffers) = caller(900);
    caller
        .pass(Bytes::from_static(b"0123456789"), false, None)
        .await
        .unwrap();
    drop(reader);
    assert_eq!(caller.attend(pending::<()>()).await, Err(Stop::Left));
    assert_eq!(
        caller.pass(Bytes::new(), false, None).await,
        Err(Stop::Left)
    );
    assert_eq!(buffers.used(), 0);
}

#[tokio::test]
async fn work_that_is_always_there_does_not_outlast_the_clock() {
    let (mut caller, _reader, _) = caller(60);
    let busy = async {
        loop {
            tokio::task::consume_budget().await;
        }
    };
    let due = Instant::now();
    let waited = caller.attend_until::<_>(due, busy).await;
    assert_eq!(waited.map(|done: Result<(), _>| done), Ok(Err(Elapsed)));
}
