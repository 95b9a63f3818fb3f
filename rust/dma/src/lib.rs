//! trn3-dma.
