//! A timeline's analysis as plain Python values: dicts of numbers, names and lists.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::collections::BTreeMap;
use trn3_mem::Space;
use trn3_program::Program;
use trn3_sim::Picos;
use trn3_spec::Target;
use trn3_system::{
    Block, CriticalPath, Curve, LineUse, Resident, Segment, SizeClass, SpillUse, Timeline, engine_names,
};

/// `(file, line)` of an instruction's line number.
fn place(program: &Program, line: u32) -> (String, u32) {
    let (file, line) = program.location(line).unwrap_or(("<unknown>", 0));
    (file.to_string(), line)
}

/// Columns of equal length, by name: compact in JSON and quick to draw from.
fn columns<'py, const N: usize>(
    py: Python<'py>,
    names: [&str; N],
    columns: [Bound<'py, PyList>; N],
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, column) in names.into_iter().zip(columns) {
        dict.set_item(name, column)?;
    }
    Ok(dict)
}

/// `{figure: value}` of each spilled tensor, the one with most time on the critical path first.
pub(crate) fn spills<'py>(py: Python<'py>, program: &Program, uses: &[SpillUse]) -> PyResult<Bound<'py, PyList>> {
    let mut rows: Vec<_> = program.spills.iter().zip(uses).collect();
    rows.sort_by_key(|(spill, found)| (std::cmp::Reverse((found.critical, found.bytes)), spill.tensor));
    let list = PyList::empty(py);
    for (spill, found) in rows {
        let info = &program.tensors[spill.tensor.index()];
        let (declared, needed) = (place(program, info.line), place(program, spill.needed_by));
        let row = PyDict::new(py);
        row.set_item("name", &info.name)?;
        row.set_item("shape", info.shape.to_vec())?;
        row.set_item("dtype", info.dtype.name())?;
        row.set_item("file", declared.0)?;
        row.set_item("line", declared.1)?;
        row.set_item("needed_file", needed.0)?;
        row.set_item("needed_line", needed.1)?;
        row.set_item("stores", found.stores)?;
        row.set_item("reloads", found.reloads)?;
        row.set_item("bytes", found.bytes)?;
        row.set_item("in_flight_ps", found.in_flight.0)?;
        row.set_item("critical_ps", found.critical.0)?;
        list.append(row)?;
    }
    Ok(list)
}

/// `(file, line, {figure: value})` of each source line, the longest in flight first.
pub(crate) fn lines<'py>(
    py: Python<'py>,
    program: &Program,
    lines: &BTreeMap<u32, LineUse>,
) -> PyResult<Bound<'py, PyList>> {
    let mut rows: Vec<_> = lines.iter().map(|(&line, found)| (place(program, line), found)).collect();
    rows.sort_by(|a, b| b.1.in_flight.cmp(&a.1.in_flight).then_with(|| a.0.cmp(&b.0)));
    let list = PyList::empty(py);
    for ((file, line), found) in rows {
        let engines = PyDict::new(py);
        let own = engine_names().into_iter().zip(found.engines).chain([("dma", found.dma)]);
        for (engine, time) in own.filter(|(_, time)| *time > Picos::ZERO) {
            engines.set_item(engine, time.0)?;
        }
        let stalls = PyDict::new(py);
        for &(cause, time) in &found.stalls {
            stalls.set_item(cause, time.0)?;
        }
        let row = PyDict::new(py);
        row.set_item("instructions", found.instructions)?;
        row.set_item("in_flight_ps", found.in_flight.0)?;
        row.set_item("engines_ps", engines)?;
        row.set_item("stalls_ps", stalls)?;
        row.set_item("transfers", found.transfers)?;
        row.set_item("dma_bytes", found.dma_bytes)?;
        row.set_item("critical_ps", found.critical.0)?;
        list.append((file, line, row))?;
    }
    Ok(list)
}

/// What a segment belongs to in a summary: whose work, which step, which instruction, which line.
fn group(program: &Program, timeline: &Timeline, segment: &Segment) -> (&'static str, &'static str, &'static str, u32) {
    let number = segment.instance.map(|at| timeline.schedule.instances.instruction(at as usize));
    let instruction = number.map(|number| &program.instructions[number]);
    let name = instruction.map_or("", |instruction| instruction.opcode.definition().name);
    (segment.resource(), segment.step.name(), name, instruction.map_or(u32::MAX, |instruction| instruction.line))
}

