//! trn3-spec.
