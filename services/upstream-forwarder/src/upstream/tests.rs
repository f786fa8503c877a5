//! Connections to small servers of our own.

mod raw;

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use fake_upstream::{Late, late};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::{body::Frame, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{RootCertStore, ServerConfig, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, oneshot},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use super::*;

/// A server that counts its connections and requests.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    /// A request to `/gate` waits for one.
    gate: Arc<Semaphore>,
}

/// How it speaks.
enum Speech {
    Plain,
    /// HTTP/2 over TLS, with so many streams a connection.
    Streams(u32, Arc<ServerConfig>),
}

impl Server {
    async fn start(speech: Speech) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            requests: Arc::default(),
            gate: Arc::new(Semaphore::new(0)),
        };
        let (own, speech) = (server.clone(), Arc::new(speech));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                own.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(own.clone().serve(tcp, Arc::clone(&speech)));
            }
        });
        server
    }

    async fn serve(self, tcp: TcpStream, speech: Arc<Speech>) {
        let answer = service_fn(move |request| self.clone().answer(request));
        match &*speech {
            Speech::Plain => {
                let plain = hyper::server::conn::http1::Builder::new();
                let _ = plain.serve_connection(TokioIo::new(tcp), answer).await;
            }
            Speech::Streams(most, tls) => {
                let Ok(tls) = TlsAcceptor::from(Arc::clone(tls)).accept(tcp).await else {
                    return;
                };
                let mut shared = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                shared.max_concurrent_streams(*most);
                let _ = shared.serve_connection(TokioIo::new(tls), answer).await;
            }
        }
    }

    async fn answer(
        self,
        request: Request<hyper::body::Incoming>,
    ) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let host = request.headers().get(http::header::HOST).cloned();
        let host = host.map(|host| host.to_str().unwrap().to_owned());
        let host = host.or_else(|| request.uri().authority().map(ToString::to_string));
        Ok(Response::new(match request.uri().path() {
            "/gate" => {
                self.gate.acquire().await.unwrap().forget();
                Full::from("late").boxed()
            }
            "/echo" => request
                .into_body()
                .map_err(|error| panic!("{error}"))
                .boxed(),
            "/endless" => {
                let first = futures_util::stream::iter([Ok(Frame::data("so".into()))]);
                let rest = futures_util::stream::pending();
                StreamBody::new(futures_util::StreamExt::chain(first, rest)).boxed()
            }
            _ => Full::from(host.unwrap_or_default()).boxed(),
        }))
    }

    fn opened(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn url(&self, scheme: &str, path: &str) -> Uri {
        let port = self.address.port();
        let host = if scheme == "https" {
            "localhost"
        } else {
            "127.0.0.1"
        };
        format!("{scheme}://{host}:{port}{path}").parse().unwrap()
    }
}

/// A certificate for `localhost`: its server, and a client that trusts it.
fn certified() -> (Arc<ServerConfig>, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.key_pair.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec()];
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), client)
}

fn upstreams(change: impl FnOnce(&mut config::Upstream)) -> Upstreams {
    let mut config = config::Upstream::default();
    change(&mut config);
    Upstreams::new(&config, &Lifecycle::new()).unwrap()
}

fn needs() -> Needs {
    Needs {
        private: true,
        connect: Duration::from_secs(5),
        fresh: false,
        proxy: None,
    }
}

fn post(url: Uri) -> Request<Outgoing> {
    let body = Outgoing::new(Bytes::from_static(b"{}"), Sent::new(), Box::new(|| ()));
    let mut request = Request::new(body);
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = url;
    request
}

async fn whole(upstreams: &Upstreams, url: Uri) -> Result<Bytes, SendError> {
    let answer = upstreams.send(&needs(), post(url)).await?;
    Ok(answer.into_body().collect().await.unwrap().to_bytes())
}

async fn until(upstreams: &Upstreams, open: usize, idle: usize) {
    let there = async {
        while upstreams.connections() != (Connections { open, idle }) {
            // Nobody drives an idle HTTP/1.1 connection.
            upstreams.pool.sweep();
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), there).await;
    assert!(waited.is_ok(), "{:?}", upstreams.connections());
}

