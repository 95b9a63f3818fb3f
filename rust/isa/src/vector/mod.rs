//! VectorE: elementwise arithmetic, copies, reductions, quantisation. Instructions that other engines also run are
//! here, with the engine they default to.

pub mod bn_aggr;
pub mod bn_stats;
pub mod exponential;
pub mod max8;
pub mod memset;
pub mod nc_find_index8;
pub mod nc_match_replace8;
pub mod nc_stream_shuffle;
pub mod quantize_mx;
pub mod range_select;
pub mod reciprocal;
pub mod scalar_tensor_tensor;
mod search;
pub mod select_reduce;
pub mod stream_cost;
pub mod tensor_copy;
pub mod tensor_copy_predicated;
pub mod tensor_reduce;
pub mod tensor_scalar;
pub mod tensor_scalar_cumulative;
pub mod tensor_scalar_reduce;
pub mod tensor_tensor;
pub mod tensor_tensor_scan;
