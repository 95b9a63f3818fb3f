//! Stream cycles of the elementwise instructions of the Vector, Scalar and GpSimd engines.
//!
//! Which performance mode an instruction gets follows from its operands' memories, widths and strides; what a mode
//! costs is in the hardware table (`vector.stream.*`, `scalar.stream.*`, `gpsimd.stream.*`) with its source. The time to
//! start an access to SBUF or PSUM (`sequencer.access_setup_cycles`) is in the latencies of the table and never added.

use crate::cost::{Cost, Stream};
use crate::instruction::{Engine, Instruction, Operand};
use crate::machine::Tables;
use crate::operator::Operator;
use trn3_mem::Space;
use trn3_num::Dtype;
use trn3_spec::{ClassTiming, PairStream, Ratio, Target};

fn timed(stream: u64, timing: &ClassTiming) -> Cost {
    Cost::Stream(Stream {
        stream,
        latency: u64::from(timing.latency_cycles),
        overhead: u64::from(timing.overhead_cycles),
    })
}

/// An instruction of GpSimdE that streams for so many cycles once it has started.
pub(crate) fn on_gpsimd(stream: u64, target: &Target) -> Cost {
    let gpsimd = &target.core.gpsimd;
    Cost::Stream(Stream {
        stream: u64::from(gpsimd.start_cycles) + stream,
        latency: u64::from(gpsimd.latency_cycles),
        overhead: u64::from(gpsimd.overhead_cycles),
    })
}

fn in_sbuf(operand: &Operand, tables: &Tables<'_>) -> bool {
    tables.tensor(operand).space == Space::Sbuf
}

fn bytes(operand: &Operand, tables: &Tables<'_>) -> usize {
    tables.pattern(operand).dtype.size_bytes()
}

fn is_contiguous(operand: &Operand, tables: &Tables<'_>) -> bool {
    tables.pattern(operand).dims.last().is_some_and(|dim| dim.stride == 1 || dim.count == 1)
}

/// Contiguous BF16 in SBUF, for which some operators are fast on every generation.
fn is_fast_bf16(operand: &Operand, tables: &Tables<'_>) -> bool {
    let is_bf16 = tables.pattern(operand).dtype == Dtype::Bfloat16;
    is_bf16 && in_sbuf(operand, tables) && is_contiguous(operand, tables)
}

/// Cycles of `n` elements; an innermost stride above the limit multiplies them.
fn cycles(n: u64, rate: Ratio, operands: &[&Operand], tables: &Tables<'_>, target: &Target) -> u64 {
    let stream = &target.core.vector.stream;
    let far = operands.iter().any(|operand| {
        let inner = tables.pattern(operand).dims.last().map_or(0, |dim| dim.stride.unsigned_abs());
        inner * bytes(operand, tables) as u64 > u64::from(stream.stride_bytes_max)
    });
    let cycles = rate.times_ceil(n);
    if far { (cycles as f64 * stream.large_stride_ratio).ceil() as u64 } else { cycles }
}

/// Cycles an element of a copy or scalar operation on VectorE.
fn vector_rate(dst: &Operand, src: &Operand, tables: &Tables<'_>, target: &Target) -> Ratio {
    let stream = &target.core.vector.stream;
    let modes = match bytes(dst, tables).max(bytes(src, tables)) {
        1 => &stream.copy_bits8,
        2 => &stream.copy_bits16,
        _ => &stream.copy_bits32,
    };
    let both = in_sbuf(dst, tables) && in_sbuf(src, tables);
    let either = in_sbuf(dst, tables) || in_sbuf(src, tables);
    match (is_contiguous(dst, tables) && is_contiguous(src, tables), both, either) {
        (true, true, _) => modes.sbuf_contiguous_cycles_per_element,
        (false, true, _) => modes.sbuf_strided_cycles_per_element,
        (true, false, true) => modes.psum_contiguous_cycles_per_element,
        _ => modes.other_cycles_per_element,
    }
}

/// Cycles an element of a copy or scalar operation on ScalarE.
fn scalar_rate(dst: &Operand, src: &Operand, tables: &Tables<'_>, target: &Target) -> Ratio {
    let stream = &target.core.scalar.stream;
    match bytes(dst, tables).max(bytes(src, tables)) {
        1 => stream.copy_bits8_cycles_per_element,
        2 => stream.copy_bits16_cycles_per_element,
        _ => stream.copy_bits32_cycles_per_element,
    }
}

/// Latency and overhead of a copy on ScalarE.
pub(crate) fn scalar_copy_timing<'a>(
    dst: &Operand,
    src: &Operand,
    tables: &Tables<'_>,
    target: &'a Target,
) -> &'a ClassTiming {
    let scalar = &target.core.scalar;
    let [from, to] = [src, dst].map(|operand| tables.pattern(operand).dtype);
    if from == Dtype::Bfloat16 && to != from { &scalar.cast_from_bf16 } else { &scalar.copy }
}

