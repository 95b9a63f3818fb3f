//! VectorE: elementwise arithmetic, copies, reductions, quantisation. Instructions that other engines also run are
//! here, with the engine they default to.

pub mod memset;
pub mod quantize_mx;
pub mod stream_cost;
pub mod tensor_copy;
pub mod tensor_reduce;
pub mod tensor_scalar;
pub mod tensor_tensor;
