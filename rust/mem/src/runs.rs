//! The bytes that a view touches, run by run.

use crate::view::{Dims, RANK_MAX};
use smallvec::SmallVec;

/// Iterator over the byte runs of a view.
#[derive(Debug, Clone)]
pub struct ByteRuns {
    dims: Dims,
    counter: SmallVec<[u32; RANK_MAX]>,
    at: i64,
    element_bytes: u64,
    run_bytes: u64,
    left: u64,
}

impl ByteRuns {
    pub(crate) fn new(mut dims: Dims, offset: i64, element_bytes: u64) -> Self {
        let inner = *dims.last().expect("merged dimensions are never empty");
        let run_elements = if inner.stride == 1 || inner.count == 1 {
            dims.pop();
            u64::from(inner.count)
        } else {
            1
        };
        let left = dims.iter().map(|dim| u64::from(dim.count)).product();
        let counter = SmallVec::from_elem(0, dims.len());
        ByteRuns { dims, counter, at: offset, element_bytes, run_bytes: run_elements * element_bytes, left }
    }
}

impl Iterator for ByteRuns {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        if self.left == 0 {
            return None;
        }
        let run = (self.at as u64 * self.element_bytes, self.run_bytes);
        self.left -= 1;
        for (dim, position) in self.dims.iter().zip(&mut self.counter).rev() {
            *position += 1;
            self.at += dim.stride;
            if *position < dim.count {
                break;
            }
            self.at -= dim.stride * i64::from(dim.count);
            *position = 0;
        }
        Some(run)
    }
}
