//! ScalarE: functions of one tile.

pub mod activation;