#[tokio::test]
async fn bodies_of_any_size_arrive_as_they_are() {
    let (tls, trusting) = certified();
    let config = config::Upstream::default();
    let upstreams = Upstreams::with_tls(&config, &Lifecycle::new(), trusting);
    for (speech, scheme) in [(Speech::Plain, "http"), (Speech::Streams(9, tls), "https")] {
        let server = Server::start(speech).await;
        for size in [0, 1, 65_535, 65_536, 65_537, 3_000_001] {
            let bytes: Vec<u8> = (0..size)
                .map(|at: u32| at.to_le_bytes()[at as usize % 3])
                .collect();
            let (sent, told) = (Sent::new(), Arc::new(AtomicUsize::new(0)));
            let telling = Arc::clone(&told);
            let then = Box::new(move || {
                telling.fetch_add(1, Ordering::SeqCst);
            });
            let body = Outgoing::new(bytes.clone().into(), Arc::clone(&sent), then);
            let request = post(server.url(scheme, "/echo")).map(|_| body);
            let answer = upstreams.send(&needs(), request).await.unwrap();
            let echoed = answer.into_body().collect().await.unwrap().to_bytes();
            assert!(echoed == bytes, "{size} bytes over {scheme}");
            assert!(sent.connected().is_some() && sent.all());
            assert_eq!(told.load(Ordering::SeqCst), 1, "{size} bytes over {scheme}");
        }
        assert_eq!(server.opened(), 1);
    }
}

#[tokio::test]
async fn connections_are_used_again_and_the_one_idle_for_longest_goes_first() {
    let upstreams = upstreams(|config| config.idle_total = 2);
    let mut servers = Vec::new();
    for _ in 0..3 {
        let server = Server::start(Speech::Plain).await;
        for _ in 0..3 {
            let said = whole(&upstreams, server.url("http", "/")).await.unwrap();
            assert_eq!(said, server.address.to_string());
        }
        assert_eq!(server.opened(), 1);
        servers.push(server);
    }
    until(&upstreams, 2, 2).await;
    for (server, opened) in servers.iter().zip([2, 1, 1]).rev() {
        whole(&upstreams, server.url("http", "/")).await.unwrap();
        assert_eq!(server.opened(), opened);
    }
}

#[tokio::test]
async fn a_host_has_no_more_idle_connections_than_its_own_bound() {
    let upstreams = upstreams(|config| config.idle_per_host = 1);
    let server = Server::start(Speech::Plain).await;
    server.gate.add_permits(2);
    let call = || whole(&upstreams, server.url("http", "/gate"));
    let (one, two) = tokio::join!(call(), call());
    assert_eq!((one.unwrap(), two.unwrap()), ("late".into(), "late".into()));
    assert_eq!(server.opened(), 2);
    until(&upstreams, 1, 1).await;
}

#[tokio::test]
async fn what_is_idle_for_too_long_is_closed() {
    let upstreams = upstreams(|config| config.idle_timeout = Duration::ZERO);
    let server = Server::start(Speech::Plain).await;
    for opened in 1..3 {
        whole(&upstreams, server.url("http", "/")).await.unwrap();
        assert_eq!(server.opened(), opened);
    }
    upstreams.pool.sweep();
    until(&upstreams, 0, 0).await;
}

#[tokio::test]
async fn an_idle_connection_that_broke_is_no_failed_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url: Uri = format!("http://{}/", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let served = tokio::spawn(async move {
        for _ in 0..3 {
            let (mut tcp, _) = listener.accept().await.unwrap();
            let mut head = [0; 1024];
            assert!(tcp.read(&mut head).await.unwrap() > 0);
            tcp.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await
                .unwrap();
            // It goes without a word.
        }
    });
    let upstreams = upstreams(|_| ());
    for _ in 0..3 {
        assert_eq!(whole(&upstreams, url.clone()).await.unwrap(), "ok");
        until(&upstreams, 0, 0).await;
    }
    served.await.unwrap();
}

#[tokio::test]
async fn an_answer_that_is_dropped_ends_its_connection() {
    let upstreams = upstreams(|_| ());
    let server = Server::start(Speech::Plain).await;
    let endless = post(server.url("http", "/endless"));
    let mut answer = upstreams.send(&needs(), endless).await.unwrap();
    assert!(answer.body_mut().frame().await.unwrap().is_ok());
    assert_eq!(upstreams.connections(), Connections { open: 1, idle: 0 });
    drop(answer);
    until(&upstreams, 0, 0).await;
}

