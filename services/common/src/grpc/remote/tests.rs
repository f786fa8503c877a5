use fake_upstream::{Late, late};
use switchboard_proto::inference::v1::{
    GenerateRequest, GenerateResponse, inference_client::InferenceClient,
};
use tokio::{net::TcpListener, sync::oneshot, task::JoinSet};
use tonic::Streaming;

use super::*;
use crate::{clock::ManualClock, secret::MasterKey};

/// One connection to a peer that answers each call with so many frames, of four empty messages each.
struct Line {
    rpc: Rpc,
    end: oneshot::Sender<()>,
    /// The peer.
    _served: JoinSet<std::io::Result<()>>,
}

/// Messages of one frame, and the bytes of an empty one.
const MESSAGES: usize = 4;
const EMPTY: [u8; 5] = [0; 5];

impl Line {
    async fn open(frames: usize, streams: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (end, ended) = oneshot::channel();
        let says = Late {
            headers: &[("content-type", "application/grpc")],
            piece: EMPTY.repeat(MESSAGES).into(),
            frames,
            trailers: &[("grpc-status", "0")],
        };
        let mut served = JoinSet::new();
        served.spawn(async move {
            let (stream, _) = listener.accept().await?;
            late(stream, says, ended).await
        });
        let config = GrpcConfig {
            connections_per_peer: 1,
            streams_per_connection: streams,
            ..GrpcConfig::default()
        };
        let tokens = ServiceTokens::new(
            &MasterKey::from_bytes([7; 32]),
            ManualClock::at_ms(0),
            Duration::from_secs(60),
        );
        let rpc = remote(&[address], Role::Edge, tokens, &config).unwrap();
        Self {
            rpc,
            end,
            _served: served,
        }
    }

    /// A call whose first message has come.
    async fn call(&self) -> Streaming<GenerateResponse> {
        let mut client = InferenceClient::new(self.rpc.clone());
        let request = GenerateRequest::default();
        let mut answers = client.generate(request).await.unwrap().into_inner();
        assert!(answers.message().await.unwrap().is_some());
        answers
    }

    /// Ends all open calls; what came of this one, after its first message.
    async fn rest(self, mut kept: Streaming<GenerateResponse>) -> usize {
        self.end.send(()).unwrap();
        let mut rest = 0;
        while kept.message().await.unwrap().is_some() {
            rest += 1;
        }
        rest
    }
}

#[tokio::test]
async fn calls_that_are_cancelled_end_no_other_of_their_connection() {
    let line = Line::open(1, 1_000).await;
    let kept = line.call().await;
    // More than `h2` forgives in a connection's life, in lots of more than it remembers.
    for _ in 0..6 {
        let lot: Vec<_> = futures_util::future::join_all((0..250).map(|_| line.call())).await;
        drop(lot);
    }
    // A call that is answered after them: what was late has come.
    drop(line.call().await);
    assert_eq!(line.rest(kept).await, 2 * MESSAGES - 1);
}

#[tokio::test]
async fn single_tokens_that_nobody_reads_end_no_other_call_of_their_connection() {
    // 20 bytes a frame, and a stream's window is full of them.
    let frames = 3_000;
    let line = Line::open(frames, 1_000).await;
    let kept = line.call().await;
    let mut unread = Vec::new();
    for _ in 0..60 {
        unread.push(line.call().await);
    }
    assert_eq!(line.rest(kept).await, (frames + 1) * MESSAGES - 1);
}
