//! trn3-neuroncore.
