//! OpenAI, the servers that speak its API, and other Switchboards: the credential in its header is all there is.

use super::Adapter;

#[derive(Debug)]
pub(super) struct OpenAi;

impl Adapter for OpenAi {}
