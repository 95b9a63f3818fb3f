//! Numbers: formats, rounding, microscaling codecs and function tables.
//!
//! Everything here is a pure function from bits to bits. Only additions, subtractions, multiplications,
//! divisions, square roots and integer work are used, so that every result is the same on every machine; nothing
//! comes from the host's math library.
//!
//! [`decode`] and [`encode`] are the definition of every conversion, one value at a time; [`decode_slice`] and
//! [`encode_slice`] are the fast forms that equal them bit for bit. [`mx`] adds groups of 32 with a shared scale.

mod cast;
mod dtype;
mod format;
pub mod functions;
mod lane;
pub mod mx;
pub mod random;
mod reference;
pub mod simd;
mod slice;

pub use cast::{Cast, Overflow, Rounding};
pub use dtype::Dtype;
pub use format::{Format, Special};
pub use reference::{decode, encode};
pub use slice::{convert_slice, decode_slice, encode_slice, round_slice};