/// The sums of the critical path: by resource, by step, and by both with instruction and line.
pub(crate) fn critical_sums<'py>(
    py: Python<'py>,
    program: &Program,
    timeline: &Timeline,
    path: &CriticalPath,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let named =
        |sums: Vec<(&'static str, Picos)>| sums.into_iter().map(|(name, time)| (name, time.0)).collect::<Vec<_>>();
    dict.set_item("resources", named(path.sums(Segment::resource)))?;
    dict.set_item("steps", named(path.sums(|segment| segment.step.name())))?;
    let mut counts: BTreeMap<_, u64> = BTreeMap::new();
    for segment in &path.segments {
        *counts.entry(group(program, timeline, segment)).or_default() += 1;
    }
    let groups = PyList::empty(py);
    for (key, time) in path.sums(|segment| group(program, timeline, segment)) {
        let (resource, step, instruction, line) = key;
        let (file, line) = place(program, line);
        groups.append((resource, step, instruction, file, line, counts[&key], time.0))?;
    }
    dict.set_item("groups", groups)?;
    dict.set_item("segments", path.segments.len())?;
    Ok(dict)
}

/// The segments of the critical path in order, in columns; neighbours shorter than `shortest` picoseconds are joined, and
/// named after the longest of them.
pub(crate) fn critical_segments<'py>(
    py: Python<'py>,
    program: &Program,
    timeline: &Timeline,
    path: &CriticalPath,
    shortest: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let mut joined: Vec<(Picos, Picos, &Segment, u32)> = Vec::new();
    for segment in &path.segments {
        match joined.last_mut() {
            Some((start, end, longest, count)) if (segment.end - *start).0 < shortest => {
                *end = segment.end;
                *count += 1;
                if segment.span() > longest.span() {
                    *longest = segment;
                }
            }
            _ => joined.push((segment.start, segment.end, segment, 1)),
        }
    }
    let [starts, ends, resources, steps, names, instances, files, lines, counts] =
        std::array::from_fn(|_| PyList::empty(py));
    for (start, end, segment, count) in joined {
        let (resource, step, name, line) = group(program, timeline, segment);
        let (file, line) = place(program, line);
        starts.append(start.0)?;
        ends.append(end.0)?;
        resources.append(resource)?;
        steps.append(step)?;
        names.append(name)?;
        instances.append(segment.instance)?;
        files.append(file)?;
        lines.append(line)?;
        counts.append(count)?;
    }
    columns(
        py,
        ["start_ps", "end_ps", "resource", "step", "instruction", "instance", "file", "line", "count"],
        [starts, ends, resources, steps, names, instances, files, lines, counts],
    )
}

/// `{class: (count, bytes)}`: class n holds sizes from 2^n on.
fn classes<'py>(py: Python<'py>, sizes: &BTreeMap<u32, SizeClass>) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (class, found) in sizes {
        dict.set_item(class, (found.count, found.bytes))?;
    }
    Ok(dict)
}

/// Sizes of transfers and descriptors, and how busy each DMA engine was.
pub(crate) fn transfers<'py>(py: Python<'py>, timeline: &Timeline) -> PyResult<Bound<'py, PyDict>> {
    let sizes = timeline.transfer_sizes();
    let dict = PyDict::new(py);
    dict.set_item("transfers", classes(py, &sizes.transfers)?)?;
    dict.set_item("descriptors", classes(py, &sizes.descriptors)?)?;
    dict.set_item("busy_ps", timeline.dma_busy().into_iter().map(|busy| busy.0).collect::<Vec<_>>())?;
    Ok(dict)
}

/// The run's point under the roofline.
pub(crate) fn roofline<'py>(
    py: Python<'py>,
    program: &Program,
    timeline: &Timeline,
    target: &Target,
) -> PyResult<Bound<'py, PyDict>> {
    let found = timeline.roofline(program, target);
    let dict = PyDict::new(py);
    dict.set_item("flops_per_byte", found.flops_per_byte)?;
    dict.set_item("attained_flops_per_s", found.attained_flops_per_s)?;
    dict.set_item("roof_flops_per_s", found.roof_flops_per_s())?;
    dict.set_item("peak_flops_per_s", found.peak_flops_per_s)?;
    dict.set_item("hbm_bytes_per_s", found.hbm_bytes_per_s)?;
    dict.set_item("ridge_flops_per_byte", found.ridge_flops_per_byte())?;
    dict.set_item("bound", found.bound())?;
    let formats = found.formats.iter().map(|format| (format.dtype.name(), format.flops, format.peak_flops_per_s));
    dict.set_item("formats", formats.collect::<Vec<_>>())?;
    Ok(dict)
}

/// At most about `limit` points of a curve: of those that lie close together the highest stays, so no peak is lost.
fn thinned(curve: &Curve, end: u64, limit: usize) -> Vec<(u64, u64)> {
    if curve.points.len() <= limit {
        return curve.points.clone();
    }
    let bin = |at: u64| (u128::from(at) * limit as u128 / u128::from(end.max(1))) as u64;
    let highest =
        |points: &[(u64, u64)]| points.iter().copied().max_by_key(|&(at, bytes)| (bytes, std::cmp::Reverse(at)));
    curve.points.chunk_by(|a, b| bin(a.0) == bin(b.0)).filter_map(highest).collect()
}

