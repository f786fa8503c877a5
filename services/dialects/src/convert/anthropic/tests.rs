//! The dialect's own side of translation.

mod request;
