//! The state that semantics act on: memory, registers, and scratch space. No time.

use crate::accumulator::Accumulators;
use crate::array::ArrayScratch;
use crate::context::Strictness;
use crate::instruction::{Instruction, Operand};
use trn3_mem::{Bytes, Geometry, Memory, Pattern, TensorInfo, Tile, TileMut, Violation};
use trn3_num::Cast;

/// Elements that one step of an elementwise loop handles: three FP32 buffers of this size stay in the L1 cache.
pub const CHUNK: usize = 2048;

/// Options that change values.
#[derive(Debug, Clone, Copy, Default)]
pub struct ValueOptions {
    /// How FP32 results are converted on their way out.
    pub cast: Cast,
    /// What stops the run.
    pub checks: Strictness,
}

/// Registers of the engines that outlive an instruction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Registers {
    /// ScalarE's accumulators.
    pub scalar: Accumulators,
    /// VectorE's accumulators.
    pub vector: Accumulators,
    /// The kernel's scalar registers, 32 bits each.
    scalars: Vec<u32>,
    /// Partial sums of a DMA that has more sources than an instruction holds.
    pub(crate) sums: Vec<f32>,
}

impl Registers {
    /// The bits of a scalar register; 0 if nothing has written it.
    pub fn scalar_value(&self, number: u32) -> u32 {
        self.scalars.get(number as usize).copied().unwrap_or(0)
    }

    /// Writes a scalar register.
    pub fn set_scalar_value(&mut self, number: u32, value: u32) {
        let number = number as usize;
        if self.scalars.len() <= number {
            self.scalars.resize(number + 1, 0);
        }
        self.scalars[number] = value;
    }
}

/// Buffers that instructions reuse.
#[derive(Debug)]
pub struct Scratch {
    /// The array's packed operands.
    pub array: ArrayScratch,
    x: Vec<f32>,
    y: Vec<f32>,
    out: Vec<f32>,
    /// Bytes of a tile that is read and written at once.
    pub bytes: Vec<u8>,
    /// BF16 codes of inputs that are also written.
    halves: [Vec<u16>; 2],
    /// Words of an integer instruction.
    pub words: [Vec<u32>; 3],
    /// FP32 values of a whole tile.
    pub tile: Vec<f32>,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch {
            array: ArrayScratch::default(),
            x: vec![0.0; CHUNK],
            y: vec![0.0; CHUNK],
            out: vec![0.0; CHUNK],
            bytes: Vec::new(),
            halves: Default::default(),
            words: Default::default(),
            tile: Vec::new(),
        }
    }
}

/// What a Program's instructions refer to by number.
#[derive(Debug, Clone, Copy)]
pub struct Tables<'a> {
    /// Access patterns.
    pub patterns: &'a [Pattern],
    /// Tensors.
    pub tensors: &'a [TensorInfo],
}

impl Tables<'_> {
    /// The pattern of an operand.
    pub fn pattern(&self, operand: &Operand) -> &Pattern {
        &self.patterns[operand.pattern.0 as usize]
    }

    /// First partition of an on-chip operand.
    pub fn partition_start(&self, operand: &Operand) -> usize {
        let tensor = self.tensor(operand);
        let row = tensor.partition_bytes() / self.pattern(operand).dtype.size_bytes() as u64;
        tensor.origin().0 as usize + (operand.offset as u64 / row.max(1)) as usize
    }

    /// The tensor of an operand.
    pub fn tensor(&self, operand: &Operand) -> &TensorInfo {
        &self.tensors[operand.tensor.index()]
    }

    /// Where an operand's elements are.
    pub fn geometry(&self, operand: &Operand) -> Geometry {
        let pattern = self.pattern(operand);
        Geometry { dtype: pattern.dtype, offset: operand.offset, dims: pattern.dims.clone() }
    }
}

/// Everything that an instruction's semantics may touch.
pub struct Machine<'a> {
    /// The bytes.
    pub memory: &'a mut Memory,
    /// Patterns and tensors.
    pub tables: Tables<'a>,
    /// Registers.
    pub registers: &'a mut Registers,
    /// Buffers.
    pub scratch: &'a mut Scratch,
    /// Rounding and overflow.
    pub options: ValueOptions,
    /// Deviations that only data show.
    pub findings: &'a mut Vec<Violation>,
}

/// Where an input of an elementwise loop comes from.
enum Source<'a> {
    Tile(Tile<'a>),
    /// The slab that is also written, at this place.
    Written(Geometry),
    /// Read in full before the first write, since the places overlap.
    Copied(Vec<f32>),
}

