//! Transfers that cannot be carried out.

/// A transfer that does not describe a possible movement of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DmaError {
    /// A side has no pieces, or pieces of no bytes.
    #[error("dma: {side}: {pieces} pieces of {piece_bytes} bytes move nothing; give at least one byte [dma.empty]")]
    Empty {
        /// `source` or `destination`.
        side: &'static str,
        /// Pieces a partition on that side.
        pieces: u64,
        /// Bytes of a piece on that side.
        piece_bytes: u64,
    },
    /// The sides hold different numbers of bytes although nothing is cast.
    #[error(
        "dma: source: {source_bytes} bytes a partition, destination has {destination_bytes}; make the sizes equal or \
         cast [dma.sides_agree]"
    )]
    SidesDisagree {
        /// Bytes a partition on the source side.
        source_bytes: u64,
        /// Bytes a partition on the destination side.
        destination_bytes: u64,
    },
    /// A piece ends inside an element.
    #[error(
        "dma: {side}: a piece of {piece_bytes} bytes holds a broken element; use whole elements [dma.whole_elements]"
    )]
    BrokenElement {
        /// `source` or `destination`.
        side: &'static str,
        /// Bytes of a piece on that side.
        piece_bytes: u64,
    },
    /// The partitions do not exist, or the route and the number of partitions contradict each other.
    #[error(
        "dma: partitions: {first} to {first}+{count}, limit {limit}; an HBM to HBM transfer has 0, any other 1 to \
         {limit} [dma.partitions]"
    )]
    Partitions {
        /// First partition touched.
        first: u32,
        /// Number of partitions touched.
        count: u32,
        /// Number of partitions that the engines serve.
        limit: u32,
    },
    /// The queue does not exist.
    #[error("dma: queue: is {queue}, an engine has {queues}; use 0 to {queues}-1 [dma.queue_max]")]
    Queue {
        /// The queue asked for.
        queue: u8,
        /// Number of queues of an engine.
        queues: u8,
    },
}
