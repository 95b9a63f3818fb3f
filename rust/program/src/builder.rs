//! The recorder: takes instructions one at a time and knows what they have written.

mod addresses;
mod control;
mod pair;
mod races;
mod spilling;
mod unwritten;

use self::addresses::Holdings;
use self::control::Loops;
pub use self::pair::PairError;
use self::unwritten::Bytes;
use crate::dependencies;
use crate::liveness;
use crate::placement;
use crate::program::{Line, Program, StoredFinding};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use trn3_isa::{
    Accumulate, Argument, Arguments, Context, Finding, Instruction, Intern, Kind, Opcode, Operand, PatternId,
    RecordOptions, Strictness, Tables, Uninitialized, accumulate_of, set_accumulate,
};
use trn3_mem::{Coverage, Fault, Pattern, RANK_MAX, Role, Shape, Space, TensorId, TensorInfo, View, Violation};
use trn3_num::Dtype;
use trn3_spec::Target;

/// Bytes written before an instruction runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fill {
    /// The instruction.
    pub before: u32,
    /// The tensor.
    pub tensor: TensorId,
    /// What is written.
    pub value: FillValue,
    /// The data type that it is written in.
    pub dtype: Dtype,
    /// First byte and length of each run; none means the whole tensor.
    pub runs: Vec<(u64, u64)>,
}

/// What a fill writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FillValue {
    /// What unwritten memory reads as: NaN; for integers what the options say; 0 for other types without NaN.
    Poison,
    /// The bytes of another tensor at the same addresses, which were written later.
    Held(TensorId),
    /// -0, to which any sum can be added without changing a bit.
    NegativeZero,
}

impl FillValue {
    /// Which fills of one moment come first: what a tensor starts as, then what it takes over.
    fn rank(self) -> u8 {
        match self {
            FillValue::Poison => 0,
            FillValue::Held(_) => 1,
            FillValue::NegativeZero => 2,
        }
    }

    /// The bytes of one element, given what unwritten integers read as.
    pub fn element(self, dtype: Dtype, integer: u32) -> [u8; 4] {
        let word: u32 = match (self, dtype) {
            (FillValue::NegativeZero, Dtype::Float32) => 0x8000_0000,
            (FillValue::NegativeZero, _) => 0x8000,
            (FillValue::Poison, Dtype::Float32 | Dtype::Tfloat32) => 0x7FC0_0000,
            (FillValue::Poison, Dtype::Bfloat16) => 0x7FC0,
            (FillValue::Poison, Dtype::Float16) => 0x7E00,
            (FillValue::Poison, Dtype::Float8E5m2) => 0x7E,
            (FillValue::Poison, Dtype::Float8E4m3 | Dtype::Float8E3m4) => 0x7C,
            (FillValue::Poison, Dtype::Float8E4m3fn) => 0x7F,
            (FillValue::Poison, Dtype::Float8E8m0fnu) => 0xFF,
            (FillValue::Poison, Dtype::Float8E5m2X4) => 0x7E7E_7E7E,
            (FillValue::Poison, Dtype::Float8E4m3fnX4) => 0x7F7F_7F7F,
            (FillValue::Poison, dtype) if dtype.is_integer() && dtype != Dtype::Bool => integer,
            (FillValue::Poison | FillValue::Held(_), _) => 0,
        };
        word.to_le_bytes()
    }
}

/// A tensor to be declared.
#[derive(Debug, Clone)]
pub struct TensorRequest<'a> {
    /// Name; empty for a generated one.
    pub name: &'a str,
    /// Shape, the partition dimension first on chip.
    pub shape: &'a [i64],
    /// Element type.
    pub dtype: Dtype,
    /// Where it lives.
    pub space: Space,
    /// Input, constant or internal.
    pub role: Role,
    /// Partition and byte at which it is to start.
    pub address: Option<(i64, i64)>,
    /// Line that declares it.
    pub line: u32,
}

