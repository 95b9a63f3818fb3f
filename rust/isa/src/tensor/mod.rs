//! TensorE: the systolic array.

pub mod accumulation;
pub mod nc_matmul;
pub mod nc_matmul_mx;
pub mod nc_transpose;