/// Keeps the `limit` tensors that take the most bytes for the longest time; of about equal ones, some of every part of the
/// run.
fn keep_largest(residents: &mut Vec<Resident>, limit: usize) {
    if residents.len() <= limit {
        return;
    }
    residents.sort_by_key(|resident| {
        let area = u128::from(resident.bytes) * u128::from(resident.end.saturating_sub(resident.start).0);
        // Multiples of the golden ratio fall evenly into any range.
        (std::cmp::Reverse(area.max(1).ilog2()), resident.tensor.wrapping_mul(0x9E37_79B9))
    });
    residents.truncate(limit);
    residents.sort_by_key(|resident| (resident.start, resident.address, resident.tensor));
}

/// What lies in SBUF or PSUM: capacity, the peak and its owners, curves, and the `limit` tensors that take the most bytes
/// for the longest time, in columns.
pub(crate) fn occupancy<'py>(
    py: Python<'py>,
    program: &Program,
    timeline: &Timeline,
    target: &Target,
    space: Space,
    limit: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let mut found = timeline.occupancy(program, target, space);
    let dict = PyDict::new(py);
    dict.set_item("capacity", found.capacity)?;
    dict.set_item("peak_bytes", found.time.peak_bytes)?;
    dict.set_item("peak_ps", found.time.peak_at)?;
    dict.set_item("order_peak_bytes", found.order.peak_bytes)?;
    dict.set_item("order_peak_instruction", found.order.peak_at)?;
    dict.set_item("time", thinned(&found.time, timeline.total.0, limit))?;
    dict.set_item("order", thinned(&found.order, program.instructions.len() as u64, limit))?;
    dict.set_item("tensor_count", found.residents.len())?;
    let owners = PyList::empty(py);
    if found.time.peak_bytes > 0 {
        for owner in found.owners(Picos(found.time.peak_at)) {
            let info = &program.tensors[owner.tensor as usize];
            let (file, line) = place(program, info.line);
            let shape: Vec<u32> = info.shape.iter().copied().collect();
            owners.append((&info.name, shape, info.dtype.name(), owner.address, owner.bytes, file, line))?;
        }
    }
    dict.set_item("owners", owners)?;
    keep_largest(&mut found.residents, limit);
    let [names, addresses, bytes, starts, ends, files, lines] = std::array::from_fn(|_| PyList::empty(py));
    for resident in &found.residents {
        let info = &program.tensors[resident.tensor as usize];
        let (file, line) = place(program, info.line);
        names.append(&info.name)?;
        addresses.append(resident.address)?;
        bytes.append(resident.bytes)?;
        starts.append(resident.start.0)?;
        ends.append(resident.end.0)?;
        files.append(file)?;
        lines.append(line)?;
    }
    let tensors = columns(
        py,
        ["name", "address", "bytes", "start_ps", "end_ps", "file", "line"],
        [names, addresses, bytes, starts, ends, files, lines],
    )?;
    dict.set_item("tensors", tensors)?;
    Ok(dict)
}

/// Rows of the timeline with their blocks in columns.
pub(crate) fn blocks<'py>(
    py: Python<'py>,
    program: &Program,
    timeline: &Timeline,
    limit: usize,
) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for (row, blocks) in timeline.blocks(program, limit) {
        let of = |block: &Block| {
            let number = timeline.schedule.instances.instruction(block.instance as usize);
            &program.instructions[number]
        };
        let column = |value: &dyn Fn(&Block) -> u64| PyList::new(py, blocks.iter().map(value));
        let names = PyList::new(py, blocks.iter().map(|block| of(block).opcode.definition().name))?;
        let labels = PyList::new(py, blocks.iter().map(|block| program.names[of(block).name as usize].as_str()))?;
        let places: Vec<(String, u32)> = blocks.iter().map(|block| place(program, of(block).line)).collect();
        let causes = PyList::new(py, blocks.iter().map(|block| block.cause))?;
        let dict = columns(
            py,
            ["start_ps", "end_ps", "busy_ps", "count", "instance", "result_ps", "stall_ps", "bytes"],
            [
                column(&|block| block.start.0)?,
                column(&|block| block.end.0)?,
                column(&|block| block.busy.0)?,
                column(&|block| u64::from(block.count))?,
                column(&|block| u64::from(block.instance))?,
                column(&|block| block.result.0)?,
                column(&|block| block.stall.0)?,
                column(&|block| block.bytes)?,
            ],
        )?;
        dict.set_item("instruction", names)?;
        dict.set_item("label", labels)?;
        dict.set_item("cause", causes)?;
        dict.set_item("file", PyList::new(py, places.iter().map(|(file, _)| file))?)?;
        dict.set_item("line", PyList::new(py, places.iter().map(|(_, line)| line))?)?;
        rows.append((row.name(), dict))?;
    }
    Ok(rows)
}
