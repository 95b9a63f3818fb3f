//! trn3-program.
