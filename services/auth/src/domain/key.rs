//! The form of an API key (CON-5) and its keyed hash (AUTH-2).
//!
//! Issued: `sk-sb-`, 43 base62 digits (256 bits), 6 base62 digits (CRC-32 of all that stands before). The checksum lets
//! secret scanners find keys and rejects typing errors without a look-up, but only in texts of exactly this shape: operators
//! may bring their own keys. No text of a key is ever printed from here, but for its first characters.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use rand::Rng;
use secrecy::SecretString;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use switchboard_common::secret::SubKey;
use zeroize::Zeroize as _;

/// What issued keys begin with.
pub const PREFIX: &str = "sk-sb-";
const BODY: usize = 43;
const CHECKSUM: usize = 6;
/// Length of an issued key, characters.
pub const ISSUED_LENGTH: usize = PREFIX.len() + BODY + CHECKSUM;
/// Shortest key that an operator may bring, characters.
pub const OWN_MINIMUM: usize = 32;
/// Longest key that is looked at, characters.
pub const MAXIMUM: usize = 512;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

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
fn base62<const N: usize>(number: &mut [u8]) -> [u8; N] {
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

/// A key as it is stored and looked up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// From a stored value; `None` when it has another length.
    #[must_use]
    pub fn from_stored(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Compares in constant time.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyHash(***)")
    }
}

/// Hashes keys with a key of its own (HMAC-SHA-256): the stored hashes are worth nothing without the master key.
#[derive(Clone)]
pub struct KeyHasher(Hmac<Sha256>);

impl KeyHasher {
    /// With the sub-key of purpose `ApiKeyHash`.
    #[must_use]
    pub fn new(key: &SubKey) -> Self {
        // HMAC pads a shorter key with zeros to its block; a whole block cannot be refused.
        let mut block = [0_u8; 64];
        block[..32].copy_from_slice(key.bytes());
        let keyed = Hmac::<Sha256>::new(&block.into());
        block.zeroize();
        Self(keyed)
    }

    /// The hash of a caller's key.
    #[must_use]
    pub fn key(&self, text: &str) -> KeyHash {
        self.hash(b"key\0", text)
    }

    /// The hash of an admin's token; never equal to that of a key.
    #[must_use]
    pub fn admin_token(&self, text: &str) -> KeyHash {
        self.hash(b"admin\0", text)
    }

    /// A value that takes the place of a hash whose text now belongs to another key; no text hashes to it.
    #[must_use]
    pub fn retired(&self, key_id: &str) -> KeyHash {
        self.hash(b"retired\0", key_id)
    }

    fn hash(&self, domain: &[u8], text: &str) -> KeyHash {
        let mut mac = self.0.clone();
        mac.update(domain);
        mac.update(text.as_bytes());
        KeyHash(mac.finalize().into_bytes().into())
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyHasher(***)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};
    use rand::{SeedableRng as _, rngs::StdRng};
    use secrecy::ExposeSecret as _;
    use switchboard_common::secret::{MasterKey, Purpose};

    use super::*;

    fn hasher(byte: u8) -> KeyHasher {
        KeyHasher::new(&MasterKey::from_bytes([byte; 32]).subkey(Purpose::ApiKeyHash))
    }

    #[test]
    fn the_largest_number_fits_43_digits() {
        let mut number = [0xff; 32];
        let digits = base62::<BODY>(&mut number);
        assert_eq!(number, [0; 32], "nothing is left over");
        assert!(digits[0] > b'0');
        assert_eq!(base62::<6>(&mut 61_u32.to_be_bytes()), *b"00000z");
        assert_eq!(base62::<6>(&mut 62_u32.to_be_bytes()), *b"000010");
    }

    #[test]
    fn an_issued_key_has_the_documented_form_and_shows_ten_characters() {
        let key = generate(&mut StdRng::seed_from_u64(7));
        let text = key.expose_secret();
        assert_eq!(text.len(), 55);
        assert!(text.starts_with("sk-sb-"));
        assert!(looks_issued(text));
        assert_eq!(shown(text), &text[..10]);
    }

    #[test]
    fn the_checksum_judges_only_what_has_exactly_the_issued_shape() {
        let key = generate(&mut StdRng::seed_from_u64(1))
            .expose_secret()
            .to_owned();
        let mut wrong = key.clone();
        wrong.pop();
        wrong.push(if key.ends_with('0') { '1' } else { '0' });
        assert_eq!(form(&wrong), Form::Mistyped);
        assert_eq!(
            form(&format!("{wrong}0")),
            Form::Own,
            "one longer: another shape"
        );
        assert_eq!(form(&wrong[..54]), Form::Own, "one shorter: another shape");
        assert_eq!(form(&wrong.replacen("sk-sb-", "sk-xx-", 1)), Form::Own);
        assert_eq!(
            form(&format!("{}-{}", &wrong[..20], &wrong[21..])),
            Form::Own
        );
    }

    #[test]
    fn what_no_header_can_carry_or_is_too_short_is_no_key() {
        assert_eq!(form(""), Form::Impossible);
        assert_eq!(form("' OR 1=1--"), Form::Impossible);
        assert_eq!(form(&"k".repeat(31)), Form::Impossible);
        assert_eq!(form(&"k".repeat(32)), Form::Own);
        assert_eq!(form(&"k".repeat(513)), Form::Impossible);
        assert_eq!(
            form("an own key with blanks, 32 characters and more"),
            Form::Impossible
        );
        assert_eq!(form(&"é".repeat(32)), Form::Impossible);
        assert_eq!(shown("own-key-of-an-operator-0123456789"), "own-");
    }

    #[test]
    fn hashes_depend_on_the_master_key_and_on_what_is_hashed() {
        let text = "own-key-of-an-operator-0123456789";
        assert!(hasher(1).key(text).matches(&hasher(1).key(text)));
        assert!(!hasher(1).key(text).matches(&hasher(2).key(text)));
        assert!(!hasher(1).key(text).matches(&hasher(1).admin_token(text)));
        assert!(!hasher(1).key(text).matches(&hasher(1).retired(text)));
        assert_eq!(
            format!("{:?}{:?}", hasher(1), hasher(1).key(text)),
            "KeyHasher(***)KeyHash(***)"
        );
    }

    proptest! {
        #[test]
        fn every_seed_gives_a_key_that_looks_issued_and_one_wrong_character_is_seen(
            seed in any::<u64>(), at in 6_usize..55, with in 0_usize..62,
        ) {
            let key = generate(&mut StdRng::seed_from_u64(seed));
            assert!(looks_issued(key.expose_secret()));
            let mut bytes = key.expose_secret().as_bytes().to_vec();
            if bytes[at] != DIGITS[with] {
                bytes[at] = DIGITS[with];
                // CRC-32 sees every error within one byte.
                assert_eq!(form(std::str::from_utf8(&bytes).unwrap()), Form::Mistyped);
            }
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = form(&text);
            let _ = shown(&text);
        }
    }
}
