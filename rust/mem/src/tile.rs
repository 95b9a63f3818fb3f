//! A view resolved to host memory: what an instruction's semantics read and write.
//!
//! Elements are addressed by their number in the flattened order of the view. Everything is plain indexing; the
//! conversions are `trn3_num`'s.

use crate::view::{Dim, Dims};
use smallvec::SmallVec;
use trn3_num::{Cast, Dtype, Rounding, decode_slice, encode_slice};

/// Where a view's elements are in a slab, in elements of its dtype.
#[derive(Debug, Clone, PartialEq)]
pub struct Geometry {
    /// Element type.
    pub dtype: Dtype,
    /// Number of the first element.
    pub offset: i64,
    /// All dimensions, the first one being the rows (partitions on chip).
    pub dims: Dims,
}

impl Geometry {
    /// Elements in all.
    pub fn elements(&self) -> usize {
        self.dims.iter().map(|dim| dim.count as usize).product()
    }

    /// Rows: the count of the first dimension.
    pub fn rows(&self) -> usize {
        self.dims[0].count as usize
    }

    /// Elements of a row.
    pub fn row_elements(&self) -> usize {
        self.dims[1..].iter().map(|dim| dim.count as usize).product()
    }

    /// First byte and length, if the elements lie one after the other.
    pub fn dense(&self) -> Option<(usize, usize)> {
        let mut expected = 1i64;
        for dim in self.dims.iter().rev() {
            if dim.count != 1 && dim.stride != expected {
                return None;
            }
            expected *= i64::from(dim.count);
        }
        let size = self.dtype.size_bytes();
        Some((self.offset as usize * size, expected as usize * size))
    }

    /// Calls `run(position, element, stride, count)` for the pieces of elements `first..first + count`: `position`
    /// counts from 0, `element` is the number of the piece's first element in the slab.
    pub fn for_each_piece(&self, first: usize, count: usize, mut run: impl FnMut(usize, usize, isize, usize)) {
        let inner = *self.dims.last().expect("a geometry has a dimension");
        let outer = &self.dims[..self.dims.len() - 1];
        let inner_count = inner.count as usize;
        let mut counter: SmallVec<[u32; 5]> = SmallVec::from_elem(0, outer.len());
        let mut rest = first / inner_count;
        let mut base = self.offset;
        for (dim, position) in outer.iter().zip(&mut counter).rev() {
            *position = (rest % dim.count as usize) as u32;
            rest /= dim.count as usize;
            base += dim.stride * i64::from(*position);
        }
        let mut within = first % inner_count;
        let mut done = 0;
        while done < count {
            let length = (inner_count - within).min(count - done);
            run(done, (base + inner.stride * within as i64) as usize, inner.stride as isize, length);
            done += length;
            within = 0;
            for (dim, position) in outer.iter().zip(&mut counter).rev() {
                *position += 1;
                base += dim.stride;
                if *position < dim.count {
                    break;
                }
                base -= dim.stride * i64::from(dim.count);
                *position = 0;
            }
        }
    }

    /// The same elements, with inner dimensions that follow each other merged: fewer, longer pieces. The rows stay.
    pub fn with_merged_free(mut self) -> Self {
        let mut free = Dims::new();
        for &dim in self.dims[1..].iter().filter(|dim| dim.count != 1) {
            match free.last_mut() {
                Some(outer) if outer.stride == dim.stride * i64::from(dim.count) => {
                    *outer = Dim { stride: dim.stride, count: outer.count * dim.count };
                }
                _ => free.push(dim),
            }
        }
        if free.is_empty() {
            free.push(Dim { stride: 1, count: 1 });
        }
        self.dims.truncate(1);
        self.dims.extend(free);
        self
    }
}

/// A readable tile.
#[derive(Debug)]
pub struct Tile<'a> {
    /// The slab.
    pub bytes: &'a [u8],
    /// Where in it.
    pub geometry: Geometry,
}

/// A writable tile.
#[derive(Debug)]
pub struct TileMut<'a> {
    /// The slab.
    pub bytes: &'a mut [u8],
    /// Where in it.
    pub geometry: Geometry,
}