pub(crate) fn tensor_copy(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let [dst, src, ..] = &instruction.operands;
    let n = tables.geometry(dst).row_elements() as u64;
    let stream = |rate| cycles(n, rate, &[dst, src], tables, target);
    match instruction.engine {
        Engine::Gpsimd => on_gpsimd(stream(target.core.gpsimd.stream.copy_cycles_per_element), target),
        Engine::Scalar => {
            timed(stream(scalar_rate(dst, src, tables, target)), scalar_copy_timing(dst, src, tables, target))
        }
        _ => timed(stream(vector_rate(dst, src, tables, target)), &target.core.vector.copy),
    }
}

pub(crate) fn tensor_scalar(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let [dst, src, operand0, operand1, ..] = &instruction.operands;
    let n = tables.geometry(dst).row_elements() as u64;
    let stream = |rate| cycles(n, rate, &[dst, src], tables, target);
    match instruction.engine {
        Engine::Gpsimd => on_gpsimd(stream(target.core.gpsimd.stream.rsqrt_cycles_per_element), target),
        Engine::Scalar => timed(stream(scalar_rate(dst, src, tables, target)), &target.core.scalar.copy),
        _ => {
            let vector = &target.core.vector;
            let vector_operand = operand0.is_some() || operand1.is_some();
            let timing = if vector_operand { &vector.tensor_scalar_vector_operand } else { &vector.copy };
            timed(stream(vector_rate(dst, src, tables, target)), timing)
        }
    }
}

pub(crate) fn tensor_tensor(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let [dst, data1, data2, ..] = &instruction.operands;
    let n = tables.geometry(dst).row_elements() as u64;
    let operands = [dst, data1, data2];
    let stream = |rate| cycles(n, rate, &operands, tables, target);
    if instruction.engine == Engine::Gpsimd {
        let rates = &target.core.gpsimd.stream;
        let power = instruction.constants[0] == Operator::Power as u32;
        let rate = if power { rates.power_cycles_per_element } else { rates.tensor_tensor_cycles_per_element };
        return on_gpsimd(stream(rate), target);
    }
    let operator = Operator::from_code(instruction.constants[0] as u8);
    let is_fast = matches!(operator, Operator::Add | Operator::Subtract | Operator::Multiply);
    let rate = pair_rate(&target.core.vector.stream.tensor_tensor, &operands, is_fast, tables);
    timed(stream(rate), &target.core.vector.tensor_tensor)
}

pub(crate) fn memset(instruction: &Instruction, tables: &Tables<'_>, target: &Target) -> Cost {
    let dst = &instruction.operands[0];
    let n = tables.geometry(dst).row_elements() as u64;
    let stream = |rate| cycles(n, rate, &[dst], tables, target);
    if instruction.engine == Engine::Gpsimd {
        return on_gpsimd(stream(target.core.gpsimd.stream.copy_cycles_per_element), target);
    }
    let vector = &target.core.vector;
    let is_float16 = matches!(tables.pattern(dst).dtype, Dtype::Bfloat16 | Dtype::Float16);
    let rate = if is_float16 && instruction.constants[0] == 0 {
        vector.stream.memset_zero_bits16_cycles_per_element
    } else if bytes(dst, tables) <= 2 {
        vector.stream.memset_bits16_cycles_per_element
    } else {
        vector.stream.memset_bits32_cycles_per_element
    };
    timed(stream(rate), &vector.copy)
}

/// An instruction of VectorE that streams `operands`, the first one first, at a rate.
pub(crate) fn vector(
    operands: &[&Operand],
    rate: Ratio,
    timing: &ClassTiming,
    tables: &Tables<'_>,
    target: &Target,
) -> Cost {
    let n = tables.geometry(operands[0]).row_elements() as u64;
    timed(cycles(n, rate, operands, tables, target), timing)
}

/// Cycles an element of an instruction with two streamed inputs: `[dst, first, second]`. `is_fast` says whether its
/// operators have the fast path of BF16.
pub(crate) fn pair_rate(rates: &PairStream, operands: &[&Operand; 3], is_fast: bool, tables: &Tables<'_>) -> Ratio {
    let [_, first, second] = operands;
    if !in_sbuf(first, tables) || !in_sbuf(second, tables) {
        rates.psum_cycles_per_element
    } else if is_fast && operands.iter().all(|operand| is_fast_bf16(operand, tables)) {
        rates.sbuf_bf16_fast_cycles_per_element
    } else if operands.iter().all(|operand| bytes(operand, tables) == 2) {
        rates.sbuf_bits16_cycles_per_element
    } else {
        rates.sbuf_bits32_cycles_per_element
    }
}