#[tokio::test]
async fn over_http2_requests_share_a_connection_until_its_streams_are_used_up() {
    let (tls, trusting) = certified();
    let server = Server::start(Speech::Streams(2, tls)).await;
    let config = config::Upstream::default();
    let upstreams = Upstreams::with_tls(&config, &Lifecycle::new(), trusting);
    for _ in 0..2 {
        let said = whole(&upstreams, server.url("https", "/")).await.unwrap();
        assert_eq!(said, server.url("https", "/").authority().unwrap().as_str());
    }
    until(&upstreams, 1, 1).await;
    let mut waiting = Vec::new();
    for open in [1, 1, 2] {
        let mut call = Box::pin(whole(&upstreams, server.url("https", "/gate")));
        let arrived = server.requests.load(Ordering::SeqCst);
        while server.requests.load(Ordering::SeqCst) == arrived {
            let polled = futures_util::poll!(&mut call);
            assert!(polled.is_pending());
            tokio::task::yield_now().await;
        }
        assert_eq!(upstreams.connections(), Connections { open, idle: 0 });
        waiting.push(call);
    }
    server.gate.add_permits(3);
    for said in futures_util::future::join_all(waiting).await {
        assert_eq!(said.unwrap(), "late");
    }
    until(&upstreams, 2, 2).await;
    let mut answer = upstreams
        .send(&needs(), post(server.url("https", "/endless")))
        .await
        .unwrap();
    assert!(answer.body_mut().frame().await.unwrap().is_ok());
    until(&upstreams, 2, 1).await;
    drop(answer);
    until(&upstreams, 2, 2).await;
    upstreams.pool.close();
    until(&upstreams, 0, 0).await;
}

/// An upstream over HTTP/2 that answers with so many frames at once.
struct Ahead {
    upstreams: Upstreams,
    url: Uri,
    end: oneshot::Sender<()>,
    _served: JoinSet<std::io::Result<()>>,
}

/// A token in a frame of its own.
const TOKEN: &[u8] = &[b'x'; 60];

impl Ahead {
    async fn start(frames: usize) -> Self {
        let (tls, trusting) = certified();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (end, ended) = oneshot::channel();
        let says = Late {
            headers: &[("content-type", "text/event-stream")],
            piece: Bytes::from_static(TOKEN),
            frames,
            trailers: &[],
        };
        let mut served = JoinSet::new();
        served.spawn(async move {
            let (tcp, _) = listener.accept().await?;
            late(TlsAcceptor::from(tls).accept(tcp).await?, says, ended).await
        });
        let config = config::Upstream::default();
        Self {
            upstreams: Upstreams::with_tls(&config, &Lifecycle::new(), trusting),
            url: format!("https://localhost:{port}/").parse().unwrap(),
            end,
            _served: served,
        }
    }

    /// An answer of which the first frame has come.
    async fn begun(&self) -> Response<Incoming> {
        let sent = self.upstreams.send(&needs(), post(self.url.clone())).await;
        let mut answer = sent.unwrap();
        let first = answer.body_mut().frame().await.unwrap().unwrap();
        assert!(first.into_data().unwrap().starts_with(TOKEN));
        answer
    }

    /// Ends what is open; the bytes of this answer after its first frame. All was on one connection.
    async fn rest(self, kept: Response<Incoming>) -> usize {
        assert_eq!(self.upstreams.connections().open, 1);
        self.end.send(()).unwrap();
        kept.into_body().collect().await.unwrap().to_bytes().len()
    }
}

#[tokio::test]
async fn over_http2_callers_that_leave_end_nobody_elses_answer() {
    let upstream = Ahead::start(1).await;
    let kept = upstream.begun().await;
    // More than `h2` forgives in a connection's life, in lots of more than it remembers.
    for _ in 0..25 {
        let lot = futures_util::future::join_all((0..60).map(|_| upstream.begun())).await;
        drop(lot);
    }
    drop(upstream.begun().await);
    assert_eq!(upstream.rest(kept).await, TOKEN.len());
}

