//! The little of the protobuf wire format that a trace needs: varints, 64-bit values and nested messages.
//!
//! Source: protobuf.dev/programming-guides/encoding. Fields are written in the order of the calls.

/// A message under construction.
#[derive(Debug, Default)]
pub(super) struct Message {
    bytes: Vec<u8>,
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

impl Message {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    fn raw_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn key(&mut self, field: u32, wire_type: u64) {
        self.raw_varint(u64::from(field) << 3 | wire_type);
    }

    /// An unsigned integer, an enum or a bool.
    pub(super) fn uint(&mut self, field: u32, value: u64) {
        self.key(field, VARINT);
        self.raw_varint(value);
    }

    /// A signed integer (`int32`, `int64`): two's complement of 64 bits.
    pub(super) fn int(&mut self, field: u32, value: i64) {
        self.uint(field, value.cast_unsigned());
    }

    pub(super) fn fixed64(&mut self, field: u32, value: u64) {
        self.key(field, FIXED64);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(super) fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    pub(super) fn text(&mut self, field: u32, text: &str) {
        self.length_delimited(field, text.as_bytes());
    }

    /// A finished message, or the bytes of a string.
    pub(super) fn length_delimited(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, LENGTH_DELIMITED);
        self.raw_varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A message written in place. Most are shorter than 128 bytes, so one byte is kept for the length.
    pub(super) fn message(&mut self, field: u32, write: impl FnOnce(&mut Message)) {
        self.key(field, LENGTH_DELIMITED);
        let length_at = self.bytes.len();
        self.bytes.push(0);
        write(self);
        let length = self.bytes.len() - length_at - 1;
        if length < 0x80 {
            self.bytes[length_at] = length as u8;
            return;
        }
        let mut prefix = Message::default();
        prefix.raw_varint(length as u64);
        self.bytes.splice(length_at..=length_at, prefix.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_documented_encoding() {
        // The three examples of protobuf.dev/programming-guides/encoding: a = 150, b = "testing", c { a = 150 }.
        let mut message = Message::default();
        message.uint(1, 150);
        assert_eq!(message.bytes(), [0x08, 0x96, 0x01]);
        message.clear();
        message.text(2, "testing");
        assert_eq!(message.bytes(), [0x12, 0x07, b't', b'e', b's', b't', b'i', b'n', b'g']);
        message.clear();
        message.message(3, |c| c.uint(1, 150));
        assert_eq!(message.bytes(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        message.clear();
        message.int(1, -2);
        assert_eq!(message.bytes(), [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    }

    #[test]
    fn a_long_message_gets_a_long_length() {
        let mut message = Message::default();
        message.message(1, |inner| inner.text(1, &"x".repeat(200)));
        assert_eq!(message.bytes()[..3], [0x0a, 0xcb, 0x01]);
        assert_eq!(message.len(), 3 + 203);
    }
}
