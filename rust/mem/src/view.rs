//! Views: where a tensor's elements are, as strides and counts.
//!
//! Every operation makes a new view and moves no data. Sources: the public `nki.language` reference for `NkiTensor`
//! and the access-pattern guide (`nki-aps.rst`); decisions where they disagree are in `docs/contract.md`.

use crate::error::Violation;
use crate::runs::ByteRuns;
use crate::tensor::{Space, TensorId};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use trn3_num::Dtype;

/// Dimensions that a view may have.
pub const RANK_MAX: usize = 5;

/// Counts of a tensor's dimensions.
pub type Shape = SmallVec<[u32; RANK_MAX]>;

/// One dimension of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Dim {
    /// Elements of storage between neighbours.
    pub stride: i64,
    /// Number of elements.
    pub count: u32,
}

/// The dimensions of a view, outermost first.
pub type Dims = SmallVec<[Dim; RANK_MAX]>;

/// A start that a register moves while the kernel runs (`scalar_offset`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ScalarOffset {
    /// Number of the register.
    pub register: u32,
    /// Elements of storage for each unit of the register.
    pub stride: i64,
}

/// The part of a view that many views share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pattern {
    /// How the bytes are read.
    pub dtype: Dtype,
    /// Strides and counts.
    pub dims: Dims,
    /// What moves the start at run time.
    pub scalar: Option<ScalarOffset>,
}

/// One item of a subscript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Index {
    /// A position; negative ones count from the end.
    At(i64),
    /// A range with a step.
    Range {
        /// First position, or the beginning.
        start: Option<i64>,
        /// Position after the last, or the end.
        stop: Option<i64>,
        /// Distance between positions.
        step: Option<i64>,
    },
    /// As many whole dimensions as are missing.
    Ellipsis,
}

/// A window on a tensor.
///
/// The element at (i0, i1, …) is number `offset + Σ stride·i` of the tensor's storage, read as `dtype`. On chip the
/// storage is partition-major: number `p·partition_elements + f` is element `f` of partition `p`.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The tensor.
    pub tensor: TensorId,
    /// Where the tensor lives.
    pub space: Space,
    /// How the bytes are read.
    pub dtype: Dtype,
    /// Number of the first element.
    pub offset: i64,
    /// Strides and counts.
    pub dims: Dims,
    /// Elements of `dtype` in one partition of the storage.
    pub partition_elements: i64,
    /// Elements of `dtype` in the whole storage.
    pub size: i64,
    /// Partition and byte at which the tensor starts, if the user said so; else where a tensor of the recorder's may start.
    pub origin: (u32, u32),
    /// Row numbers that replace the leading coordinate (`vector_offset`), a view of shape (P, 1) in SBUF.
    pub index: Option<Box<View>>,
    /// A register that moves the start (`scalar_offset`); bounds hold where it is 0, and are checked again at run time.
    pub scalar: Option<ScalarOffset>,
}

impl View {
    /// Counts of all dimensions.
    pub fn shape(&self) -> Shape {
        self.dims.iter().map(|dim| dim.count).collect()
    }

