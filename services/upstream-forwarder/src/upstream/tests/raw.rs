//! HTTP/1.1 upstreams that say more, less or something else than one answer to each request.

mod framing;
mod going;
mod reuse;

use std::sync::Mutex;

use super::*;

/// What an upstream does on a connection, one after the other. After the last it closes it.
#[derive(Clone, Copy, Debug)]
enum Do {
    /// Reads a whole request.
    Read,
    /// Reads a request's head, and nothing of its body.
    ReadHead,
    Say(&'static str),
    /// Says it byte by byte.
    Dribble(&'static str),
    /// Waits for the test.
    Wait,
    /// Reads on until the connection is closed.
    Stay,
    /// Reads nothing, and keeps it open.
    Stall,
    /// Ends the connection with a reset.
    Reset,
}

use Do::{Dribble, Read, ReadHead, Reset, Say, Stall, Stay, Wait};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const TWO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\ntwo";

/// An upstream with a list of what to do for each connection.
struct Raw {
    address: SocketAddr,
    opened: Arc<AtomicUsize>,
    /// Requests that were read, over all connections.
    heard: Arc<Mutex<Vec<String>>>,
    /// Connections that are over.
    ended: Arc<Semaphore>,
    go: Arc<Semaphore>,
    gone: Arc<Semaphore>,
}

impl Raw {
    async fn start(connections: Vec<Vec<Do>>) -> Self {
        Self::over(connections, None).await
    }

    async fn over(connections: Vec<Vec<Do>>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let raw = Self {
            address: listener.local_addr().unwrap(),
            opened: Arc::default(),
            heard: Arc::default(),
            ended: Arc::new(Semaphore::new(0)),
            go: Arc::new(Semaphore::new(0)),
            gone: Arc::new(Semaphore::new(0)),
        };
        let (opened, heard) = (Arc::clone(&raw.opened), Arc::clone(&raw.heard));
        let (ended, go, gone) = (raw.ended.clone(), raw.go.clone(), raw.gone.clone());
        tokio::spawn(async move {
            for script in connections {
                let (tcp, _) = listener.accept().await.unwrap();
                opened.fetch_add(1, Ordering::SeqCst);
                let (heard, ended) = (Arc::clone(&heard), Arc::clone(&ended));
                let (go, gone, tls) = (Arc::clone(&go), Arc::clone(&gone), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => {
                            let tls = tls.accept(tcp).await.unwrap();
                            play(tls, script, &heard, &go, &gone, |tls| {
                                tls.get_ref().0.set_zero_linger().unwrap();
                            })
                            .await;
                        }
                        None => {
                            play(tcp, script, &heard, &go, &gone, |tcp: &TcpStream| {
                                tcp.set_zero_linger().unwrap();
                            })
                            .await;
                        }
                    }
                    ended.add_permits(1);
                });
            }
        });
        raw
    }

    fn url(&self) -> Uri {
        format!("http://{}/v1", self.address).parse().unwrap()
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    fn heard(&self) -> usize {
        self.heard.lock().unwrap().len()
    }

    /// Waits until a connection is over, and our side of it could have noticed.
    async fn one_ended(&self) {
        self.ended.acquire().await.unwrap().forget();
        events_are_seen().await;
    }

    /// Lets a connection go on that waits, until it has done what comes next.
    async fn go(&self) {
        self.go.add_permits(1);
        self.gone.acquire().await.unwrap().forget();
        events_are_seen().await;
    }
}

async fn play<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(
    mut stream: S,
    script: Vec<Do>,
    heard: &Mutex<Vec<String>>,
    go: &Semaphore,
    gone: &Semaphore,
    reset: impl Fn(&S),
) {
    let mut waited = false;
    for step in script {
        match step {
            Read | ReadHead => {
                let Some(head) = head(&mut stream).await else {
                    return;
                };
                if matches!(step, Read) {
                    let length = head.lines().find_map(|line| {
                        line.strip_prefix("content-length: ")?.parse::<usize>().ok()
                    });
                    let mut body = vec![0; length.unwrap_or(0)];
                    stream.read_exact(&mut body).await.unwrap();
                }
                heard.lock().unwrap().push(head);
            }
            Say(words) => {
                // The other side may have closed it.
                let _ = stream.write_all(words.as_bytes()).await;
                let _ = stream.flush().await;
                if std::mem::take(&mut waited) {
                    gone.add_permits(1);
                }
            }
            Dribble(words) => {
                for byte in words.as_bytes() {
                    let _ = stream.write_all(&[*byte]).await;
                    let _ = stream.flush().await;
                    tokio::task::yield_now().await;
                }
            }
            Wait => {
                go.acquire().await.unwrap().forget();
                waited = true;
            }
            Stay => while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {},
            Stall => std::future::pending().await,
            Reset => return reset(&stream),
        }
    }
    let _ = stream.shutdown().await;
}

/// `None`: the other side closed it.
async fn head<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Returns when the runtime has seen all that had happened on sockets before.
async fn events_are_seen() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (mut ours, mut theirs) = (ours.unwrap(), theirs.unwrap().0);
    theirs.write_all(b"x").await.unwrap();
    ours.read_exact(&mut [0]).await.unwrap();
}

async fn call(upstreams: &Upstreams, url: Uri) -> Result<(u16, Result<Bytes, String>), SendError> {
    let answer = upstreams.send(&needs(), post(url)).await?;
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await;
    let body = body.map(http_body_util::Collected::to_bytes);
    Ok((status, body.map_err(|error| error.to_string())))
}

fn fine(status: u16, body: &'static str) -> (u16, Result<Bytes, String>) {
    (status, Ok(body.into()))
}
