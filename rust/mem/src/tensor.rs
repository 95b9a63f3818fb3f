//! Tensors: named, typed pieces of an address space.

use crate::view::{Dim, Dims, Shape, View};
use serde::{Deserialize, Serialize};
use trn3_num::Dtype;

/// Index of a tensor in its Program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorId(pub u32);

impl TensorId {
    /// Stands for "no tensor" in an instruction's unused operand.
    pub const NONE: TensorId = TensorId(u32::MAX);

    /// The id as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// An address space, by its name in the public reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Space {
    /// On-chip buffer, 128 partitions, per core.
    Sbuf,
    /// Accumulation buffer of the array, 128 partitions in banks, per core.
    Psum,
    /// Device memory of one program.
    PrivateHbm,
    /// Device memory that all programs of a launch see.
    SharedHbm,
}

impl Space {
    /// The name in the public reference.
    pub const fn name(self) -> &'static str {
        match self {
            Space::Sbuf => "sbuf",
            Space::Psum => "psum",
            Space::PrivateHbm => "private_hbm",
            Space::SharedHbm => "shared_hbm",
        }
    }

    /// The space of that name; `hbm` is an alias of `private_hbm`.
    pub fn from_name(name: &str) -> Option<Space> {
        match name {
            "sbuf" => Some(Space::Sbuf),
            "psum" => Some(Space::Psum),
            "hbm" | "private_hbm" => Some(Space::PrivateHbm),
            "shared_hbm" => Some(Space::SharedHbm),
            _ => None,
        }
    }

    /// Whether the space has partitions.
    pub const fn is_on_chip(self) -> bool {
        matches!(self, Space::Sbuf | Space::Psum)
    }
}

/// What a tensor is to its Program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Made and used inside the kernel.
    Internal,
    /// Argument number `n` of the kernel, full of data when it starts.
    Input(u32),
    /// Data that the Program itself carries.
    Constant(u32),
}

/// A tensor as it was declared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorInfo {
    /// Unique within the kernel.
    pub name: String,
    /// Element type of the storage.
    pub dtype: Dtype,
    /// Declared shape; on chip, the partition dimension first.
    pub shape: Shape,
    /// Where it lives.
    pub space: Space,
    /// Input, constant or internal.
    pub role: Role,
    /// The user's address: partition and byte within the partition.
    pub address: Option<(u32, u32)>,
    /// Line that declared it, an index into the Program's line table.
    pub line: u32,
}

impl TensorInfo {
    /// Elements in all.
    pub fn size(&self) -> u64 {
        self.shape.iter().map(|&count| u64::from(count)).product()
    }

    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        self.size() * self.dtype.size_bytes() as u64
    }

    /// Partitions that it occupies; 1 in HBM.
    pub fn partitions(&self) -> u32 {
        if self.space.is_on_chip() { self.shape[0] } else { 1 }
    }

    /// Elements in each partition; all elements in HBM.
    pub fn partition_elements(&self) -> u64 {
        self.size() / u64::from(self.partitions().max(1))
    }

    /// Bytes in each partition; all bytes in HBM.
    pub fn partition_bytes(&self) -> u64 {
        self.partition_elements() * self.dtype.size_bytes() as u64
    }

    /// Partition and byte at which it starts, if the user said so; else where a tensor of the recorder's may start.
    pub fn origin(&self) -> (u32, u32) {
        self.address.unwrap_or((0, 0))
    }

    /// The view of the whole tensor.
    pub fn view(&self, id: TensorId) -> View {
        let mut stride = 1i64;
        let mut dims = Dims::new();
        for &count in self.shape.iter().rev() {
            dims.push(Dim { stride, count });
            stride *= i64::from(count);
        }
        dims.reverse();
        View {
            tensor: id,
            space: self.space,
            dtype: self.dtype,
            offset: 0,
            dims,
            partition_elements: self.partition_elements() as i64,
            size: self.size() as i64,
            origin: self.origin(),
            index: None,
            scalar: None,
        }
    }
}