impl Machine<'_> {
    /// Reports a deviation that data show: a finding below `level`, an error from there on.
    ///
    /// # Errors
    /// The strictness is at least `level`.
    pub(crate) fn deviation(&mut self, level: Strictness, violation: Violation) -> Result<(), Violation> {
        if self.options.checks >= level {
            return Err(violation);
        }
        self.findings.push(violation);
        Ok(())
    }

    /// A tile to read.
    pub fn tile(&self, operand: &Operand) -> Tile<'_> {
        Tile { bytes: self.memory.bytes(operand.tensor), geometry: self.tables.geometry(operand) }
    }

    /// Whether two operands live in one slab.
    pub fn same_slab(&self, a: &Operand, b: &Operand) -> bool {
        self.memory.slab_of(a.tensor) == self.memory.slab_of(b.tensor)
    }

    /// Runs `write` with the tile of `dst`; what `write` reads must not be in the same slab.
    pub fn with_written<R>(&mut self, dst: &Operand, write: impl FnOnce(&mut Self, &mut TileMut<'_>) -> R) -> R {
        let mut bytes = self.memory.take(dst.tensor);
        let geometry = self.tables.geometry(dst);
        let result = write(self, &mut TileMut { bytes: bytes.as_mut_slice(), geometry });
        self.memory.restore(dst.tensor, bytes);
        result
    }

    /// All values of a tile as FP32, in its order.
    pub fn read_all(&self, operand: &Operand, out: &mut Vec<f32>) {
        let tile = self.tile(operand);
        out.resize(tile.geometry.elements(), 0.0);
        tile.read_f32(0, out);
    }

    /// A constant of the instruction or a `(P, 1)` tile, as one FP32 value a partition.
    pub fn vector_operand(&self, instruction: &Instruction, slot: usize, constant: usize) -> VectorOperand {
        let operand = &instruction.operands[slot];
        if operand.is_some() {
            let mut values = Vec::new();
            self.read_all(operand, &mut values);
            VectorOperand::Partitions(values)
        } else {
            VectorOperand::Constant(f32::from_bits(instruction.constants[constant]))
        }
    }

    /// Runs `compute` on the BF16 codes of dense tiles, without going through FP32 buffers; false if the tiles are not
    /// all dense BF16 or conversions do not round to nearest. The values are those of [`Machine::stream`].
    pub fn stream_bf16(
        &mut self,
        dst: &Operand,
        inputs: &[&Operand],
        compute: impl FnOnce([&[u16]; 2], &mut [u16]),
    ) -> bool {
        let dense = |operand: &Operand| {
            let geometry = self.tables.geometry(operand);
            let range = geometry.dense().filter(|_| geometry.dtype == trn3_num::Dtype::Bfloat16);
            range.map(|(start, bytes)| start..start + bytes)
        };
        if self.options.cast != Cast::NEAREST {
            return false;
        }
        let Some(range) = dense(dst) else { return false };
        let mut ranges = [0..0, 0..0];
        for (slot, input) in ranges.iter_mut().zip(inputs) {
            let Some(range) = dense(input) else { return false };
            *slot = range;
        }
        for ((codes, input), range) in self.scratch.halves.iter_mut().zip(inputs).zip(&ranges) {
            if self.memory.slab_of(input.tensor) == self.memory.slab_of(dst.tensor) {
                codes.clear();
                codes.extend_from_slice(bytemuck::cast_slice(&self.memory.bytes(input.tensor)[range.clone()]));
            }
        }
        let mut written = self.memory.take(dst.tensor);
        let mut sources: [&[u16]; 2] = [&[], &[]];
        for (at, input) in inputs.iter().enumerate() {
            sources[at] = if self.memory.slab_of(input.tensor) == self.memory.slab_of(dst.tensor) {
                &self.scratch.halves[at]
            } else {
                bytemuck::cast_slice(&self.memory.bytes(input.tensor)[ranges[at].clone()])
            };
        }
        compute(sources, bytemuck::cast_slice_mut(&mut written.as_mut_slice()[range]));
        self.memory.restore(dst.tensor, written);
        true
    }

    /// Streams tiles of one shape: `compute(first, inputs, out)` gets elements `first..first + out.len()` of each
    /// input as FP32 and leaves the results in `out`; they are converted to `dst`.
    ///
    /// The values are those of reading every input in full before anything is written.
    ///
    /// # Errors
    /// What `compute` returns.
    pub fn stream(
        &mut self,
        dst: &Operand,
        inputs: &[&Operand],
        mut compute: impl FnMut(usize, [&[f32]; 2], &mut [f32]) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let mut written: Bytes = self.memory.take(dst.tensor);
        let mut out_tile = TileMut { bytes: written.as_mut_slice(), geometry: self.tables.geometry(dst) };
        let mut sources: [Option<Source<'_>>; 2] = [None, None];
        for (source, input) in sources.iter_mut().zip(inputs) {
            let geometry = self.tables.geometry(input);
            *source = Some(if !self.same_slab(input, dst) {
                Source::Tile(Tile { bytes: self.memory.bytes(input.tensor), geometry })
            } else if geometry == out_tile.geometry || spans_apart(&geometry, &out_tile.geometry) {
                Source::Written(geometry)
            } else {
                let mut values = vec![0.0; geometry.elements()];
                Tile { bytes: out_tile.bytes, geometry }.read_f32(0, &mut values);
                Source::Copied(values)
            });
        }
        let Scratch { x, y, out, .. } = &mut *self.scratch;
        let elements = out_tile.geometry.elements();
        let row = out_tile.geometry.row_elements();
        let step = if row < CHUNK { CHUNK / row * row } else { CHUNK };
        let direct = out_tile.geometry.dtype == trn3_num::Dtype::Float32 && out_tile.geometry.dense().is_some();
        let mut result = Ok(());
        let mut first = 0;
        while first < elements && result.is_ok() {
            let count = step.min(elements - first);
            let [a, b] = &sources;
            let a = fetch(a, &out_tile, first, count, x);
            let b = fetch(b, &out_tile, first, count, y);
            if direct {
                let bytes = out_tile.dense(first, count).expect("the tile is dense");
                result = compute(first, [a, b], bytemuck::cast_slice_mut(bytes));
            } else {
                result = compute(first, [a, b], &mut out[..count]);
                out_tile.write_f32(first, &out[..count], self.options.cast);
            }
            first += count;
        }
        drop(sources);
        self.memory.restore(dst.tensor, written);
        result
    }
}

/// Elements of an input as FP32: in place where they are FP32 and dense, else converted into `buffer`.
fn fetch<'a>(
    source: &'a Option<Source<'a>>,
    written: &TileMut<'_>,
    first: usize,
    count: usize,
    buffer: &'a mut [f32],
) -> &'a [f32] {
    match source {
        None => &[],
        Some(Source::Copied(values)) => &values[first..first + count],
        Some(Source::Written(geometry)) => {
            let buffer = &mut buffer[..count];
            Tile { bytes: written.bytes, geometry: geometry.clone() }.read_f32(first, buffer);
            buffer
        }
        Some(Source::Tile(tile)) => {
            if tile.geometry.dtype == trn3_num::Dtype::Float32
                && let Some(bytes) = tile.dense(first, count)
            {
                return bytemuck::cast_slice(bytes);
            }
            let buffer = &mut buffer[..count];
            tile.read_f32(first, buffer);
            buffer
        }
    }
}

