//! The host memory behind a Program's tensors.
//!
//! Tensors whose simulated addresses do not meet share nothing on the host either: each lives in a [`Slab`], dense,
//! so that a tile's rows follow each other. HBM has 144 GiB of addresses, and host memory only where a tensor is
//! touched: slabs come zeroed from the system, which maps pages on first use, and arrays of the caller are used in
//! place.

use crate::tensor::TensorId;
use crate::tile::{Geometry, Tile, TileMut};
use crate::view::View;
use bytemuck::{Pod, Zeroable};

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// From this size on a slab is mapped without reserving memory for it, so that HBM's address space may be larger than
/// the host's memory.
const MAPPED_BYTES_MIN: usize = 1 << 26;

enum Storage {
    Lines(Box<[Line]>),
    Mapped(memmap2::MmapMut),
}

/// Zeroed bytes on a 64-byte boundary.
pub struct Slab {
    storage: Storage,
    bytes: usize,
}

impl Slab {
    /// `bytes` zeros; large slabs take host memory only where they are touched.
    pub fn zeroed(bytes: usize) -> Slab {
        let mapped = || memmap2::MmapOptions::new().len(bytes).no_reserve_swap().map_anon().ok();
        let storage = match Some(bytes).filter(|&bytes| bytes >= MAPPED_BYTES_MIN).and_then(|_| mapped()) {
            Some(map) => Storage::Mapped(map),
            None => Storage::Lines(bytemuck::zeroed_slice_box(bytes.div_ceil(64))),
        };
        Slab { storage, bytes }
    }

    fn as_slice(&self) -> &[u8] {
        match &self.storage {
            Storage::Lines(lines) => &bytemuck::cast_slice(lines)[..self.bytes],
            Storage::Mapped(map) => &map[..self.bytes],
        }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.storage {
            Storage::Lines(lines) => &mut bytemuck::cast_slice_mut(lines)[..self.bytes],
            Storage::Mapped(map) => &mut map[..self.bytes],
        }
    }
}

/// Memory that the caller lends for a run, such as an array's.
pub trait HostBytes: Send {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, if the caller allows writing.
    fn bytes_mut(&mut self) -> Option<&mut [u8]>;
}

/// Bytes that back tensors.
#[derive(Default)]
pub enum Bytes {
    /// None yet, or taken out for a write.
    #[default]
    Absent,
    /// Our own.
    Owned(Slab),
    /// The caller's.
    Host(Box<dyn HostBytes>),
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bytes::Absent => f.write_str("Absent"),
            Bytes::Owned(slab) => write!(f, "Owned({} bytes)", slab.bytes),
            Bytes::Host(host) => write!(f, "Host({} bytes)", host.bytes().len()),
        }
    }
}

impl Bytes {
    /// The bytes, to be read.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Bytes::Absent => &[],
            Bytes::Owned(slab) => slab.as_slice(),
            Bytes::Host(host) => host.bytes(),
        }
    }

    /// The bytes, to be written; a read-only array of the caller is copied first.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        if let Bytes::Host(host) = self
            && host.bytes_mut().is_none()
        {
            let mut copy = Slab::zeroed(host.bytes().len());
            copy.as_mut_slice().copy_from_slice(host.bytes());
            *self = Bytes::Owned(copy);
        }
        match self {
            Bytes::Absent => &mut [],
            Bytes::Owned(slab) => slab.as_mut_slice(),
            Bytes::Host(host) => host.bytes_mut().expect("read-only arrays were just replaced by a copy"),
        }
    }
}

/// All tensors of one run.
#[derive(Debug, Default)]
pub struct Memory {
    /// The slab of each tensor.
    homes: Vec<u32>,
    slabs: Vec<Bytes>,
}

impl Memory {
    /// No tensors.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Adds a slab of zeros and gives its number.
    pub fn add_slab(&mut self, bytes: u64) -> u32 {
        self.add_bytes(Bytes::Owned(Slab::zeroed(bytes as usize)))
    }

    /// Adds bytes and gives the slab's number.
    pub fn add_bytes(&mut self, bytes: Bytes) -> u32 {
        self.slabs.push(bytes);
        (self.slabs.len() - 1) as u32
    }

    /// Replaces the bytes of a slab and gives the old ones back.
    pub fn replace(&mut self, slab: u32, bytes: Bytes) -> Bytes {
        std::mem::replace(&mut self.slabs[slab as usize], bytes)
    }

    /// Gives a slab bytes of its own, unless it has some of that size.
    pub fn ensure(&mut self, slab: u32, bytes: u64) {
        let slab = &mut self.slabs[slab as usize];
        if !matches!(slab, Bytes::Owned(owned) if owned.bytes as u64 == bytes) {
            *slab = Bytes::Owned(Slab::zeroed(bytes as usize));
        }
    }

    /// Says where the next tensor lives (ids are given in order).
    pub fn place(&mut self, slab: u32) -> TensorId {
        self.homes.push(slab);
        TensorId((self.homes.len() - 1) as u32)
    }

    /// Tensors placed so far.
    pub fn tensors(&self) -> usize {
        self.homes.len()
    }

    /// The slab that a tensor lives in.
    pub fn slab_of(&self, tensor: TensorId) -> u32 {
        self.homes[tensor.index()]
    }

    /// The bytes of a tensor.
    pub fn bytes(&self, tensor: TensorId) -> &[u8] {
        self.slabs[self.slab_of(tensor) as usize].as_slice()
    }

    /// The bytes of a tensor, to be written.
    pub fn bytes_mut(&mut self, tensor: TensorId) -> &mut [u8] {
        let slab = self.slab_of(tensor) as usize;
        self.slabs[slab].as_mut_slice()
    }

    /// A tile to read.
    pub fn tile(&self, view: &View) -> Tile<'_> {
        let geometry = Geometry { dtype: view.dtype, offset: view.offset, dims: view.dims.clone() };
        Tile { bytes: self.bytes(view.tensor), geometry }
    }

    /// The tile of a geometry, to be read.
    pub fn tile_of(&self, geometry: Geometry, tensor: TensorId) -> Tile<'_> {
        Tile { bytes: self.bytes(tensor), geometry }
    }

    /// The tile of a geometry, to be written, alone.
    pub fn tile_mut_of(&mut self, geometry: Geometry, tensor: TensorId) -> TileMut<'_> {
        TileMut { bytes: self.bytes_mut(tensor), geometry }
    }

    /// Takes out the slab of a tensor that is about to be written, so that others can be read meanwhile; give it
    /// back with [`Memory::restore`].
    pub fn take(&mut self, tensor: TensorId) -> Bytes {
        let slab = self.slab_of(tensor) as usize;
        std::mem::take(&mut self.slabs[slab])
    }

    /// Puts back what [`Memory::take`] took.
    pub fn restore(&mut self, tensor: TensorId, bytes: Bytes) {
        let slab = self.slab_of(tensor) as usize;
        self.slabs[slab] = bytes;
    }

    /// A tile to write, alone.
    pub fn tile_mut(&mut self, view: &View) -> TileMut<'_> {
        let geometry = Geometry { dtype: view.dtype, offset: view.offset, dims: view.dims.clone() };
        TileMut { bytes: self.bytes_mut(view.tensor), geometry }
    }
}
