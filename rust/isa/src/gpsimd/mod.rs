//! GpSimdE: index arithmetic and what the other engines cannot do.

pub mod iota;
