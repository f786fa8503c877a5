//! Code that Google ran, and what it put out: as text in a fence, as no other dialect has parts for them.

/// Code. Google's languages are `PYTHON` and nothing.
pub(super) fn source(language: &str, code: &str) -> String {
    let language = match language {
        "LANGUAGE_UNSPECIFIED" => "",
        other => other,
    };
    format!(
        "\n```{}\n{}\n```\n",
        language.to_ascii_lowercase(),
        code.trim_end()
    )
}

/// What it put out; how it ended, where that is not well.
pub(super) fn output(outcome: &str, output: &str) -> String {
    let outcome = match outcome {
        "OUTCOME_OK" | "OUTCOME_UNSPECIFIED" | "" => "",
        other => other,
    };
    format!(
        "\n```{}\n{}\n```\n",
        outcome.to_ascii_lowercase(),
        output.trim_end()
    )
}
