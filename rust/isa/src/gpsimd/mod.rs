//! GpSimdE: index arithmetic and what the other engines cannot do.

mod affine;
pub mod affine_select;
pub mod iota;
pub mod local_gather;
pub mod nc_n_gather;
pub mod nonzero_with_count;
pub mod sequence_bounds;
pub mod tensor_partition_reduce;
