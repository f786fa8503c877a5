//! The same answers, read by hyper.

use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::AsyncWriteExt as _;

use super::{
    super::answer::{self, Progress},
    *,
};

/// Status, headers and body; `None`: an error, in head or body.
type Said = Option<(Response<()>, Vec<u8>)>;

fn ours(bytes: &[u8], method: &Method) -> Said {
    let mut input = BytesMut::from(bytes);
    let answer = answer::read(
        &mut input,
        &mut Progress::default(),
        *method == Method::HEAD,
    );
    let answer = answer.ok()??;
    let (pieces, end, _) = read(answer.body, &[&input]);
    end.ok()?;
    Some((answer.head, pieces.concat()))
}

async fn theirs(bytes: &[u8], method: &Method) -> Said {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let (mut sender, connection) = http1::handshake(TokioIo::new(near)).await.ok()?;
    let request = Request::builder().method(method).uri("/");
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let answer = async {
        let answer = sender.send_request(request).await.ok()?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.ok()?.to_bytes();
        let mut head = Response::new(());
        *head.status_mut() = parts.status;
        *head.headers_mut() = parts.headers;
        Some((head, body.to_vec()))
    };
    let say = async {
        // Not before the request: that would be unasked.
        let mut request = [0; 512];
        let _ = tokio::io::AsyncReadExt::read(&mut far, &mut request).await;
        let _ = far.write_all(bytes).await;
        drop(far);
    };
    let (answer, (), _) = tokio::join!(answer, say, connection);
    answer
}

fn head() -> impl Strategy<Value = Vec<String>> {
    let line = prop::sample::select(vec![
        "content-length: 5",
        "Content-Length: 3",
        "content-length: 5, 5",
        "content-length: +5",
        "transfer-encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "transfer-encoding: gzip",
        "connection: close",
        "x: y",
        "x:",
        "x : y",
        " folded",
        "bad",
    ]);
    let status = prop::sample::select(vec![
        "HTTP/1.1 200 OK",
        "HTTP/1.0 200 OK",
        "HTTP/1.1 204 None",
        "HTTP/1.1 304 Same",
        "HTTP/1.1 500",
        "HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 200 OK",
        "\r\nHTTP/1.1 200 OK",
        "HTTP/1.1 0200 OK",
        "HTTP/3 200 OK",
    ]);
    (status, prop::collection::vec(line, 0..4)).prop_map(|(status, lines)| {
        let lines = lines.into_iter().map(str::to_owned);
        std::iter::once(status.to_owned()).chain(lines).collect()
    })
}

fn body() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "5\r\nhello\r\n",
        "05\r\nhello\r\n",
        "3;x=y\r\nabc\r\n",
        "3 \r\nabc\r\n",
        "A\r\n0123456789\r\n",
        "3\nabc\n",
        "3\r\nabcd\r\n",
        "ffffffffffffffffff\r\n",
        "0\r\n\r\n",
        "0\r\nx: y\r\n\r\n",
        "hello",
        "\r\n",
        "0",
    ]);
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn what_is_accepted_means_the_same_to_hyper(
        (head, end, body) in (head(), prop::sample::select(vec!["\r\n", "\n"]), body()),
        bodiless in any::<bool>(),
    ) {
        let said = format!("{}{end}{end}{body}", head.join(end));
        let method = if bodiless { Method::HEAD } else { Method::GET };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let theirs = runtime.block_on(theirs(said.as_bytes(), &method));
        let ours = ours(said.as_bytes(), &method);
        let plain = |said: Said| said.map(|(head, body)| (head.status(), head.headers().clone(), body));
        prop_assert_eq!(plain(ours), plain(theirs), "{:?}", said);
    }
}