#[tokio::test]
async fn over_http2_callers_that_read_nothing_end_nobody_elses_answer() {
    // A stream's window is full of them.
    let frames = 4_000;
    let upstream = Ahead::start(frames).await;
    let kept = upstream.begun().await;
    let mut unread = Vec::new();
    for _ in 0..40 {
        unread.push(upstream.begun().await);
    }
    assert_eq!(upstream.rest(kept).await, frames * TOKEN.len());
}

#[tokio::test]
async fn a_proxy_may_be_reached_over_tls_and_carries_tls_to_the_upstream() {
    let (tls, trusting) = certified();
    let server = Server::start(Speech::Streams(9, Arc::clone(&tls))).await;
    let mut own = (*tls).clone();
    own.alpn_protocols = vec![b"http/1.1".to_vec()];
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!(
        "https://localhost:{}",
        listener.local_addr().unwrap().port()
    );
    let target = server.address;
    let proxied = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut tls = TlsAcceptor::from(Arc::new(own)).accept(tcp).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(tls.read_u8().await.unwrap());
        }
        tls.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut tcp = TcpStream::connect(target).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut tls, &mut tcp).await;
        String::from_utf8(head).unwrap()
    });
    let config = config::Upstream::default();
    let upstreams = Upstreams::with_tls(&config, &Lifecycle::new(), trusting);
    let needs = Needs {
        proxy: upstreams.proxy(&proxy),
        ..needs()
    };
    let url = server.url("https", "/");
    let answer = upstreams.send(&needs, post(url.clone())).await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_2);
    let said = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(said, url.authority().unwrap().as_str());
    // Directly it is another connection.
    assert_eq!(upstreams.connections(), Connections { open: 1, idle: 1 });
    whole(&upstreams, url.clone()).await.unwrap();
    assert_eq!(upstreams.connections(), Connections { open: 2, idle: 2 });
    upstreams.pool.close();
    let head = proxied.await.unwrap();
    let expected = format!("CONNECT {} HTTP/1.1\r\n", url.authority().unwrap());
    assert!(head.starts_with(&expected), "{head}");
}

#[tokio::test]
async fn a_proxy_that_is_not_there_is_to_blame_itself() {
    let upstreams = upstreams(|_| ());
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let needs = Needs {
        proxy: upstreams.proxy(&proxy),
        ..needs()
    };
    let url = Uri::from_static("http://api.example.com/");
    let failed = upstreams.send(&needs, post(url)).await.err().unwrap();
    assert!(matches!(failed, SendError::Proxy(_)), "{failed:?}");
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_a_failed_connection() {
    let (tls, _) = certified();
    let server = Server::start(Speech::Streams(2, tls)).await;
    let upstreams = upstreams(|_| ());
    let refused = whole(&upstreams, server.url("https", "/"))
        .await
        .unwrap_err();
    assert!(
        matches!(refused, SendError::Connect(Obstacle::Tls, _)),
        "{refused:?}"
    );
    assert_eq!(server.requests.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn connections_end_when_no_request_runs_any_more() {
    let lifecycle = Lifecycle::new();
    let upstreams = Arc::new(Upstreams::new(&config::Upstream::default(), &lifecycle).unwrap());
    let drained = CancellationToken::new();
    let (kept, until_drained) = (Arc::clone(&upstreams), drained.clone());
    lifecycle.spawn("keep", async move { kept.keep(until_drained).await });
    let server = Server::start(Speech::Plain).await;
    whole(&upstreams, server.url("http", "/")).await.unwrap();
    drained.cancel();
    let second = Duration::from_secs(20);
    assert!(lifecycle.shutdown(second, Duration::ZERO).await);
    assert_eq!(upstreams.connections(), Connections::default());
}

#[test]
fn a_private_address_is_seen_in_the_url() {
    for (url, private) in [
        ("http://127.0.0.1:80/v1", true),
        ("http://[::1]/v1", true),
        ("http://[::ffff:10.0.0.1]/v1", true),
        ("http://169.254.169.254/latest", true),
        ("http://localhost:8080/v1", true),
        ("http://api.Localhost./v1", true),
        ("https://8.8.8.8/v1", false),
        ("https://api.example.com/v1", false),
        ("https://localhost.example.com/v1", false),
    ] {
        let uri: Uri = url.parse().unwrap();
        assert_eq!(names_private(&uri), private, "{url}");
    }
}
