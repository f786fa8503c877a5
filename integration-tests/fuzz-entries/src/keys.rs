//! The form of API keys.

use rand::{SeedableRng as _, rngs::StdRng};
use secrecy::ExposeSecret as _;

use crate::key_form::{
    Form, ISSUED_LENGTH, MAXIMUM, OWN_MINIMUM, PREFIX, form, generate, looks_issued, shown,
};

pub(crate) fn keys(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input) {
        judge(text);
    }
    // A key that is issued, and the input written over some of it.
    let key = generate(&mut StdRng::seed_from_u64(u64::from(crc32fast::hash(
        input,
    ))));
    let key = key.expose_secret();
    assert_eq!(form(key), Form::Issued);
    judge(key);
    let at = input
        .first()
        .map_or(0, |byte| usize::from(*byte) % key.len());
    let mut bytes = key.as_bytes().to_vec();
    for (byte, with) in bytes[at..].iter_mut().zip(input.iter().skip(1).take(4)) {
        *byte = *with;
    }
    if let Ok(text) = std::str::from_utf8(&bytes)
        && text != key
    {
        // CRC-32 sees every error within four bytes.
        assert_ne!(form(text), Form::Issued, "{text}");
        judge(text);
    }
}

fn judge(text: &str) {
    let form = form(text);
    assert_eq!(looks_issued(text), form == Form::Issued);
    if form != Form::Impossible {
        assert!((OWN_MINIMUM..=MAXIMUM).contains(&text.len()));
        assert!(
            text.bytes().all(|byte| byte.is_ascii_graphic()),
            "a header carries it"
        );
    }
    let head = shown(text);
    assert!(text.starts_with(&head));
    assert!(
        head.chars().count()
            <= if form == Form::Issued {
                PREFIX.len() + 4
            } else {
                4
            }
    );
    if matches!(form, Form::Issued | Form::Mistyped) {
        assert!(text.len() == ISSUED_LENGTH && text.starts_with(PREFIX));
    }
}
