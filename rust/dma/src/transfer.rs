//! What one DMA instruction asks for.

use trn3_sim::Picos;

use crate::error::DmaError;
use crate::spec::DmaSpec;
use crate::stack::HbmTraffic;

/// Between which kinds of memory bytes move. PSUM counts as SBUF: both are inside the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Route {
    /// A load.
    HbmToSbuf,
    /// A store.
    SbufToHbm,
    /// Within the core.
    SbufToSbuf,
    /// Within HBM.
    HbmToHbm,
}

impl Route {
    /// Every route, in the order of the counters.
    pub const ALL: [Route; 4] = [Route::HbmToSbuf, Route::SbufToHbm, Route::SbufToSbuf, Route::HbmToHbm];

    /// Name in counters and traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Route::HbmToSbuf => "hbm_to_sbuf",
            Route::SbufToHbm => "sbuf_to_hbm",
            Route::SbufToSbuf => "sbuf_to_sbuf",
            Route::HbmToHbm => "hbm_to_hbm",
        }
    }

    /// Whether the source lies in HBM.
    #[must_use]
    pub fn reads_hbm(self) -> bool {
        matches!(self, Route::HbmToSbuf | Route::HbmToHbm)
    }

    /// Whether the destination lies in HBM.
    #[must_use]
    pub fn writes_hbm(self) -> bool {
        matches!(self, Route::SbufToHbm | Route::HbmToHbm)
    }
}

/// Who makes the descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// A hardware DGE, driven by an engine's sequencer.
    Hardware,
    /// Software on GpSimd.
    Software,
    /// Nobody: they lie ready in memory.
    Static,
}

/// What happens to the bytes on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Nothing, or a cast.
    #[default]
    Copy,
    /// A transpose of a shape that suits the hardware.
    Transpose,
    /// A transpose of any other shape.
    TransposeUnaligned,
    /// A sum of several sources in the DMA path; the source side holds all of them.
    Compute,
    /// Part of such a sum, which stays in the engines: the destination side says what it will be, nothing is written.
    PartialSum,
    /// Adding to what SBUF holds at the destination.
    Accumulate,
}

/// How the bytes of one partition lie on one side: `pieces` contiguous pieces of `piece_bytes` each.
///
/// For a transfer within HBM it is the whole side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Side {
    /// Bytes of a contiguous piece.
    pub piece_bytes: u64,
    /// Number of pieces.
    pub pieces: u64,
}

impl Side {
    /// One contiguous piece.
    #[must_use]
    pub fn contiguous(bytes: u64) -> Side {
        Side { piece_bytes: bytes, pieces: 1 }
    }

    /// Bytes on this side.
    ///
    /// # Panics
    ///
    /// If they exceed 64 bits.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.piece_bytes.checked_mul(self.pieces).expect("a side holds fewer than 2^64 bytes")
    }
}

/// The shape of a transfer; checked, so every `Shape` can be carried out by engines that have its partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    route: Route,
    first_partition: u32,
    partitions: u32,
    source: Side,
    destination: Side,
}

impl Shape {
    /// A transfer that touches `partitions` partitions of SBUF from `first_partition` on (those of the destination if
    /// both sides are in SBUF); `source` and `destination` describe one partition. With `casts`, the sides may differ
    /// in bytes, by the ratio of the element sizes.
    ///
    /// # Errors
    ///
    /// [`DmaError::Empty`], [`DmaError::SidesDisagree`], [`DmaError::BrokenElement`], and [`DmaError::Partitions`] if
    /// there are none or the route is within HBM.
    pub fn new(
        route: Route,
        first_partition: u32,
        partitions: u32,
        source: Side,
        destination: Side,
        casts: bool,
    ) -> Result<Shape, DmaError> {
        let shape = Shape { route, first_partition, partitions, source, destination };
        if (partitions == 0) != (route == Route::HbmToHbm) {
            return Err(DmaError::Partitions { first: first_partition, count: partitions, limit: u32::MAX });
        }
        for (side, Side { piece_bytes, pieces }) in [("source", source), ("destination", destination)] {
            if piece_bytes == 0 || pieces == 0 {
                return Err(DmaError::Empty { side, pieces, piece_bytes });
            }
        }
        let (source_bytes, destination_bytes) = (source.bytes(), destination.bytes());
        if source_bytes != destination_bytes && !casts {
            return Err(DmaError::SidesDisagree { source_bytes, destination_bytes });
        }
        let (source_unit, destination_unit) = shape.unit_bytes();
        for (side, piece_bytes, unit) in
            [("source", source.piece_bytes, source_unit), ("destination", destination.piece_bytes, destination_unit)]
        {
            if piece_bytes % unit != 0 {
                return Err(DmaError::BrokenElement { side, piece_bytes });
            }
        }
        Ok(shape)
    }

    /// A load or store of `bytes` contiguous bytes a partition, for partitions 0 to `partitions` − 1; the plainest
    /// shape there is.
    ///
    /// # Errors
    ///
    /// As [`Shape::new`].
    pub fn rows(route: Route, partitions: u32, bytes: u64) -> Result<Shape, DmaError> {
        let side = Side::contiguous(bytes);
        Shape::new(route, 0, partitions, side, side, false)
    }

    /// A transfer within HBM.
    ///
    /// # Errors
    ///
    /// As [`Shape::new`].
    pub fn within_hbm(source: Side, destination: Side, casts: bool) -> Result<Shape, DmaError> {
        Shape::new(Route::HbmToHbm, 0, 0, source, destination, casts)
    }

