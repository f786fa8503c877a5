//! How messages become bytes on every call, in process and over sockets: prost's form, in buffers of a message's own size.
//!
//! tonic's default is 8 KiB for each direction of each call, whatever is in it: more memory in motion than all else of a
//! request together.

use std::marker::PhantomData;

use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// First room of a buffer, bytes. It grows to what is in it.
const ROOM: usize = 256;
/// Encoded messages that are handed on together, bytes; tonic's own value.
const TOGETHER: usize = 32 * 1024;

/// The codec of all generated clients and servers: sends `T`, receives `U`.
#[derive(Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = Form<T>;
    type Decoder = Form<U>;

    fn encoder(&mut self) -> Form<T> {
        Form(PhantomData)
    }

    fn decoder(&mut self) -> Form<U> {
        Form(PhantomData)
    }
}

/// Encodes or decodes one type of message.
#[derive(Debug)]
pub struct Form<T>(PhantomData<T>);

impl<T: Message> Encoder for Form<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.encoded_len());
        message
            .encode(buffer)
            .map_err(|_| Status::internal("a message cannot be encoded"))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(ROOM, TOGETHER)
    }
}

impl<T: Message + Default> Decoder for Form<T> {
    type Item = T;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<T>, Status> {
        let decoded = T::decode(buffer).map(Some);
        decoded.map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(ROOM, TOGETHER)
    }
}