impl Default for TensorRequest<'_> {
    fn default() -> Self {
        TensorRequest {
            name: "",
            shape: &[],
            dtype: Dtype::Float32,
            space: Space::Sbuf,
            role: Role::Internal,
            address: None,
            line: 0,
        }
    }
}

#[derive(Debug, Default)]
struct Patterns {
    table: Vec<Pattern>,
    numbers: HashMap<Pattern, PatternId>,
}

impl Intern for Patterns {
    fn intern(&mut self, view: &View) -> PatternId {
        let pattern = view.pattern();
        if let Some(&number) = self.numbers.get(&pattern) {
            return number;
        }
        let number = PatternId(self.table.len() as u32);
        self.table.push(pattern.clone());
        self.numbers.insert(pattern, number);
        number
    }
}

/// Records a kernel.
#[derive(Debug)]
pub struct Builder {
    target: Target,
    options: RecordOptions,
    kernel: String,
    tensors: Vec<TensorInfo>,
    bytes: Vec<Bytes>,
    names: HashSet<String>,
    patterns: Patterns,
    instructions: Vec<Instruction>,
    labels: Vec<String>,
    label_numbers: HashMap<String, u32>,
    files: Vec<String>,
    lines: Vec<Line>,
    line_numbers: HashMap<Line, u32>,
    inputs: Vec<TensorId>,
    constants: Vec<Vec<u8>>,
    fills: Vec<Fill>,
    findings: Vec<Finding>,
    hbm_bytes: u64,
    loops: Loops,
    holdings: Holdings,
    /// Whether the cores of a logical core have met: what the other wrote to shared HBM may be there.
    met: bool,
}

impl Builder {
    /// An empty recording.
    pub fn new(kernel: &str, target: Target, options: RecordOptions) -> Builder {
        let unknown = Line { file: 0, line: 0 };
        Builder {
            target,
            options,
            kernel: kernel.into(),
            tensors: Vec::new(),
            bytes: Vec::new(),
            names: HashSet::new(),
            patterns: Patterns::default(),
            instructions: Vec::new(),
            labels: vec![String::new()],
            label_numbers: HashMap::new(),
            files: vec!["<unknown>".into()],
            lines: vec![unknown],
            line_numbers: HashMap::from([(unknown, 0)]),
            inputs: Vec::new(),
            constants: Vec::new(),
            fills: Vec::new(),
            findings: Vec::new(),
            hbm_bytes: 0,
            loops: Loops::default(),
            holdings: Holdings::default(),
            met: false,
        }
    }

    /// The hardware.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Strictness and version.
    pub fn options(&self) -> RecordOptions {
        self.options
    }

    /// Adds a source file and gives its number.
    pub fn file(&mut self, name: &str) -> u32 {
        self.files.push(name.into());
        (self.files.len() - 1) as u32
    }

    /// The number of a source line.
    pub fn line(&mut self, line: Line) -> u32 {
        *self.line_numbers.entry(line).or_insert_with(|| {
            self.lines.push(line);
            (self.lines.len() - 1) as u32
        })
    }

    /// File and number of a line.
    pub fn location(&self, line: u32) -> (&str, u32) {
        let line = self.lines[line as usize];
        (&self.files[line.file as usize], line.line)
    }

    /// Instructions recorded so far.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// Fills recorded so far.
    pub fn fills(&self) -> &[Fill] {
        &self.fills
    }

