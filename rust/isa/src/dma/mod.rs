//! DMA: transfers between HBM and SBUF.

pub mod dma_copy;
pub(crate) mod indirect;
pub mod issue;
pub(crate) mod traffic;
