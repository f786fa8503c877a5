//! Google's `usageMetadata` in canonical form (PROTOCOLS §8; CASES A15, A16).

use super::{Usage, tokens};
use crate::json::{Cursor, JsonError, Kind, Value};

/// Google's numbers, as they were said. A count of zero is left out of its JSON.
#[derive(Default)]
struct Counts {
    prompt: Option<u64>,
    cached: Option<u64>,
    tools: Option<u64>,
    candidates: Option<u64>,
    thoughts: Option<u64>,
    total: Option<u64>,
    input_audio: Option<u64>,
    input_image: Option<u64>,
    output_audio: Option<u64>,
    output_image: Option<u64>,
}

impl Usage {
    /// Reads a `usageMetadata`. The prompt's count includes what came from a cache, but not what tools put in; candidates
    /// do not include thoughts [ai.google.dev, `UsageMetadata`]. Some upstreams count thoughts among the candidates, which
    /// their total shows; then they are not added again. Counts that make no sense are taken as absent.
    ///
    /// # Errors
    /// When `value` is not a JSON object of `text`.
    pub fn from_gemini(text: &str, value: Value) -> Result<Self, JsonError> {
        let mut counts = Counts::default();
        let mut cursor = Cursor::at_value(text, value);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let kind = cursor.kind()?;
            match (&*key.decode(text), kind) {
                ("promptTokensDetails", Kind::Array) => {
                    let (audio, image) = (&mut counts.input_audio, &mut counts.input_image);
                    by_modality(&mut cursor, audio, image)?;
                }
                ("candidatesTokensDetails", Kind::Array) => {
                    let (audio, image) = (&mut counts.output_audio, &mut counts.output_image);
                    by_modality(&mut cursor, audio, image)?;
                }
                (name, _) => {
                    let count = tokens(text, cursor.skip()?);
                    match name {
                        "promptTokenCount" => counts.prompt = count,
                        "cachedContentTokenCount" => counts.cached = count,
                        "toolUsePromptTokenCount" => counts.tools = count,
                        "candidatesTokenCount" => counts.candidates = count,
                        "thoughtsTokenCount" => counts.thoughts = count,
                        "totalTokenCount" => counts.total = count,
                        _ => {}
                    }
                }
            }
        }
        Ok(counts.canonical())
    }
}

/// Reads `[{"modality":"AUDIO","tokenCount":1}, …]`.
fn by_modality(
    cursor: &mut Cursor<'_>,
    audio: &mut Option<u64>,
    image: &mut Option<u64>,
) -> Result<(), JsonError> {
    let text = cursor.text();
    cursor.enter_array()?;
    let mut first = true;
    while cursor.next_item(&mut first)? {
        if cursor.kind()? != Kind::Object {
            cursor.skip()?;
            continue;
        }
        let (mut modality, mut count) = (None, None);
        cursor.enter_object()?;
        let mut first = true;
        while let Some(key) = cursor.next_key(&mut first)? {
            let value = cursor.skip()?;
            match &*key.decode(text) {
                "modality" => modality = value.text().map(|word| word.decode(text)),
                "tokenCount" => count = tokens(text, value),
                _ => {}
            }
        }
        match modality.as_deref() {
            Some("AUDIO") => *audio = count,
            Some("IMAGE") => *image = count,
            _ => {}
        }
    }
    Ok(())
}

impl Counts {
    fn canonical(self) -> Usage {
        let within = |part: Option<u64>, whole: Option<u64>| match (part, whole) {
            (Some(part), Some(whole)) => Some(part.min(whole)),
            _ => part,
        };
        let tools = self.tools.unwrap_or(0);
        let cached = within(self.cached, self.prompt);
        let input = match (self.prompt, self.tools) {
            (Some(prompt), _) => Some(prompt - cached.unwrap_or(0) + tools),
            (None, tools) => tools,
        };
        let all_input = self.prompt.map(|prompt| prompt + tools);
        let thoughts = self.thoughts.unwrap_or(0);
        let output = match (self.candidates, self.total, all_input) {
            (Some(candidates), Some(total), Some(all)) if total == all + candidates => {
                Some(candidates)
            }
            (Some(candidates), _, _) => Some(candidates + thoughts),
            // Nothing was said of candidates: what the total has beyond the input is output.
            (None, Some(total), Some(all)) => Some(total.saturating_sub(all).max(thoughts)),
            (None, _, _) => self.thoughts,
        };
        Usage {
            input,
            cached_input: cached,
            output,
            reasoning: within(self.thoughts, output),
            input_audio: within(self.input_audio, self.prompt),
            output_audio: within(self.output_audio, output),
            input_image: within(self.input_image, self.prompt),
            output_image: within(self.output_image, output),
            ..Usage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(text: &str) -> Usage {
        let value = Cursor::new(text).skip().unwrap();
        Usage::from_gemini(text, value).unwrap()
    }

    #[test]
    fn thoughts_are_output() {
        let usage = usage(
            r#"{"promptTokenCount":20,"candidatesTokenCount":198,"thoughtsTokenCount":405,"totalTokenCount":623}"#,
        );
        assert_eq!(
            (usage.input, usage.output, usage.reasoning),
            (Some(20), Some(603), Some(405))
        );
    }

    #[test]
    fn thoughts_that_the_total_has_once_are_not_added_again() {
        let usage = usage(
            r#"{"promptTokenCount":20,"candidatesTokenCount":603,"thoughtsTokenCount":405,"totalTokenCount":623}"#,
        );
        assert_eq!((usage.output, usage.reasoning), (Some(603), Some(405)));
    }

    #[test]
    fn what_came_from_a_cache_is_part_of_the_prompt_and_what_tools_put_in_is_not() {
        let cached = usage(r#"{"promptTokenCount":1000,"cachedContentTokenCount":900}"#);
        assert_eq!((cached.input, cached.cached_input), (Some(100), Some(900)));
        assert_eq!(cached.output, None);
        let tools = usage(
            r#"{"promptTokenCount":10,"toolUsePromptTokenCount":7,"candidatesTokenCount":3,"totalTokenCount":20}"#,
        );
        assert_eq!((tools.input, tools.output), (Some(17), Some(3)));
    }

    #[test]
    fn a_count_that_was_left_out_is_what_the_total_leaves() {
        let blocked = usage(r#"{"promptTokenCount":10,"totalTokenCount":10}"#);
        assert_eq!(blocked.output, Some(0));
        let thought =
            usage(r#"{"promptTokenCount":10,"thoughtsTokenCount":5,"totalTokenCount":15}"#);
        assert_eq!((thought.output, thought.reasoning), (Some(5), Some(5)));
        assert_eq!(usage(r#"{"thoughtsTokenCount":5}"#).output, Some(5));
        assert_eq!(usage(r#"{"promptTokenCount":-1,"x":1}"#), Usage::default());
    }

    #[test]
    fn audio_and_images_are_told_apart() {
        let usage = usage(
            r#"{"promptTokenCount":30,"candidatesTokenCount":9,"promptTokensDetails":[{"modality":"TEXT","tokenCount":5},{"modality":"AUDIO","tokenCount":15},{"tokenCount":10,"modality":"IMAGE"},3],"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":99}]}"#,
        );
        assert_eq!((usage.input_audio, usage.input_image), (Some(15), Some(10)));
        assert_eq!(usage.output_image, Some(9), "cut down to the whole");
    }
}
