//! trn3-isa.
