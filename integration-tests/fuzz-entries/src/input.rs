//! How an input is taken apart.

use bytes::Bytes;

/// Stands between the sections of an input.
const BETWEEN: &[u8] = b"\n----\n";

/// The sections, as many as are asked for; what is not there is empty, the last one has the rest.
pub(crate) fn sections<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut rest = input;
    let mut out = [&b""[..]; N];
    for (at, section) in out.iter_mut().enumerate() {
        let end = rest.windows(BETWEEN.len()).position(|six| six == BETWEEN);
        match end {
            Some(end) if at + 1 < N => {
                *section = &rest[..end];
                rest = &rest[end + BETWEEN.len()..];
            }
            _ => {
                *section = rest;
                rest = b"";
            }
        }
    }
    out
}

/// The word of a first line `# word`, and what follows that line.
pub(crate) fn call(input: &[u8]) -> (&str, &[u8]) {
    let split = input
        .strip_prefix(b"# ")
        .and_then(|after| Some((after, after.iter().position(|byte| *byte == b'\n')?)));
    match split {
        Some((after, end)) => {
            let word = std::str::from_utf8(&after[..end]).unwrap_or("");
            (word, &after[end + 1..])
        }
        None => ("", input),
    }
}

/// The ways in which `bytes` arrive: all at once, cut at places that depend on them, and one by one if they are few.
pub(crate) fn arrivals(bytes: &[u8]) -> Vec<Vec<Bytes>> {
    let whole = Bytes::copy_from_slice(bytes);
    let mut ways = vec![vec![whole.clone()], cut(&whole)];
    if bytes.len() <= 512 {
        ways.push((0..bytes.len()).map(|at| whole.slice(at..=at)).collect());
    }
    ways
}

fn cut(whole: &Bytes) -> Vec<Bytes> {
    let mut state = u64::from(crc32fast::hash(whole)) << 1 | 1;
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < whole.len() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // Mostly a few bytes, sometimes many, now and then none.
        let bound = if state & 7 == 0 { 400 } else { 12 };
        let length = usize::try_from((state >> 32) % bound).unwrap_or(0);
        let end = (at + length).min(whole.len());
        pieces.push(whole.slice(at..end));
        at = end;
    }
    pieces
}
