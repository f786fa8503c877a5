//! The HTTP edge: OpenAI-compatible HTTP in, internal gRPC out.
