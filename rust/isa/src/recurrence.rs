//! Recurrences along the rows of a tile: each element takes part in the next one's value.

/// Rows that go on side by side: their chains of operations do not wait for each other.
pub(crate) const LANES: usize = 16;
/// Elements of each of these rows that are turned to stand side by side at a time.
const STEPS: usize = 32;

/// Elements of up to [`LANES`] rows, those with one place in their rows side by side.
type Block = [[f32; LANES]; STEPS];

fn load(rows: &[f32], row: usize, first: usize, count: usize, block: &mut Block) {
    for (lane, values) in rows.chunks_exact(row).enumerate() {
        for (step, &value) in block.iter_mut().zip(&values[first..first + count]) {
            step[lane] = value;
        }
    }
}

fn store(block: &Block, row: usize, first: usize, count: usize, rows: &mut [f32]) {
    for (lane, values) in rows.chunks_exact_mut(row).enumerate() {
        for (value, step) in values[first..first + count].iter_mut().zip(block) {
            *value = step[lane];
        }
    }
}

/// Replaces each element of `x` by `r = step(x, y, r)`, from the first to the last of its row of `row` elements, where
/// `state` has the rows' r before and after. Without `y`, its elements are 0.
pub(crate) fn run(
    step: impl Fn(f32, f32, f32) -> f32 + Copy,
    row: usize,
    x: &mut [f32],
    y: Option<&[f32]>,
    state: &mut [f32],
) {
    let (mut x_block, mut y_block): (Block, Block) = ([[0.0; LANES]; STEPS], [[0.0; LANES]; STEPS]);
    for (group, (x, state)) in x.chunks_mut(row * LANES).zip(state.chunks_mut(LANES)).enumerate() {
        let mut lanes = [0f32; LANES];
        lanes[..state.len()].copy_from_slice(state);
        for first in (0..row).step_by(STEPS) {
            let count = STEPS.min(row - first);
            load(x, row, first, count, &mut x_block);
            if let Some(y) = y {
                load(&y[group * row * LANES..][..x.len()], row, first, count, &mut y_block);
            }
            for (x, y) in x_block[..count].iter_mut().zip(&y_block) {
                for ((x, &y), lane) in x.iter_mut().zip(y).zip(&mut lanes) {
                    *lane = step(*x, y, *lane);
                    *x = *lane;
                }
            }
            store(&x_block, row, first, count, x);
        }
        state.copy_from_slice(&lanes[..state.len()]);
    }
}

/// [`run`] that leaves `x` as it is, over the elements of each row from place `from` on: `state` becomes what
/// `r = step(r, x)` ends with.
pub(crate) fn fold(step: impl Fn(f32, f32) -> f32 + Copy, row: usize, from: usize, x: &[f32], state: &mut [f32]) {
    let mut block: Block = [[0.0; LANES]; STEPS];
    for (x, state) in x.chunks(row * LANES).zip(state.chunks_mut(LANES)) {
        let mut lanes = [0f32; LANES];
        lanes[..state.len()].copy_from_slice(state);
        for first in (from..row).step_by(STEPS) {
            let count = STEPS.min(row - first);
            load(x, row, first, count, &mut block);
            for values in &block[..count] {
                for (lane, &value) in lanes.iter_mut().zip(values) {
                    *lane = step(*lane, value);
                }
            }
        }
        state.copy_from_slice(&lanes[..state.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::{fold, run};
    use crate::operator::Operator;

    #[test]
    fn side_by_side_is_one_after_the_other() {
        let steps: [fn(f32, f32, f32) -> f32; 3] = [
            |x, _, r| Operator::Subtract.evaluate(x, r),
            |x, _, r| Operator::Maximum.evaluate(x, r),
            |x, y, r| Operator::Add.evaluate(Operator::Multiply.evaluate(x, r), y),
        ];
        for (rows, row) in [(1, 1), (3, 100), (16, 32), (37, 65), (128, 7)] {
            for (number, &step) in steps.iter().enumerate() {
                let mut x: Vec<f32> = (0..rows * row).map(|at| ((at * 37 % 101) as f32 - 50.0) * 0.03).collect();
                let y: Vec<f32> = x.iter().rev().map(|value| value * 1.7).collect();
                x[row / 2] = f32::from_bits(0xFFC0_0001);
                let mut state: Vec<f32> = (0..rows).map(|at| at as f32 * 0.1).collect();
                let (source, before) = (x.clone(), state.clone());
                let (mut expected, mut running) = (x.clone(), state.clone());
                for (at, (value, &other)) in expected.iter_mut().zip(&y).enumerate() {
                    running[at / row] = step(*value, other, running[at / row]);
                    *value = running[at / row];
                }
                run(step, row, &mut x, (number == 2).then_some(&y), &mut state);
                let mut folded: Vec<f32> = before.iter().map(|value| value * 0.3).collect();
                let begun = folded.clone();
                fold(|r, value| step(value, 0.0, r), row, row.min(3) - 1, &source, &mut folded);
                for (at, (folded, begun)) in folded.iter().zip(begun).enumerate() {
                    let values = &source[at * row..][row.min(3) - 1..row];
                    let expected = values.iter().fold(begun, |r, &value| step(value, 0.0, r));
                    assert_eq!(folded.to_bits(), expected.to_bits(), "fold {number} of {rows} rows of {row}");
                }
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&x), bits(&expected), "step {number} of {rows} rows of {row}");
                assert_eq!(bits(&state), bits(&running));
            }
        }
    }
}