    /// Between which kinds of memory.
    #[must_use]
    pub fn route(&self) -> Route {
        self.route
    }

    /// Number of partitions touched; 0 within HBM.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// How one partition lies at the source.
    #[must_use]
    pub fn source(&self) -> Side {
        self.source
    }

    /// How one partition lies at the destination.
    #[must_use]
    pub fn destination(&self) -> Side {
        self.destination
    }

    /// Bytes read, over all partitions.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.source.bytes() * u64::from(self.partitions.max(1))
    }

    /// Bytes written, over all partitions.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.destination.bytes() * u64::from(self.partitions.max(1))
    }

    /// The smallest whole numbers of bytes, at the source and at the destination, that correspond to each other:
    /// (1, 1) unless sizes change in a cast, (2, 1) from 16 to 8 bits.
    #[must_use]
    pub fn unit_bytes(&self) -> (u64, u64) {
        let (source, destination) = (self.source.bytes(), self.destination.bytes());
        let units = greatest_common_divisor(source, destination);
        (source / units, destination / units)
    }

    /// How many of the partitions engine `engine` serves.
    #[must_use]
    pub fn partitions_of_engine(&self, spec: &DmaSpec, engine: u8) -> u32 {
        let from = u32::from(engine) * spec.partitions_per_engine;
        let (first, end) = (self.first_partition, self.first_partition + self.partitions);
        end.min(from + spec.partitions_per_engine).saturating_sub(first.max(from))
    }

    pub(crate) fn check(&self, spec: &DmaSpec) -> Result<(), DmaError> {
        let limit = spec.partitions();
        let (first, count) = (self.first_partition, self.partitions);
        match first.checked_add(count) {
            Some(end) if end <= limit => Ok(()),
            _ => Err(DmaError::Partitions { first, count, limit }),
        }
    }
}

pub(crate) fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// One DMA instruction, ready to be triggered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// What moves.
    pub shape: Shape,
    /// Who makes the descriptors.
    pub mode: Mode,
    /// What happens on the way.
    pub operation: Operation,
    /// What it has to do with HBM.
    pub hbm: HbmTraffic,
    /// The queue, the same on every engine.
    pub queue: u8,
    /// Priority class; lower goes first where arbitration is by class.
    pub class: u8,
    /// Descriptors that are arbitrated as one packet: 1 for a DGE, more for the 64 KiB packets of collectives.
    pub packet_descriptors: u32,
}

impl Transfer {
    /// Class of compute and collectives unless the program says otherwise (timing.md section 8.4; assumed).
    pub const CLASS_DEFAULT: u8 = 2;

    /// A copy in the default class, arbitrated after every descriptor.
    #[must_use]
    pub fn new(shape: Shape, mode: Mode, queue: u8) -> Transfer {
        let route = shape.route();
        Transfer {
            shape,
            mode,
            operation: Operation::default(),
            hbm: HbmTraffic {
                read_bytes: if route.reads_hbm() { shape.read_bytes() } else { 0 },
                written_bytes: if route.writes_hbm() { shape.written_bytes() } else { 0 },
                piece_bytes: u64::MAX,
            },
            queue,
            class: Transfer::CLASS_DEFAULT,
            packet_descriptors: 1,
        }
    }

    /// Bytes written, over all partitions.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        if self.operation == Operation::PartialSum { 0 } else { self.shape.written_bytes() }
    }

    /// When engine 0 could start on it if triggered at `trigger`.
    #[must_use]
    pub fn first_packet(&self, spec: &DmaSpec, trigger: Picos) -> Picos {
        trigger + spec.trigger_to_first(self.mode, &self.shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::v3;

    #[test]
    fn partitions_go_to_their_engines() {
        let side = Side::contiguous(64);
        let shape = Shape::new(Route::HbmToSbuf, 6, 11, side, side, false).expect("a shape");
        let shares: Vec<u32> = (0..16).map(|j| shape.partitions_of_engine(&v3(), j)).collect();
        assert_eq!(shares[..4], [2, 8, 1, 0]);
        assert_eq!(shares.iter().sum::<u32>(), 11);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let side = |piece_bytes, pieces| Side { piece_bytes, pieces };
        let make = |route, partitions, source, destination, casts| {
            Shape::new(route, 0, partitions, source, destination, casts).map(|_| ())
        };
        let (row, none) = (side(8, 2), side(0, 2));
        assert_eq!(make(Route::HbmToSbuf, 128, row, side(16, 1), false), Ok(()));
        assert!(matches!(make(Route::HbmToSbuf, 0, row, row, false), Err(DmaError::Partitions { .. })));
        assert!(matches!(make(Route::HbmToHbm, 1, row, row, false), Err(DmaError::Partitions { .. })));
        assert!(matches!(make(Route::HbmToSbuf, 1, row, none, false), Err(DmaError::Empty { .. })));
        assert_eq!(
            make(Route::HbmToSbuf, 1, row, side(8, 1), false),
            Err(DmaError::SidesDisagree { source_bytes: 16, destination_bytes: 8 })
        );
        assert_eq!(make(Route::HbmToSbuf, 1, row, side(8, 1), true), Ok(()));
        assert_eq!(
            make(Route::HbmToSbuf, 1, side(3, 4), side(6, 1), true),
            Err(DmaError::BrokenElement { side: "source", piece_bytes: 3 })
        );
        let wide = Shape::rows(Route::HbmToSbuf, 129, 4).expect("a shape in itself");
        assert_eq!(wide.check(&v3()), Err(DmaError::Partitions { first: 0, count: 129, limit: 128 }));
    }
}
