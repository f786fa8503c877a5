use proptest::prelude::{any, proptest};
use rand::{SeedableRng as _, rngs::StdRng};
use secrecy::ExposeSecret as _;
use switchboard_common::secret::{MasterKey, Purpose};

use super::form::{BODY, DIGITS, base62};
use super::*;

fn hasher(byte: u8) -> KeyHasher {
    KeyHasher::new(&MasterKey::from_bytes([byte; 32]).subkey(Purpose::ApiKeyHash))
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
