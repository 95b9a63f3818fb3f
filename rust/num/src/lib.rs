//! Numbers: formats, rounding, microscaling codecs and function tables.
//!
//! Everything here is a pure function from bits to bits. Only additions, subtractions, multiplications,
//! divisions, square roots and integer work are used, so that every result is the same on every machine; nothing
//! comes from the host's math library.

mod dtype;

pub use dtype::Dtype;