    /// Elements in view.
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1, |product: u64, dim| product.saturating_mul(u64::from(dim.count)))
    }

    /// Partitions in view; on chip, dimension 0.
    pub fn partitions(&self) -> u32 {
        self.dims[0].count
    }

    /// Elements of each partition in view.
    pub fn free_size(&self) -> u64 {
        self.dims[1..].iter().fold(1, |product: u64, dim| product.saturating_mul(u64::from(dim.count)))
    }

    /// First partition, on chip.
    pub fn partition_start(&self) -> u32 {
        self.origin.0 + (self.offset / self.partition_elements.max(1)) as u32
    }

    /// First byte within the partition, on chip.
    pub fn free_start_bytes(&self) -> u64 {
        u64::from(self.origin.1)
            + (self.offset % self.partition_elements.max(1)) as u64 * self.dtype.size_bytes() as u64
    }

    /// Whether the elements lie one after the other (on chip: within each partition).
    pub fn is_contiguous(&self) -> bool {
        let first = usize::from(self.space.is_on_chip());
        let mut expected = 1i64;
        for dim in self.dims[first..].iter().rev() {
            if dim.count != 1 && dim.stride != expected {
                return false;
            }
            expected *= i64::from(dim.count);
        }
        true
    }

    /// The part that other views share.
    pub fn pattern(&self) -> Pattern {
        Pattern { dtype: self.dtype, dims: self.dims.clone(), scalar: self.scalar }
    }

    /// The dimensions with neighbours merged and ones dropped: few strides, the same order of elements.
    pub fn merged(&self) -> Dims {
        merge(&self.dims)
    }

    /// The byte runs that the view touches, in the order of its elements: (first byte, length).
    pub fn byte_runs(&self) -> ByteRuns {
        ByteRuns::new(self.merged(), self.offset, self.dtype.size_bytes() as u64)
    }

    /// First byte touched and the byte after the last, in the storage.
    pub fn byte_span(&self) -> (u64, u64) {
        let size = self.dtype.size_bytes() as i64;
        let (low, high) = reach(&self.dims);
        (((self.offset + low as i64) * size) as u64, ((self.offset + high as i64 + 1) * size) as u64)
    }

    fn fail(&self, what: &'static str, value: String, limit: String, fix: &'static str) -> Violation {
        Violation::new("tensor.view", what, value, limit, fix).in_instruction("tensor")
    }

    /// `view[key]`.
    ///
    /// # Errors
    /// Too many items, a position or range outside its dimension, a step below 1.
    pub fn subscript(&self, key: &[Index]) -> Result<View, Violation> {
        let given = key.iter().filter(|item| **item != Index::Ellipsis).count();
        let rank = self.dims.len();
        if given > rank || key.len() > given + 1 {
            return Err(self.fail(
                "subscript",
                format!("{} indices", key.len()),
                format!("the tensor has {rank} dimensions"),
                "drop the extra indices",
            ));
        }
        let mut view = self.clone();
        let mut dims = Dims::new();
        let mut dropped: SmallVec<[bool; RANK_MAX]> = SmallVec::new();
        let mut axis = 0;
        let has_ellipsis = key.len() > given;
        let whole = Index::Range { start: None, stop: None, step: None };
        let mut expanded: SmallVec<[Index; 8]> = SmallVec::new();
        for item in key {
            if *item == Index::Ellipsis {
                expanded.extend(std::iter::repeat_n(whole, rank - given));
            } else {
                expanded.push(*item);
            }
        }
        if !has_ellipsis {
            expanded.extend(std::iter::repeat_n(whole, rank - given));
        }
        for item in expanded {
            let dim = self.dims[axis];
            match item {
                Index::At(position) => {
                    let at = self.position(axis, position)?;
                    view.offset += at * dim.stride;
                    dims.push(Dim { stride: dim.stride, count: 1 });
                    dropped.push(!(self.space.is_on_chip() && axis == 0));
                }
                Index::Range { start, stop, step } => {
                    let (first, count, step) = self.range(axis, start, stop, step)?;
                    view.offset += first * dim.stride;
                    dims.push(Dim { stride: dim.stride * step, count });
                    dropped.push(false);
                }
                Index::Ellipsis => unreachable!("ellipses were expanded"),
            }
            axis += 1;
        }
        let rank_min: usize = if self.space.is_on_chip() { 2 } else { 1 };
        let kept = dropped.iter().filter(|drop| !**drop).count();
        let mut restore = rank_min.saturating_sub(kept).min(rank);
        view.dims = Dims::new();
        for (dim, drop) in dims.into_iter().zip(&dropped) {
            if !*drop {
                view.dims.push(dim);
            } else if restore > 0 {
                restore -= 1;
                view.dims.push(dim);
            }
        }
        if self.index.is_some() && view.dims.first().map(|dim| dim.count) != Some(self.dims[0].count) {
            return Err(self.fail(
                "subscript",
                "the indirect dimension is sliced".into(),
                "a view with vector_offset keeps its dimension 0".into(),
                "slice before making the view indirect",
            ));
        }
        Ok(view)
    }

    fn position(&self, axis: usize, position: i64) -> Result<i64, Violation> {
        let count = i64::from(self.dims[axis].count);
        let at = if position < 0 { position + count } else { position };
        if (0..count).contains(&at) {
            return Ok(at);
        }
        Err(self.fail(
            "subscript",
            format!("index {position} in dimension {axis}"),
            format!("size {count}"),
            "stay inside the tensor",
        ))
    }

    fn range(
        &self,
        axis: usize,
        start: Option<i64>,
        stop: Option<i64>,
        step: Option<i64>,
    ) -> Result<(i64, u32, i64), Violation> {
        let size = i64::from(self.dims[axis].count);
        let wrap = |at: i64| if at < 0 { at + size } else { at };
        let first = wrap(start.unwrap_or(0));
        let end = wrap(stop.unwrap_or(size));
        let given = step.unwrap_or(1);
        // A step beyond the dimension takes its first element, as one of the dimension's size does.
        let step = given.min(size);
        if step >= 1 && 0 <= first && first < end && end <= size {
            return Ok((first, ((end - first + step - 1) / step) as u32, step));
        }
        let text = |at: Option<i64>| at.map_or(String::new(), |at| at.to_string());
        Err(self.fail(
            "subscript",
            format!("range {}:{}:{given} in dimension {axis}", text(start), text(stop)),
            format!("0 <= start < stop <= {size} and step >= 1"),
            "stay inside the tensor; an empty or reversed range has no access pattern",
        ))
    }

    /// Replaces dimension `axis` by `into`.
    fn splice(&self, axis: usize, remove: usize, into: &[Dim]) -> Result<View, Violation> {
        let mut dims = Dims::from_slice(&self.dims[..axis]);
        dims.extend_from_slice(into);
        dims.extend_from_slice(&self.dims[axis + remove..]);
        self.with_dims(dims)
    }

    fn with_dims(&self, dims: Dims) -> Result<View, Violation> {
        if dims.len() > RANK_MAX {
            return Err(self.fail(
                "view",
                format!("{} dimensions", dims.len()),
                format!("limit {RANK_MAX}"),
                "merge dimensions first",
            ));
        }
        Ok(View { dims, ..self.clone() })
    }

    /// The dimension that `axis` names; negative ones count from the end.
    ///
    /// # Errors
    /// No such dimension.
    pub fn axis(&self, axis: i64) -> Result<usize, Violation> {
        let rank = self.dims.len() as i64;
        let at = if axis < 0 { axis + rank } else { axis };
        if (0..rank).contains(&at) {
            return Ok(at as usize);
        }
        Err(self.fail("dim", axis.to_string(), format!("the tensor has {rank} dimensions"), "name one of them"))
    }

    fn free_axis(&self, axis: i64, what: &'static str) -> Result<usize, Violation> {
        let at = self.axis(axis)?;
        if self.space.is_on_chip() && at == 0 {
            return Err(self.fail(
                what,
                "dimension 0".into(),
                format!("dimension 0 of a tensor in {} is its partitions", self.space.name()),
                "use a free dimension",
            ));
        }
        Ok(at)
    }

    /// Dimensions in another order.
    ///
    /// # Errors
    /// Not a permutation, or the partition dimension moves.
    pub fn permute(&self, order: &[i64]) -> Result<View, Violation> {
        let mut dims = Dims::new();
        let mut seen = [false; RANK_MAX];
        for &axis in order {
            let at = self.axis(axis)?;
            seen[at] = true;
            dims.push(self.dims[at]);
        }
        let complete = order.len() == self.dims.len() && seen[..self.dims.len()].iter().all(|&s| s);
        let keeps_first = order.first().is_some_and(|&axis| axis == 0 || axis == -(self.dims.len() as i64));
        if !complete || ((self.space.is_on_chip() || self.index.is_some()) && !keeps_first) {
            return Err(self.fail(
                "permute",
                format!("{order:?}"),
                "a permutation of all dimensions, on chip with dimension 0 first".into(),
                "move data across partitions with nc_transpose",
            ));
        }
        self.with_dims(dims)
    }

    /// A size-1 dimension repeated.
    ///
    /// # Errors
    /// The dimension is not of size 1, or is the partition dimension.
    pub fn broadcast(&self, axis: i64, count: u32) -> Result<View, Violation> {
        let at = self.free_axis(axis, "broadcast")?;
        if self.dims[at].count != 1 || count == 0 {
            return Err(self.fail(
                "broadcast",
                format!("dimension {at} of size {} to {count}", self.dims[at].count),
                "only a dimension of size 1 can be repeated, at least once".into(),
                "select one element first",
            ));
        }
        self.splice(at, 1, &[Dim { stride: 0, count }])
    }

    /// A new dimension of size 1 before `axis`.
    ///
    /// # Errors
    /// Too many dimensions, or a place before the partitions.
    pub fn expand_dim(&self, axis: i64) -> Result<View, Violation> {
        let rank = self.dims.len() as i64;
        let at = if axis < 0 { axis + rank + 1 } else { axis };
        let lowest = i64::from(self.space.is_on_chip());
        if !(lowest..=rank).contains(&at) {
            return Err(self.fail(
                "expand_dim",
                axis.to_string(),
                format!("a place from {lowest} to {rank}"),
                "on chip, dimension 0 stays the partitions",
            ));
        }
        let stride = self.dims.get(at as usize).map_or(1, |dim| dim.stride * i64::from(dim.count));
        self.splice(at as usize, 0, &[Dim { stride, count: 1 }])
    }

    /// Without the size-1 dimension `axis`.
    ///
    /// # Errors
    /// The dimension is not of size 1, or too few would be left.
    pub fn squeeze_dim(&self, axis: i64) -> Result<View, Violation> {
        let at = self.free_axis(axis, "squeeze_dim")?;
        let rank_min = if self.space.is_on_chip() { 2 } else { 1 };
        if self.dims[at].count != 1 || self.dims.len() <= rank_min {
            return Err(self.fail(
                "squeeze_dim",
                format!("dimension {at} of size {}, rank {}", self.dims[at].count, self.dims.len()),
                format!("size 1, and {rank_min} dimensions must be left"),
                "use reshape",
            ));
        }
        self.splice(at, 1, &[])
    }

    /// One dimension split; one size may be -1.
    ///
    /// # Errors
    /// The sizes do not multiply to the dimension's.
    pub fn reshape_dim(&self, axis: i64, sizes: &[i64]) -> Result<View, Violation> {
        let at = self.axis(axis)?;
        let dim = self.dims[at];
        let sizes = self.complete(sizes, u64::from(dim.count), "reshape_dim")?;
        if self.space.is_on_chip() && at == 0 && sizes.first() != Some(&dim.count) {
            return Err(self.fail(
                "reshape_dim",
                format!("dimension 0 to {sizes:?}"),
                "dimension 0 is the partitions".into(),
                "split a free dimension",
            ));
        }
        let mut stride = dim.stride;
        let mut into: SmallVec<[Dim; RANK_MAX]> = SmallVec::new();
        for &count in sizes.iter().rev() {
            into.push(Dim { stride, count });
            stride *= i64::from(count);
        }
        into.reverse();
        self.splice(at, 1, &into)
    }

    /// Dimensions `start` to `end`, both included, as one.
    ///
    /// # Errors
    /// The elements do not follow each other at one stride.
    pub fn flatten_dims(&self, start: i64, end: i64) -> Result<View, Violation> {
        let first = self.free_axis(start, "flatten_dims")?;
        let last = self.axis(end)?;
        if last < first {
            return Err(self.fail("flatten_dims", format!("{start} to {end}"), "start <= end".into(), "swap them"));
        }
        let merged = merge(&self.dims[first..=last]);
        if merged.len() > 1 {
            return Err(self.fail(
                "flatten_dims",
                format!("strides {:?}", self.dims[first..=last].iter().map(|d| d.stride).collect::<Vec<_>>()),
                "the dimensions must follow each other without a gap".into(),
                "copy the tile first",
            ));
        }
        self.splice(first, last - first + 1, &[merged[0]])
    }

    fn complete(&self, sizes: &[i64], total: u64, what: &'static str) -> Result<Shape, Violation> {
        let known: i64 = sizes.iter().filter(|&&size| size != -1).product();
        let holes = sizes.iter().filter(|&&size| size == -1).count();
        let mut shape = Shape::new();
        for &size in sizes {
            let count = if size == -1 && known > 0 { total as i64 / known } else { size };
            shape.push(u32::try_from(count.max(0)).unwrap_or(0));
        }
        let product: u64 = shape.iter().map(|&count| u64::from(count)).product();
        if holes > 1 || product != total || total == 0 {
            return Err(self.fail(
                what,
                format!("sizes {sizes:?}"),
                format!("they must multiply to {total}, with at most one -1"),
                "keep the number of elements",
            ));
        }
        Ok(shape)
    }

    /// Another shape of the same elements.
    ///
    /// # Errors
    /// Another number of elements, a layout that needs a copy, or other partitions.
    pub fn reshape(&self, sizes: &[i64]) -> Result<View, Violation> {
        let shape = self.complete(sizes, self.elements(), "reshape")?;
        if shape.len() > RANK_MAX {
            return Err(self.fail(
                "reshape",
                format!("{sizes:?}"),
                format!("at most {RANK_MAX} dimensions"),
                "merge some",
            ));
        }
        if self.space.is_on_chip() && (shape[0] != self.dims[0].count || shape.len() < 2) {
            return Err(self.fail(
                "reshape",
                format!("{:?} to {sizes:?}", self.shape().as_slice()),
                "on chip, dimension 0 (partitions) stays and one free dimension is left".into(),
                "move data across partitions with dma_copy or nc_transpose",
            ));
        }
        let first = usize::from(self.space.is_on_chip());
        let Some(free) = split(&merge(&self.dims[first..]), &shape[first..]) else {
            return Err(self.fail(
                "reshape",
                format!("{:?} to {sizes:?}", self.shape().as_slice()),
                "the layout does not allow it without a copy".into(),
                "copy the tile first",
            ));
        };
        let mut dims = Dims::from_slice(&self.dims[..first]);
        dims.extend(free);
        self.with_dims(dims)
    }

    /// The same bytes read as another type; the last dimension scales.
    ///
    /// # Errors
    /// The last dimension is not contiguous or not divisible.
    pub fn reinterpret(&self, dtype: Dtype) -> Result<View, Violation> {
        let (old, new) = (self.dtype.size_bytes() as i64, dtype.size_bytes() as i64);
        let last = *self.dims.last().expect("a view has a dimension");
        let bytes = i64::from(last.count) * old;
        let free_last = !(self.space.is_on_chip() && self.dims.len() == 1);
        let scaled = self.dims[..self.dims.len() - 1].iter().all(|dim| dim.stride * old % new == 0);
        let fits = old == new
            || (free_last
                && (last.stride == 1 || last.count == 1)
                && bytes % new == 0
                && self.offset * old % new == 0
                && scaled
                && self.partition_elements * old % new == 0);
        if !fits || self.index.is_some() || (self.scalar.is_some() && old != new) {
            return Err(self.fail(
                "view",
                format!("{} {:?} as {}", self.dtype.name(), self.shape().as_slice(), dtype.name()),
                "the last dimension must be contiguous, a whole number of new elements, and static".into(),
                "view the tensor before slicing it",
            ));
        }
        let mut view = self.clone();
        view.dtype = dtype;
        view.offset = self.offset * old / new;
        view.partition_elements = self.partition_elements * old / new;
        view.size = self.size * old / new;
        if old != new {
            for dim in &mut view.dims {
                dim.stride = dim.stride * old / new;
            }
            let tail = view.dims.last_mut().expect("a view has a dimension");
            *tail = Dim { stride: 1, count: (bytes / new) as u32 };
        }
        Ok(view)
    }

    /// A raw access pattern: `(stride, count)` pairs over the storage, from the view's own start plus `offset`.
    ///
    /// # Errors
    /// A pattern that leaves the tensor or, on chip, strides over partitions.
    pub fn access_pattern(&self, pattern: &[(i64, i64)], offset: i64, dtype: Dtype) -> Result<View, Violation> {
        let mut view = self.clone();
        let (old, new) = (self.dtype.size_bytes() as i64, dtype.size_bytes() as i64);
        view.dtype = dtype;
        view.partition_elements = self.partition_elements * old / new;
        view.size = self.size * old / new;
        view.dims = Dims::new();
        let text = || format!("{pattern:?} at {offset}");
        if self.scalar.is_some() || self.index.is_some() {
            return Err(self.fail(
                "ap",
                text(),
                "the view is found at run time already".into(),
                "take the access pattern of the tensor itself",
            ));
        }
        if pattern.is_empty() || pattern.len() > RANK_MAX || self.offset * old % new != 0 {
            return Err(self.fail("ap", text(), format!("1 to {RANK_MAX} pairs, on whole elements"), "rewrite it"));
        }
        for &(stride, count) in pattern {
            let Some(count) = u32::try_from(count).ok().filter(|&count| count > 0) else {
                return Err(self.fail("ap", text(), "counts are at least 1".into(), "write [stride, count] pairs"));
            };
            view.dims.push(Dim { stride, count });
        }
        // A caller may write any 64-bit numbers: the bounds are worked out where they cannot wrap.
        let start = i128::from(self.offset * old / new) + i128::from(offset);
        let (low, high) = reach(&view.dims);
        let (low, high) = (start + low, start + high);
        if low < 0 || high >= i128::from(view.size) {
            return Err(self.fail(
                "ap",
                format!("{} reaches elements {low} to {high}", text()),
                format!("the storage has {}", view.size),
                "stay inside the tensor",
            ));
        }
        view.offset = start as i64;
        for dim in view.dims.iter_mut().filter(|dim| dim.count == 1) {
            // The step of a single element is never taken; as given, it might be any number.
            dim.stride = dim.stride.clamp(-view.size, view.size);
        }
        if self.space.is_on_chip() {
            let row = view.partition_elements;
            let (low, high) = reach(&view.dims[1..]);
            let first = i128::from(view.offset % row);
            let within = 0..i128::from(row);
            let first_ok = view.dims[0].count == 1 || view.dims[0].stride == row;
            if !first_ok || view.dims.len() < 2 || !within.contains(&(first + low)) || !within.contains(&(first + high))
            {
                return Err(self.fail(
                    "ap",
                    text(),
                    format!("on chip the first pair steps partitions (stride {row}) and the rest stays inside one"),
                    "start the pattern with [free elements of the tensor, partitions]",
                ));
            }
        }
        Ok(view)
    }
}

