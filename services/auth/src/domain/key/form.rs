//! The form of an API key (CON-5), judged without a look-up.
//!
//! Issued: `sk-sb-`, 43 base62 digits (256 bits), 6 base62 digits (CRC-32 of all that stands before). The checksum lets
//! secret scanners find keys and rejects typing errors, but only in texts of exactly this shape: operators may bring their
//! own keys. No text of a key is ever printed from here, but for its first characters.

use rand::Rng;
use secrecy::SecretString;

/// What issued keys begin with.
pub const PREFIX: &str = "sk-sb-";
pub(super) const BODY: usize = 43;
const CHECKSUM: usize = 6;
/// Length of an issued key, characters.
pub const ISSUED_LENGTH: usize = PREFIX.len() + BODY + CHECKSUM;
/// Shortest key that an operator may bring, characters.
pub const OWN_MINIMUM: usize = 32;
/// Longest key that is looked at, characters.
pub const MAXIMUM: usize = 512;
pub(super) const DIGITS: &[u8; 62] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// What the form of a presented text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Exactly the issued shape, and its checksum is right.
    Issued,
    /// Exactly the issued shape, and its checksum is wrong: it was never issued.
    Mistyped,
    /// An operator's own key, perhaps.
    Own,
    /// Too short, too long, or with characters that no header carries: it cannot be a key.
    Impossible,
}

/// Judges a text by its form alone.
#[must_use]
pub fn form(text: &str) -> Form {
    if text.len() == ISSUED_LENGTH
        && text.starts_with(PREFIX)
        && text[PREFIX.len()..]
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric())
    {
        let (body, checksum) = text.split_at(ISSUED_LENGTH - CHECKSUM);
        return if checksum.as_bytes() == checksum_of(body) {
            Form::Issued
        } else {
            Form::Mistyped
        };
    }
    if (OWN_MINIMUM..=MAXIMUM).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic())
    {
        Form::Own
    } else {
        Form::Impossible
    }
}

/// Whether a text may have been issued: it has the whole shape, checksum included.
#[must_use]
pub fn looks_issued(text: &str) -> bool {
    form(text) == Form::Issued
}

/// Makes a key from 256 random bits.
pub fn generate(random: &mut impl Rng) -> SecretString {
    let mut bits = [0_u8; 32];
    random.fill_bytes(&mut bits);
    let mut text = String::with_capacity(ISSUED_LENGTH);
    text.push_str(PREFIX);
    text.extend(base62::<BODY>(&mut bits).map(char::from));
    let checksum = checksum_of(&text);
    text.extend(checksum.map(char::from));
    SecretString::from(text)
}

/// The first characters of a key, enough to recognise it: 4 of the random ones of an issued key, 4 in all of an operator's own.
#[must_use]
pub fn shown(text: &str) -> String {
    let length = if looks_issued(text) {
        PREFIX.len() + 4
    } else {
        4
    };
    text.chars().take(length).collect()
}

/// The number in big-endian bytes, in base 62; it is divided down to zero, digit by digit.
pub(super) fn base62<const N: usize>(number: &mut [u8]) -> [u8; N] {
    let mut digits = [b'0'; N];
    for digit in digits.iter_mut().rev() {
        let mut remainder = 0_u16;
        for byte in number.iter_mut() {
            let value = remainder << 8 | u16::from(*byte);
            // A remainder is below 62, so the quotient is below 256.
            *byte = u8::try_from(value / 62).unwrap_or(u8::MAX);
            remainder = value % 62;
        }
        *digit = DIGITS[usize::from(remainder)];
    }
    digits
}

fn checksum_of(text: &str) -> [u8; CHECKSUM] {
    base62(&mut crc32fast::hash(text.as_bytes()).to_be_bytes())
}
