//! DMA: transfers between HBM and SBUF.

pub mod dma_copy;
pub mod issue;