/// Lowest and highest element that the dimensions reach, from the first one.
fn reach(dims: &[Dim]) -> (i128, i128) {
    let ends = dims.iter().map(|dim| i128::from(dim.stride) * (i128::from(dim.count) - 1));
    ends.fold((0, 0), |(low, high), end| (low + end.min(0), high + end.max(0)))
}

/// Merges neighbours that follow each other and drops dimensions of size 1; never empty.
fn merge(dims: &[Dim]) -> Dims {
    let mut merged = Dims::new();
    for &dim in dims.iter().filter(|dim| dim.count != 1) {
        match merged.last_mut() {
            Some(outer)
                if outer.stride == dim.stride * i64::from(dim.count)
                    && outer.count.checked_mul(dim.count).is_some() =>
            {
                *outer = Dim { stride: dim.stride, count: outer.count * dim.count };
            }
            _ => merged.push(dim),
        }
    }
    if merged.is_empty() {
        merged.push(Dim { stride: 1, count: 1 });
    }
    merged
}

/// Splits merged dimensions into those of `shape`, if no copy is needed.
fn split(merged: &[Dim], shape: &[u32]) -> Option<Dims> {
    let mut dims = Dims::new();
    let mut source = merged.iter().rev().copied();
    let mut rest = source.next()?;
    for &count in shape.iter().rev() {
        if count == 1 {
            dims.push(Dim { stride: rest.stride, count });
            continue;
        }
        if rest.count == 1 {
            rest = source.next()?;
        }
        if rest.count % count != 0 {
            return None;
        }
        dims.push(Dim { stride: rest.stride, count });
        rest = Dim { stride: rest.stride * i64::from(count), count: rest.count / count };
    }
    (rest.count == 1 && source.next().is_none()).then(|| {
        dims.reverse();
        dims
    })
}
