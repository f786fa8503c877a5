//! How long a piece of audio is, as far as its bytes tell.

/// What is assumed of a format whose own rate is not read, bytes a second: 128 kbit/s.
const USUAL_RATE: u64 = 16_000;
/// No rate beyond this is believed, bytes a second: 8 channels of 48 kHz in 32 bits.
const HIGHEST_RATE: u64 = 1_536_000;
/// Nor one below this.
const LOWEST_RATE: u64 = 1_000;
/// Chunks of a WAV file that are looked at.
const CHUNKS: usize = 32;

/// Milliseconds, rounded up: by its own header for WAV, else at 128 kbit/s.
pub(super) fn millis(audio: &[u8]) -> u64 {
    let (bytes, rate) = wav(audio).unwrap_or((audio.len() as u64, USUAL_RATE));
    bytes.saturating_mul(1_000).div_ceil(rate)
}

/// Bytes of sound and bytes a second of a WAV file [RIFF, Multimedia Programming Interface and Data Specifications 1.0].
/// Of two numbers that should agree the slower one holds: nobody makes their audio shorter by a wrong header.
fn wav(audio: &[u8]) -> Option<(u64, u64)> {
    if audio.get(..4)? != b"RIFF" || audio.get(8..12)? != b"WAVE" {
        return None;
    }
    let mut rest = audio.get(12..)?;
    let mut rate = None;
    for _ in 0..CHUNKS {
        let (id, size) = (rest.get(..4)?, u64::from(number(rest, 4)?));
        let content = rest.get(8..)?;
        if id == b"fmt " {
            let frames = u64::from(number(content, 4)?);
            let width = u64::from(u16::from_le_bytes(*content.get(12..)?.first_chunk()?));
            let told = u64::from(number(content, 8)?);
            rate = Some(told.min(frames * width).clamp(LOWEST_RATE, HIGHEST_RATE));
        } else if id == b"data" {
            // A file that was written as a stream says that it goes on for ever.
            return Some((size.min(content.len() as u64), rate?));
        }
        // Chunks begin at even places.
        let next = usize::try_from(size + size % 2).ok()?;
        rest = content.get(next..)?;
    }
    None
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}