impl<'a> Tile<'a> {
    /// The bytes of elements `first..first + count`, when the whole tile is dense.
    pub fn dense(&self, first: usize, count: usize) -> Option<&'a [u8]> {
        let (start, _) = self.geometry.dense()?;
        let size = self.geometry.dtype.size_bytes();
        Some(&self.bytes[start + first * size..start + (first + count) * size])
    }

    /// Elements `first..first + out.len()` as FP32.
    pub fn read_f32(&self, first: usize, out: &mut [f32]) {
        let dtype = self.geometry.dtype;
        if let Some(bytes) = self.dense(first, out.len()) {
            decode_slice(dtype, bytes, out);
            return;
        }
        let size = dtype.size_bytes();
        self.geometry.for_each_piece(first, out.len(), |position, element, stride, count| {
            let out = &mut out[position..position + count];
            if stride == 1 {
                decode_slice(dtype, &self.bytes[element * size..(element + count) * size], out);
            } else if stride == 0 {
                decode_slice(dtype, &self.bytes[element * size..(element + 1) * size], &mut out[..1]);
                let value = out[0];
                out.fill(value);
            } else {
                for (i, value) in out.iter_mut().enumerate() {
                    let at = (element as isize + stride * i as isize) as usize * size;
                    decode_slice(dtype, &self.bytes[at..at + size], std::slice::from_mut(value));
                }
            }
        });
    }

    /// Elements `first..first + out.len() / size` as their bytes.
    pub fn read_bytes(&self, first: usize, out: &mut [u8]) {
        let size = self.geometry.dtype.size_bytes();
        if let Some(bytes) = self.dense(first, out.len() / size) {
            out.copy_from_slice(bytes);
            return;
        }
        self.geometry.for_each_piece(first, out.len() / size, |position, element, stride, count| {
            let out = &mut out[position * size..(position + count) * size];
            if stride == 1 {
                out.copy_from_slice(&self.bytes[element * size..(element + count) * size]);
            } else {
                for (i, value) in out.chunks_exact_mut(size).enumerate() {
                    let at = (element as isize + stride * i as isize) as usize * size;
                    value.copy_from_slice(&self.bytes[at..at + size]);
                }
            }
        });
    }

    /// Elements as 32-bit words: bit patterns zero-extended, signed integers sign-extended.
    pub fn read_words(&self, first: usize, out: &mut [u32]) {
        let dtype = self.geometry.dtype;
        let size = dtype.size_bytes();
        self.geometry.for_each_piece(first, out.len(), |position, element, stride, count| {
            for (i, word) in out[position..position + count].iter_mut().enumerate() {
                let at = (element as isize + stride * i as isize) as usize * size;
                *word = load_word(dtype, &self.bytes[at..at + size]);
            }
        });
    }
}

impl TileMut<'_> {
    /// The same tile, to be read.
    pub fn as_tile(&self) -> Tile<'_> {
        Tile { bytes: self.bytes, geometry: self.geometry.clone() }
    }

    /// The bytes of elements `first..first + count`, when the whole tile is dense.
    pub fn dense(&mut self, first: usize, count: usize) -> Option<&mut [u8]> {
        let (start, _) = self.geometry.dense()?;
        let size = self.geometry.dtype.size_bytes();
        Some(&mut self.bytes[start + first * size..start + (first + count) * size])
    }

    /// Writes FP32 values to elements `first..first + values.len()`, converted.
    pub fn write_f32(&mut self, first: usize, values: &[f32], cast: Cast) {
        let dtype = self.geometry.dtype;
        if let Some(bytes) = self.dense(first, values.len()) {
            encode_slice(dtype, values, bytes, cast_at(cast, first));
            return;
        }
        let size = dtype.size_bytes();
        let TileMut { bytes, geometry } = self;
        geometry.for_each_piece(first, values.len(), |position, element, stride, count| {
            let values = &values[position..position + count];
            let cast = cast_at(cast, first + position);
            if stride == 1 {
                encode_slice(dtype, values, &mut bytes[element * size..(element + count) * size], cast);
            } else {
                for (i, value) in values.iter().enumerate() {
                    let at = (element as isize + stride * i as isize) as usize * size;
                    encode_slice(dtype, std::slice::from_ref(value), &mut bytes[at..at + size], cast_at(cast, i));
                }
            }
        });
    }

    /// Writes the bytes of elements `first..`.
    pub fn write_bytes(&mut self, first: usize, values: &[u8]) {
        let size = self.geometry.dtype.size_bytes();
        if let Some(bytes) = self.dense(first, values.len() / size) {
            bytes.copy_from_slice(values);
            return;
        }
        let TileMut { bytes, geometry } = self;
        geometry.for_each_piece(first, values.len() / size, |position, element, stride, count| {
            let values = &values[position * size..(position + count) * size];
            if stride == 1 {
                bytes[element * size..(element + count) * size].copy_from_slice(values);
            } else {
                for (i, value) in values.chunks_exact(size).enumerate() {
                    let at = (element as isize + stride * i as isize) as usize * size;
                    bytes[at..at + size].copy_from_slice(value);
                }
            }
        });
    }

    /// Writes the low bits of 32-bit words to elements `first..`.
    pub fn write_words(&mut self, first: usize, words: &[u32]) {
        let size = self.geometry.dtype.size_bytes();
        let TileMut { bytes, geometry } = self;
        geometry.for_each_piece(first, words.len(), |position, element, stride, count| {
            for (i, word) in words[position..position + count].iter().enumerate() {
                let at = (element as isize + stride * i as isize) as usize * size;
                bytes[at..at + size].copy_from_slice(&word.to_le_bytes()[..size]);
            }
        });
    }
}

/// The conversion of the elements from `first` on: an element's random draw depends on its number in the tile alone.
fn cast_at(cast: Cast, first: usize) -> Cast {
    match cast.rounding {
        Rounding::NearestEven => cast,
        Rounding::Stochastic(draws) => Cast { rounding: Rounding::Stochastic(draws.skip(first as u64)), ..cast },
    }
}

fn load_word(dtype: Dtype, bytes: &[u8]) -> u32 {
    let mut word = [0u8; 4];
    word[..bytes.len()].copy_from_slice(bytes);
    let word = u32::from_le_bytes(word);
    match dtype {
        Dtype::Int8 => word as u8 as i8 as i32 as u32,
        Dtype::Int16 => word as u16 as i16 as i32 as u32,
        _ => word,
    }
}
