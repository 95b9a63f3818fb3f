//! trn3-system.
