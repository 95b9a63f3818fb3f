//! Rules that several instructions share, and what a rule is.

/// A documented constraint.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Its id, in messages and `trn3 explain`.
    pub id: &'static str,
    /// What must hold.
    pub text: &'static str,
    /// The public document that says so.
    pub source: &'static str,
    /// What to do when it does not.
    pub fix: &'static str,
}

/// An argument has the type that the reference gives.
pub const ARGUMENT_TYPE: Rule = Rule {
    id: "argument.type",
    text: "every argument has the type that the reference gives it; raw integers are not enumeration members",
    source: "nki/migration/index.rst",
    fix: "see the instruction's reference",
};
/// An argument that trn3 does not offer yet.
pub const ARGUMENT_UNIMPLEMENTED: Rule = Rule {
    id: "argument.unimplemented",
    text: "the argument is documented, but trn3 does not have it yet",
    source: "nki/api/nki/isa/__init__.py",
    fix: "leave it out",
};
/// The operand's address space.
pub const OPERAND_SPACE: Rule = Rule {
    id: "operand.space",
    text: "an operand is in a memory that the engine can reach",
    source: "nki/api/nki/isa/__init__.py",
    fix: "move the tile first (dma_copy, tensor_copy)",
};
/// The operand's data type.
pub const OPERAND_DTYPE: Rule = Rule {
    id: "operand.dtype",
    text: "an operand has a data type that the instruction accepts",
    source: "nki/api/nki/isa/__init__.py",
    fix: "cast the tile first (tensor_copy)",
};
/// The number of partitions.
pub const PARTITIONS_MAX: Rule = Rule {
    id: "partition.count_max",
    text: "a tile has at most 128 partitions",
    source: "nki/guides/architecture/trainium_inferentia2_arch.rst",
    fix: "split the tile along its partition dimension",
};
/// Where a tile may start.
pub const PARTITION_START: Rule = Rule {
    id: "partition.start",
    text: "more than 64 partitions start at 0, 33 to 64 at 0 or 64, up to 32 at 0, 32, 64 or 96",
    source: "nki/guides/architecture/trainium_inferentia2_arch.rst",
    fix: "start the tile on a quadrant",
};
/// Dimensions of an operand.
pub const FREE_DIMS_MAX: Rule = Rule {
    id: "operand.free_dims_max",
    text: "an operand has at most 4 free dimensions",
    source: "nki/guides/architecture/trainium_inferentia2_arch.rst",
    fix: "merge dimensions or split the instruction",
};
/// Elements of an operand.
pub const FREE_SIZE_MAX: Rule = Rule {
    id: "operand.free_size_max",
    text: "an operand has at most as many elements in a partition as the partition has bytes",
    source: "nki/api/nki/isa/__init__.py (per-partition size at most the SBUF or PSUM partition)",
    fix: "split the instruction along its free dimensions",
};
/// Equal shapes.
pub const SHAPE_MATCH: Rule = Rule {
    id: "operand.shape_match",
    text: "streamed operands have the same partitions and the same number of elements in each",
    source: "nki/api/nki/isa/__init__.py",
    fix: "slice or broadcast the operands to one shape",
};
/// A vector operand's shape.
pub const VECTOR_OPERAND: Rule = Rule {
    id: "operand.vector_shape",
    text: "a vector operand has one element in each of the tile's partitions",
    source: "nki/api/nki/isa/__init__.py",
    fix: "give a constant or a (P, 1) tile",
};
/// Operators of an instruction.
pub const OPERATOR: Rule = Rule {
    id: "operand.operator",
    text: "the operator is one that the instruction offers",
    source: "nki/api/nki.api.shared.rst",
    fix: "choose an operator from the instruction's list",
};
/// Operators that a generation lacks.
pub const OPERATOR_GENERATION: Rule = Rule {
    id: "operand.operator_generation",
    text: "abs_max, abs_min, square and relu are operators from NeuronCore-v4 (trn3) on",
    source: "release-notes/components/nki.rst",
    fix: "use activation for square and relu, or target trn3",
};
/// Both inputs in PSUM.
pub const PSUM_PAIR: Rule = Rule {
    id: "operand.psum_pair",
    text: "the two streamed inputs are not both in PSUM",
    source: "nki/api/nki/isa/__init__.py",
    fix: "copy one input to SBUF first",
};
/// The engine of an instruction.
pub const ENGINE: Rule = Rule {
    id: "operand.engine",
    text: "the engine can execute the instruction",
    source: "nki/api/nki/isa/__init__.py",
    fix: "choose an engine from the instruction's list, or engine.unknown",
};
/// Indirect operands.
pub const INDIRECT: Rule = Rule {
    id: "operand.indirect",
    text: "only transfers take a view with vector_offset",
    source: "nki/deep-dives/nki-aps.rst",
    fix: "gather with dma_copy first",
};

/// Operands of unary operators.
pub const UNARY: Rule = Rule {
    id: "operand.unary",
    text: "the operand of a unary operator is None or 0",
    source: "nki/api/nki/isa/__init__.py, tensor_scalar",
    fix: "give None",
};

/// Accumulators after `idle`.
pub const IDLE_RESULT: Rule = Rule {
    id: "operand.reduce_res_idle",
    text: "reduce_cmd.idle leaves the accumulators undefined (here: as they were), so nothing reads them out",
    source: "nki/api/nki/isa/__init__.py, exponential and select_reduce",
    fix: "use reset_reduce or reduce, or leave reduce_res out",
};

/// Operators of AWS's simulator alone.
pub const SIMULATOR_ONLY: Rule = Rule {
    id: "operand.simulator_only",
    text: "AWS's simulator computes it, the hardware has no such operator",
    source: "nki/api/nki.api.shared.rst; release-notes/components/nki.rst",
    fix: "multiply by the reciprocal, or use another operator",
};

/// The rules of this file.
pub const SHARED: &[Rule] = &[
    ARGUMENT_TYPE,
    ARGUMENT_UNIMPLEMENTED,
    OPERAND_SPACE,
    OPERAND_DTYPE,
    PARTITIONS_MAX,
    PARTITION_START,
    FREE_DIMS_MAX,
    FREE_SIZE_MAX,
    SHAPE_MATCH,
    VECTOR_OPERAND,
    OPERATOR,
    OPERATOR_GENERATION,
    PSUM_PAIR,
    ENGINE,
    INDIRECT,
    UNARY,
    IDLE_RESULT,
    SIMULATOR_ONLY,
];
