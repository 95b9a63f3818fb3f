//! ScalarE: functions of one tile.

pub mod activation;
pub mod activation_reduce;
pub mod applied;
pub mod function_sets;
