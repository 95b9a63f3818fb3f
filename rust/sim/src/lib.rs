//! trn3-sim.