    /// What instructions refer to by number.
    pub fn tables(&self) -> Tables<'_> {
        Tables { patterns: &self.patterns.table, tensors: &self.tensors }
    }

    /// The declaration of a tensor.
    pub fn tensor_info(&self, tensor: TensorId) -> &TensorInfo {
        &self.tensors[tensor.index()]
    }

    /// The bytes of a constant.
    pub fn constant(&self, number: u32) -> &[u8] {
        &self.constants[number as usize]
    }

    /// Declares a tensor.
    ///
    /// # Errors
    /// A shape that the space does not have, a name that is taken, or more bytes than the memory.
    pub fn tensor(&mut self, request: &TensorRequest<'_>) -> Result<View, Violation> {
        let info = self.checked(request).map_err(|violation| violation.in_instruction("ndarray"))?;
        self.check_dtype(&info)?;
        let id = TensorId(self.tensors.len() as u32);
        let filled = request.role != Role::Internal;
        if let Role::Input(_) = request.role {
            self.inputs.push(id);
        }
        self.names.insert(info.name.clone());
        self.bytes.push(Bytes {
            written: if filled { Coverage::Full } else { Coverage::Empty },
            product: Coverage::Empty,
            taint: None,
            cleaned: Coverage::Empty,
            poisoned: false,
        });
        let view = info.view(id);
        self.tensors.push(info);
        self.loops.declared();
        Ok(view)
    }

    /// Declares a tensor whose bytes the Program carries.
    ///
    /// # Errors
    /// As [`Builder::tensor`].
    pub fn constant_tensor(
        &mut self,
        name: &str,
        shape: &[i64],
        dtype: Dtype,
        bytes: Vec<u8>,
        line: u32,
    ) -> Result<View, Violation> {
        let role = Role::Constant(self.constants.len() as u32);
        let space = Space::SharedHbm;
        let view = self.tensor(&TensorRequest { name, shape, dtype, space, role, line, ..TensorRequest::default() })?;
        self.constants.push(bytes);
        Ok(view)
    }

    /// The tensor that a kernel returns in place of `tensor`: a copy, if the Program carries its values.
    ///
    /// # Errors
    /// HBM has no place for the copy.
    pub fn output_of(&mut self, tensor: TensorId) -> Result<TensorId, Violation> {
        let info = &self.tensors[tensor.index()];
        if !matches!(info.role, Role::Constant(_)) {
            return Ok(tensor);
        }
        let (dtype, line, source) = (info.dtype, info.line, info.view(tensor));
        let shape: Vec<i64> = info.shape.iter().map(|&count| i64::from(count)).collect();
        let space = Space::SharedHbm;
        let request = TensorRequest { shape: &shape, dtype, space, line, ..TensorRequest::default() };
        let copy = self.tensor(&request)?;
        let arguments = [Argument::View(Box::new(copy.clone())), Argument::View(Box::new(source))];
        self.emit(Opcode::DmaCopy, &arguments, "", line)?;
        Ok(copy.tensor)
    }

    fn checked(&mut self, request: &TensorRequest<'_>) -> Result<TensorInfo, Violation> {
        let &TensorRequest { name, shape, dtype, space, role, address, line } = request;
        let rank_min = if space.is_on_chip() { 2 } else { 1 };
        let sizes: Option<Shape> = shape.iter().map(|&count| u32::try_from(count).ok().filter(|&c| c > 0)).collect();
        let Some(sizes) = sizes.filter(|sizes| (rank_min..=RANK_MAX).contains(&sizes.len())) else {
            return Err(Violation::new(
                "tensor.shape",
                "shape",
                format!("is {shape:?} in {}", space.name()),
                format!("{rank_min} to {RANK_MAX} dimensions, each from 1 to 4294967295"),
                "on chip, dimension 0 is the partitions and at least one free dimension follows",
            ));
        };
        let name = if name.is_empty() { self.unused_name() } else { name.to_string() };
        if self.names.contains(&name) {
            return Err(Violation::new(
                "tensor.name_unique",
                "name",
                format!("is '{name}'"),
                "a tensor of the kernel has that name already",
                "give each tensor a name of its own, or none",
            ));
        }
        let mut info = TensorInfo { name, dtype, shape: sizes, space, role, address: None, line };
        self.check_capacity(&info)?;
        if let Some(address) = address {
            info.address = Some(self.check_address(&info, address)?);
        }
        Ok(info)
    }

    /// Reports a data type that the core's compiler does not know; the arithmetic is the same on every generation.
    fn check_dtype(&mut self, info: &TensorInfo) -> Result<(), Violation> {
        let can = &self.target.core.capability;
        let has = match info.dtype {
            Dtype::Float8E4m3fn => can.matmul_e4m3fn,
            Dtype::Float8E8m0fnu => can.matmul_mx,
            dtype => can.matmul_mx || !dtype.is_packed(),
        };
        if has {
            return Ok(());
        }
        let violation = Violation::new(
            "tensor.dtype_generation",
            "dtype",
            format!("is {}", info.dtype.name()),
            format!("{} has none: the type exists from NeuronCore-v4 (trn3) on", self.target.name),
            "use another type, or target trn3",
        )
        .of(Fault::Unsupported)
        .in_instruction("ndarray");
        if self.options.checks >= Strictness::Hardware {
            return Err(violation);
        }
        self.findings.push(Finding { violation, line: info.line });
        Ok(())
    }

    /// A name that no tensor has, not even one that the user named like ours.
    fn unused_name(&self) -> String {
        let numbers = self.tensors.len()..;
        let mut names = numbers.map(|number| format!("tensor_{number}"));
        names.find(|name| !self.names.contains(name)).expect("there are more numbers than tensors")
    }

    fn check_capacity(&mut self, info: &TensorInfo) -> Result<(), Violation> {
        let core = &self.target.core;
        if info.space.is_on_chip() {
            let limit = core.sbuf.partitions;
            if info.partitions() > limit {
                return Err(Violation::new(
                    "partition.count_max",
                    "shape",
                    format!("{:?} has {} partitions", info.shape.as_slice(), info.partitions()),
                    format!("limit {limit} on {}", self.target.name),
                    "split the tensor along its partition dimension",
                ));
            }
        }
        // Any five 32-bit counts may have been asked for: the product is worked out where it cannot wrap.
        let sizes = &info.shape[usize::from(info.space.is_on_chip())..];
        let elements = sizes.iter().try_fold(1u128, |product, &count| product.checked_mul(u128::from(count)));
        let size = elements.unwrap_or(u128::MAX).saturating_mul(info.dtype.size_bytes() as u128);
        let (rule, bytes, limit, unit) = match info.space {
            Space::Sbuf => ("capacity.sbuf", size, core.sbuf.usable_bytes(), " a partition"),
            Space::Psum => ("capacity.psum", size, core.psum.partition_bytes(), " a partition"),
            Space::PrivateHbm | Space::SharedHbm => {
                let bytes = size.saturating_add(u128::from(self.hbm_bytes));
                ("capacity.hbm", bytes, self.target.chip.hbm.capacity_bytes, "")
            }
        };
        if bytes > u128::from(limit) {
            return Err(Violation::new(
                rule,
                "shape",
                format!(
                    "{:?} of {} needs {bytes} bytes{unit} of {}",
                    info.shape.as_slice(),
                    info.dtype.name(),
                    info.space.name()
                ),
                format!("limit {limit} on {}", self.target.name),
                "use smaller tiles",
            )
            .of(Fault::Capacity));
        }
        if !info.space.is_on_chip() {
            self.hbm_bytes += info.bytes();
        }
        Ok(())
    }

    /// Records an instruction.
    ///
    /// # Errors
    /// A broken rule; nothing is recorded then.
    pub fn emit(&mut self, opcode: Opcode, values: &[Argument], label: &str, line: u32) -> Result<(), Violation> {
        let definition = opcode.definition();
        let arguments = Arguments::new(definition.parameters, values);
        let mut before = Vec::new();
        let mut context = Context {
            target: &self.target,
            options: self.options,
            patterns: &mut self.patterns,
            findings: &mut self.findings,
            before: &mut before,
            line,
        };
        let mut instruction = (definition.build)(&arguments, &mut context)
            .map_err(|violation| violation.in_instruction(definition.name))?;
        instruction.line = line;
        if !label.is_empty() {
            instruction.name = self.label(label);
        }
        for earlier in &mut before {
            (earlier.line, earlier.name) = (line, instruction.name);
        }
        for finding in self.findings.iter_mut().rev().take_while(|finding| finding.violation.instruction.is_empty()) {
            finding.violation.instruction = definition.name;
        }
        for each in before.iter().chain([&instruction]) {
            self.settle(each);
        }
        if matches!(opcode, Opcode::NcMatmul | Opcode::NcMatmulMx) {
            self.resolve_accumulation(&mut instruction)?;
        }
        self.met |= opcode.is_meeting();
        for each in before.iter().chain([&instruction]) {
            self.check_control(each)?;
            if self.options.uninitialized == Uninitialized::Stop {
                self.check_initialized(each)?;
            }
        }
        if definition.kind != Kind::Barrier {
            self.note_accesses(&before, &instruction)?;
        }
        self.instructions.extend(before);
        self.instructions.push(instruction);
        Ok(())
    }

    fn label(&mut self, label: &str) -> u32 {
        if let Some(&number) = self.label_numbers.get(label) {
            return number;
        }
        let number = self.labels.len() as u32;
        self.labels.push(label.into());
        self.label_numbers.insert(label.into(), number);
        number
    }

    fn view_of(&self, operand: &Operand) -> View {
        let info = &self.tensors[operand.tensor.index()];
        let pattern = &self.patterns.table[operand.pattern.0 as usize];
        let mut view = info.view(operand.tensor);
        let (old, new) = (info.dtype.size_bytes() as i64, pattern.dtype.size_bytes() as i64);
        view.partition_elements = view.partition_elements * old / new;
        view.size = view.size * old / new;
        view.dtype = pattern.dtype;
        view.dims = pattern.dims.clone();
        view.offset = operand.offset;
        view.scalar = pattern.scalar;
        view
    }

    /// Decides what a product does with its PSUM tile, byte by byte if it must.
    fn resolve_accumulation(&mut self, instruction: &mut Instruction) -> Result<(), Violation> {
        let operand = instruction.operands[0];
        let view = self.view_of(&operand);
        let id = operand.tensor.index();
        match accumulate_of(instruction) {
            Accumulate::Overwrite => {}
            Accumulate::Auto if instruction.is_dynamic(0) => {
                // Which bytes it writes is not known: the first product of the tensor overwrites.
                let first = self.bytes[id].product == Coverage::Empty;
                set_accumulate(instruction, if first { Accumulate::Overwrite } else { Accumulate::Add });
            }
            Accumulate::Add => {
                if !self.bytes[id].product.covers(view.byte_runs()) {
                    let violation = Violation::new(
                        "matmul.accumulate_unwritten",
                        "accumulate",
                        "is True on PSUM that no matrix product has written",
                        "undefined on hardware; here the product is added to what is there",
                        "give accumulate=False or None for the first product of a group",
                    )
                    .in_instruction(instruction.opcode.definition().name);
                    if self.options.checks >= Strictness::Documented {
                        return Err(violation);
                    }
                    self.findings.push(Finding { violation, line: instruction.line });
                }
            }
            Accumulate::Auto if self.bytes[id].product.covers(view.byte_runs()) => {
                set_accumulate(instruction, Accumulate::Add);
            }
            Accumulate::Auto if !self.bytes[id].product.touches(view.byte_runs()) => {
                set_accumulate(instruction, Accumulate::Overwrite);
            }
            Accumulate::Auto => {
                let size = view.dtype.size_bytes() as u64;
                let product = &self.bytes[id].product;
                let elements =
                    view.byte_runs().flat_map(|(start, length)| (start..start + length).step_by(size as usize));
                let runs = elements.filter(|&at| !product.contains(at)).map(|at| (at, size)).collect::<Vec<_>>();
                let bytes = self.tensors[id].bytes();
                self.bytes[id].written.mark(bytes, runs.iter().copied());
                let before = self.instructions.len() as u32;
                let (tensor, dtype) = (operand.tensor, view.dtype);
                self.fills.push(Fill { before, tensor, value: FillValue::NegativeZero, dtype, runs });
                set_accumulate(instruction, Accumulate::Add);
            }
        }
        let bytes = self.tensors[id].bytes();
        self.bytes[id].product.mark(bytes, view.byte_runs());
        Ok(())
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The tensors do not fit, or an output is not written and the checks are strict: the finding, with its file and line.
    pub fn finish(self, outputs: &[TensorId], specialised: bool) -> Result<Program, Box<(Finding, String, u32)>> {
        let (files, lines) = (self.files.clone(), self.lines.clone());
        self.finished(outputs, specialised).map_err(|finding| {
            let line = lines[finding.line as usize];
            Box::new((*finding, files[line.file as usize].clone(), line.line))
        })
    }

    fn finished(mut self, outputs: &[TensorId], specialised: bool) -> Result<Program, Box<Finding>> {
        for &output in outputs {
            let state = &self.bytes[output.index()];
            let size = self.tensors[output.index()].bytes();
            if state.written != Coverage::Full {
                let missing = size - state.written.count(size);
                let info = &self.tensors[output.index()];
                let violation = Violation::new(
                    "output.unwritten",
                    info.name.clone(),
                    format!("{missing} of {size} bytes are never written"),
                    "an output is written in full",
                    "store every part of the output",
                )
                .of(Fault::Uninitialized)
                .in_instruction("return");
                let finding = Finding { violation, line: info.line };
                if self.options.checks >= Strictness::Documented {
                    return Err(Box::new(finding));
                }
                self.findings.push(finding);
                self.poison(output);
            }
        }
        self.assign_sequencers();
        let loops = std::mem::take(&mut self.loops.all);
        let lives = liveness::lifetimes(self.tensors.len(), &self.instructions, &loops, &self.fills);
        let mut is_output = vec![false; self.tensors.len()];
        outputs.iter().for_each(|output| is_output[output.index()] = true);
        let placed = placement::place(&self.target, &self.tensors, &lives, &is_output, &[], self.options.cores);
        let (mut loops, mut spills) = (loops, Vec::new());
        let (places, slabs) = match placed {
            Err(finding) if self.options.spills && finding.violation.rule == "capacity.sbuf" => {
                let planned = self.spill(&mut loops, &lives, &mut spills).ok_or(finding)?;
                is_output.resize(self.tensors.len(), false);
                let lives = liveness::lifetimes(self.tensors.len(), &self.instructions, &loops, &self.fills);
                placement::place(&self.target, &self.tensors, &lives, &is_output, &planned, self.options.cores)?
            }
            placed => placed?,
        };
        let edges = dependencies::derive(&self.instructions, &loops, &self.tables(), &places);
        let taints = outputs.iter().map(|output| self.bytes[output.index()].taint).collect();
        self.fills.sort_by_key(|fill| (fill.before, fill.value.rank()));
        Ok(Program {
            kernel: self.kernel,
            target: self.target.name,
            overrides: self.target.overrides,
            options: self.options,
            specialised,
            tensors: self.tensors,
            patterns: self.patterns.table,
            names: self.labels,
            files: self.files,
            lines: self.lines,
            instructions: self.instructions,
            inputs: self.inputs,
            outputs: outputs.to_vec(),
            constants: self.constants,
            fills: self.fills,
            taints,
            findings: self.findings.iter().map(StoredFinding::from).collect(),
            places,
            slabs,
            edges,
            loops,
            spills,
            peer: None,
        })
    }
}