/// Whether two places of one slab cannot share a byte.
pub(crate) fn spans_apart(a: &Geometry, b: &Geometry) -> bool {
    let span = |g: &Geometry| {
        let size = g.dtype.size_bytes() as i64;
        let ends = g.dims.iter().map(|dim| dim.stride * (i64::from(dim.count) - 1));
        let (low, high) = ends.fold((0, 0), |(low, high), end| (low + end.min(0), high + end.max(0)));
        ((g.offset + low) * size, (g.offset + high + 1) * size)
    };
    let ((a_first, a_end), (b_first, b_end)) = (span(a), span(b));
    a_end <= b_first || b_end <= a_first
}

/// An operand that is the same along each partition.
#[derive(Debug, Clone, PartialEq)]
pub enum VectorOperand {
    /// One value for all.
    Constant(f32),
    /// One value a partition.
    Partitions(Vec<f32>),
}

impl VectorOperand {
    /// Puts the value of each partition into `values`.
    pub fn fill(&self, values: &mut [f32]) {
        match self {
            VectorOperand::Constant(value) => values.fill(*value),
            VectorOperand::Partitions(partitions) => values.copy_from_slice(partitions),
        }
    }

    /// Calls `apply(piece, value)` for the pieces of `values` that share a partition; `values` starts at element
    /// `first` of a tile with rows of `row` elements.
    pub fn for_each(&self, first: usize, row: usize, values: &mut [f32], mut apply: impl FnMut(&mut [f32], f32)) {
        match self {
            VectorOperand::Constant(value) => apply(values, *value),
            VectorOperand::Partitions(partitions) => {
                let mut done = 0;
                while done < values.len() {
                    let at = first + done;
                    let count = (row - at % row).min(values.len() - done);
                    apply(&mut values[done..done + count], partitions[at / row]);
                    done += count;
                }
            }
        }
    }
}
