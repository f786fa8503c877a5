use proptest::prelude::*;

use super::*;

const TYPE: &str = "multipart/form-data; boundary=XX";

/// A form of parts: head lines and content.
fn form(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut out = String::new();
    for (head, content) in parts {
        out.push_str(&format!("--XX\r\n{head}\r\n\r\n{content}\r\n"));
    }
    out.push_str("--XX--\r\n");
    out.into_bytes()
}

fn problem(kind: &str, body: &[u8]) -> String {
    FormData::read(kind, body)
        .and_then(|form| form.model().map(drop))
        .unwrap_err()
        .to_string()
}

const MODEL: &str = r#"Content-Disposition: form-data; name="model""#;

#[test]
fn parts_are_found_where_they_stand_and_files_keep_every_byte() {
    let file = "a\r\n--X\r\n\0--XY? \r\n--\r\n";
    let head = "content-disposition: form-data; filename=\"a;b\\\".wav\"; name=file\r\nContent-Type: audio/wav";
    let body = form(&[
        (head, file),
        (MODEL, "whisper-1"),
        ("Content-Disposition: form-data; name=\"stream\"", "True"),
    ]);
    for (kind, body) in [
        (TYPE, body.clone()),
        (
            "Multipart/Form-Data;charset=x; BOUNDARY=\"XX\"",
            body.clone(),
        ),
        (
            TYPE,
            [
                b"a preamble\r\n".to_vec(),
                body.clone(),
                b"an epilogue".to_vec(),
            ]
            .concat(),
        ),
    ] {
        let form = FormData::read(kind, &body).unwrap();
        let (name, at) = form.model().unwrap();
        assert_eq!(
            (name, &body[at.start..at.end]),
            ("whisper-1", &b"whisper-1"[..])
        );
        assert_eq!(
            form.contents(&["file"]).collect::<Vec<_>>(),
            [file.as_bytes()]
        );
        assert!(form.flag("stream").unwrap());
        assert!(!form.flag("other").unwrap());
        assert_eq!(form.answers("n").unwrap(), 1);
    }
}

