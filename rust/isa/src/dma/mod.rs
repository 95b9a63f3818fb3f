//! DMA: transfers between HBM and SBUF.

pub mod dma_compute;
pub mod dma_copy;
pub mod dma_transpose;
pub(crate) mod indirect;
pub mod issue;
pub(crate) mod traffic;
