//! trn3-mem.