#[test]
fn an_empty_content_is_found_in_both_of_its_spellings() {
    for empty in [
        "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n",
        "--XX\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n",
    ] {
        let body = [empty.as_bytes(), &form(&[(MODEL, "m")])].concat();
        let form = FormData::read(TYPE, &body).unwrap();
        assert_eq!(form.contents(&["a"]).collect::<Vec<_>>(), [b""]);
        assert_eq!(form.model().unwrap().0, "m");
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_refused_with_its_reason() {
    let one = |head: &str| form(&[(head, "m")]);
    let fine = one(MODEL);
    let cut = &fine[..fine.len() - 4];
    for (kind, body, expected) in [
        (
            "application/json",
            &fine[..],
            "`content-type` is invalid: expected `multipart/form-data` with a boundary, got `application/json`",
        ),
        ("", &fine, "got none"),
        ("multipart/form-data", &fine, "no boundary"),
        (
            "multipart/form-data; boundary=",
            &fine,
            "boundary in its content type is not valid",
        ),
        (
            "multipart/form-data; boundary=a; boundary=b",
            &fine,
            "two boundaries",
        ),
        (
            "multipart/form-data; boundary=\u{e4}",
            &fine,
            "boundary in its content type is not valid",
        ),
        (
            "multipart/form-data; boundary=YY",
            &fine,
            "its boundary is not in it",
        ),
        (TYPE, b"", "its boundary is not in it"),
        (TYPE, b"{\"model\":\"m\"}", "its boundary is not in it"),
        (TYPE, cut, "something follows its boundary"),
        (
            TYPE,
            b"--XX\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n",
            "cut off",
        ),
        (
            TYPE,
            b"--XXX\r\n\r\n--XX--",
            "something follows its boundary",
        ),
        (TYPE, b"--XX\r\nm\r\n--XX--", "no head"),
        (TYPE, b"--XX\r\n\r\nm\r\n--XX--", "no content-disposition"),
        (TYPE, b"--XX--", "`model` is required"),
        (
            TYPE,
            &one("Content-Disposition: form-data; name=\"file\""),
            "`model` is required",
        ),
        (TYPE, &form(&[(MODEL, " ")]), "`model` is required"),
        (
            TYPE,
            &form(&[(MODEL, "a"), (MODEL, "b")]),
            "`model` is invalid: expected one part with a plain text, got several parts",
        ),
        (
            TYPE,
            &one(&format!("{MODEL}; filename=\"m\"")),
            "got a file",
        ),
        (
            TYPE,
            &one(&format!("{MODEL}\r\nContent-Transfer-Encoding: base64")),
            "got a part with a content-transfer-encoding",
        ),
        (
            TYPE,
            &one(&format!("{MODEL}\r\n{MODEL}")),
            "two content-dispositions",
        ),
        (
            TYPE,
            &one(&format!("{MODEL}\r\n more")),
            "goes on over a second line",
        ),
        (TYPE, &one(&format!("{MODEL}\nA: b")), "line end inside"),
        (TYPE, &one(&format!("{MODEL}; name=\"file\"")), "two names"),
        (
            TYPE,
            &one("Content-Disposition: form-data; name*=UTF-8''model"),
            "`name*`",
        ),
        (
            TYPE,
            &one("Content-Disposition: form-data; name=\"model"),
            "not closed",
        ),
        (
            TYPE,
            &one("Content-Disposition: attachment; name=\"model\""),
            "not form-data",
        ),
        (TYPE, &one("nothing"), "no colon"),
        (
            TYPE,
            &one(&format!(
                "{MODEL}\r\nContent-Type: multipart/mixed; boundary=YY"
            )),
            "itself multipart",
        ),
        (
            TYPE,
            &one(&format!("{MODEL}\r\nA: {}", "x".repeat(20_000))),
            "larger than 16 KiB",
        ),
        (TYPE, &form(&[(MODEL, "m"); 257]), "more than 256 parts"),
    ] {
        let said = problem(kind, body);
        assert!(said.contains(expected), "{kind}: {said} lacks {expected}");
    }
    let no_text = "--XX\r\nContent-Disposition: form-data; name=model\r\n\r\n";
    let no_text = [no_text.as_bytes(), b"\xff\r\n--XX--"].concat();
    assert!(problem(TYPE, &no_text).contains("not UTF-8"));
}

#[test]
fn values_that_make_no_sense_name_their_field() {
    let body = form(&[
        ("Content-Disposition: form-data; name=\"stream\"", "maybe"),
        ("Content-Disposition: form-data; name=\"n\"", "0"),
    ]);
    let form = FormData::read(TYPE, &body).unwrap();
    assert_eq!(form.flag("stream").unwrap_err().param(), Some("stream"));
    assert_eq!(form.answers("n").unwrap_err().param(), Some("n"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in ".{0,60}") {
        let _ = FormData::read(&kind, &bytes).map(|form| form.model().is_ok());
        let _ = FormData::read(TYPE, &bytes).map(|form| form.model().is_ok());
        let text: String = bytes.iter().map(|b| ["--XX", "\r\n", "\"", ";", "name=", "form-data", ":", "Content-Disposition", "--"][*b as usize % 9]).collect();
        let _ = FormData::read(TYPE, text.as_bytes()).map(|form| form.model().is_ok());
    }

    #[test]
    fn any_file_comes_out_as_it_went_in(file in prop::collection::vec(any::<u8>(), 0..2000), name in "[a-z0-9/:.-]{1,20}") {
        let boundary = "0123456789abcdefBOUNDARY";
        prop_assume!(!file.windows(boundary.len()).any(|w| w == boundary.as_bytes()));
        let body = [format!("--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n").into_bytes(), file.clone(),
            format!("\r\n--{boundary}\r\n{MODEL}\r\n\r\n{name}\r\n--{boundary}--\r\n").into_bytes()].concat();
        let form = FormData::read(&format!("multipart/form-data; boundary={boundary}"), &body).unwrap();
        prop_assert_eq!(form.contents(&["file"]).collect::<Vec<_>>(), [&file[..]]);
        prop_assert_eq!(form.model().unwrap().0, &name);
    }
}
