"""The figures of a report, as plain records. Times are seconds, sizes bytes, shares fractions of 1.

Every field is described once, here: `schema` makes the JSON schema from these classes and their texts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "CriticalGroup",
    "CriticalPath",
    "EngineUse",
    "Figures",
    "Finding",
    "FormatWork",
    "LabelUse",
    "LineUse",
    "Memory",
    "Owner",
    "Roofline",
    "RouteUse",
    "Sensitivity",
    "SizeClass",
    "Spill",
    "Transfers",
]


@dataclass(frozen=True)
class EngineUse:
    """What one engine did.

    Attributes
    ----------
    name : str
        ``tensor``, ``vector``, ``scalar``, ``gpsimd``, ``sync``, or ``dma`` for the DMA engines together.
    instructions : int
        Instructions that it ran; transfers for ``dma``.
    busy_s : float
        Time in which at least one of them was in flight: what public profilers call active.
    stalls : mapping of str to float
        Time in which its data path stood still before and between streams, by what it waited for: an engine's or a
        transfer's semaphore (``vector``, ``dma``), the issue ``interval``, ``descriptors`` and ``control`` (its
        sequencer was busy), ``core``, ``stationary``, ``table_load``, ``bus``, ``bank``, ``throttle``.
    active_s : float
        Time in which its data path streamed operands; of ``dma``, the mean time in which an engine served descriptors.
        With the stalls and ``idle_s`` it adds up to the total, for all but ``dma``.
    idle_s : float
        Time after its last stream.
    """

    name: str
    instructions: int
    busy_s: float
    stalls: Mapping[str, float] = field(default_factory=dict)
    active_s: float = 0.0
    idle_s: float = 0.0


@dataclass(frozen=True)
class RouteUse:
    """Bytes that moved one way.

    Attributes
    ----------
    name : str
        Such as ``hbm_to_sbuf``.
    read_bytes, written_bytes : int
        Bytes at the source and at the destination; they differ where a transfer casts.
    transfers : int
        Transfers.
    """

    name: str
    read_bytes: int
    written_bytes: int
    transfers: int


@dataclass(frozen=True)
class LineUse:
    """What one source line asked for.

    Attributes
    ----------
    file : str
        Path of the source file.
    line : int
        Line number, from 1.
    instructions : int
        Instructions that ran, every turn of a loop counted.
    busy_s : float
        Time from issue to result, summed over them; it may exceed the total, since they overlap.
    engines : mapping of str to float
        Time in which they streamed through the data path of each engine; ``dma``: time of the DMA engines as if all of
        them worked at once.
    stalls : mapping of str to float
        Time in which the data paths of engines stood still for its instructions, by what these waited for.
    transfers : int
        Transfers.
    dma_bytes : int
        Bytes that they wrote.
    critical_s : float
        Time on the critical path.
    """

    file: str
    line: int
    instructions: int
    busy_s: float
    engines: Mapping[str, float] = field(default_factory=dict)
    stalls: Mapping[str, float] = field(default_factory=dict)
    transfers: int = 0
    dma_bytes: int = 0
    critical_s: float = 0.0


@dataclass(frozen=True)
class LabelUse:
    """When the instructions of one label (``name=`` of an instruction) ran.

    Attributes
    ----------
    name : str
        The label.
    instructions : int
        Instructions that ran, every turn of a loop counted.
    start_s, end_s : float
        First issue and last result, from the first issue of the kernel.
    """

    name: str
    instructions: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Spill:
    """A tensor that had no room in SBUF all the time: it waited in HBM in between.

    Attributes
    ----------
    name : str
        Name of the tensor.
    shape : list of int
        ``(P, F...)``.
    dtype : str
        Element type.
    file, line : str, int
        The line that declares it.
    needed_file, needed_line : str, int
        The line that needed the room first.
    stores, reloads : int
        Transfers to HBM and back.
    bytes : int
        Bytes moved by both.
    busy_s : float
        Time from issue to end, summed over these transfers.
    critical_s : float
        Time that they have on the critical path.
    """

    name: str
    shape: list[int]
    dtype: str
    file: str
    line: int
    needed_file: str
    needed_line: int
    stores: int
    reloads: int
    bytes: int
    busy_s: float
    critical_s: float


@dataclass(frozen=True)
class SizeClass:
    """Transfers, or descriptors, from one power of two to below the next.

    Attributes
    ----------
    size_bytes : int
        The power of two.
    count : int
        How many.
    bytes : int
        Bytes that they wrote in all.
    """

    size_bytes: int
    count: int
    bytes: int


@dataclass(frozen=True)
class Transfers:
    """Sizes of transfers and of their descriptors.

    Attributes
    ----------
    count : int
        Transfers.
    bytes : int
        Bytes that they wrote.
    descriptors : int
        Descriptors.
    mean_bytes : float
        Bytes of a transfer, on the average.
    advised_bytes : int
        What the public guides advise for that.
    descriptor_mean_bytes : float
        Bytes of a descriptor, on the average.
    sizes : list of SizeClass
        Transfers by size.
    descriptor_sizes : list of SizeClass
        Descriptors by size, each taken as the mean of its transfer.
    engines_busy_s : list of float
        Busy time of each DMA engine.
    """

    count: int
    bytes: int
    descriptors: int
    mean_bytes: float
    advised_bytes: int
    descriptor_mean_bytes: float
    sizes: list[SizeClass]
    descriptor_sizes: list[SizeClass]
    engines_busy_s: list[float]


@dataclass(frozen=True)
class FormatWork:
    """Work of the array in one format.

    Attributes
    ----------
    dtype : str
        Element type of the operands.
    flops : int
        Floating-point operations, two a product.
    peak_flops_per_s : float
        What the array does of them in a second at its peak.
    """

    dtype: str
    flops: int
    peak_flops_per_s: float


@dataclass(frozen=True)
class Roofline:
    """The run's point under the roofline.

    Attributes
    ----------
    flops_per_byte : float or None
        Operations a byte of HBM traffic; none if no byte moved.
    attained_flops_per_s : float
        Operations a second over the whole run.
    roof_flops_per_s : float
        What the roof allows at this intensity.
    peak_flops_per_s : float
        The array's peak for the run's mix of formats.
    hbm_bytes_per_s : float
        Peak bandwidth of the stack of HBM that the core shares with its neighbour.
    ridge_flops_per_byte : float
        The intensity at which memory and array limit alike.
    bound : str
        Which part of the roof lies above the point: ``memory``, ``compute``, or ``none``.
    formats : list of FormatWork
        Work by format, the most first.
    """

    flops_per_byte: float | None
    attained_flops_per_s: float
    roof_flops_per_s: float
    peak_flops_per_s: float
    hbm_bytes_per_s: float
    ridge_flops_per_byte: float
    bound: str
    formats: list[FormatWork]


@dataclass(frozen=True)
class Owner:
    """A tensor that lies in a memory at its peak.

    Attributes
    ----------
    name : str
        Name of the tensor.
    shape : list of int
        Shape, the partitions first.
    dtype : str
        Element type.
    address : int
        First byte in each partition.
    bytes : int
        Bytes in each partition.
    file : str
        Where it was declared.
    line : int
        Line there.
    """

    name: str
    shape: list[int]
    dtype: str
    address: int
    bytes: int
    file: str
    line: int


@dataclass(frozen=True)
class Memory:
    """How full SBUF or PSUM was. A tensor takes its bytes in every partition, from its first use to its last.

    Attributes
    ----------
    name : str
        ``sbuf`` or ``psum``.
    capacity_bytes : int
        Bytes a partition.
    peak_bytes : int
        The most bytes a partition at any time.
    peak_at_s : float
        When that was first.
    owners : list of Owner
        The tensors there at that time, the largest first.
    peak_in_order_bytes : int
        The same if instructions did not overlap: the most at any instruction.
    peak_in_order_instruction : int
        The first such instruction, in program order.
    tensors : int
        Tensors in all.
    """

    name: str
    capacity_bytes: int
    peak_bytes: int
    peak_at_s: float
    owners: list[Owner]
    peak_in_order_bytes: int
    peak_in_order_instruction: int
    tensors: int


@dataclass(frozen=True)
class CriticalGroup:
    """Segments of the critical path that belong together.

    Attributes
    ----------
    resource : str
        Whose work it is: an engine, ``dma``, or ``none``.
    step : str
        ``execute`` (issue to result), ``occupy`` (it kept its engine until the next could issue), ``handover`` (from a
        result to when its consumer was told), ``table_load``, ``stationary``, ``throttle``, ``dma_start``,
        ``dma_queue``, ``dma_data``, ``dma_done``, ``start``, ``other_core``.
    instruction : str
        Which instruction; empty for ``start`` and ``other_core``.
    file : str
        Source file.
    line : int
        Source line.
    count : int
        Segments.
    time_s : float
        Their time.
    """

    resource: str
    step: str
    instruction: str
    file: str
    line: int
    count: int
    time_s: float


@dataclass(frozen=True)
class CriticalPath:
    """What decided the total: the chain of constraints from the last result back to the start. It has no gaps.

    Attributes
    ----------
    segments : int
        Segments in all.
    resources : mapping of str to float
        Time by whose work it is: the most that faster work there can gain.
    steps : mapping of str to float
        Time by kind of step.
    groups : list of CriticalGroup
        Time by both, with instruction and line, the longest first.
    """

    segments: int
    resources: Mapping[str, float]
    steps: Mapping[str, float]
    groups: list[CriticalGroup]


@dataclass(frozen=True)
class Finding:
    """A deviation from the documents that did not stop the run.

    Attributes
    ----------
    rule : str
        Id of the rule.
    instruction : str
        Instruction or method.
    operand : str
        Operand or argument.
    value : str
        What it is.
    limit : str
        What the rule allows.
    fix : str
        What to do about it.
    message : str
        The whole message.
    file : str
        Source file.
    line : int
        Source line.
    """

    rule: str
    instruction: str
    operand: str
    value: str
    limit: str
    fix: str
    message: str
    file: str
    line: int


@dataclass(frozen=True)
class Sensitivity:
    """What the total would be if an assumed constant lay at the ends of its plausible range.

    Attributes
    ----------
    key : str
        The constant's key in the hardware table.
    value : str
        Its value.
    unit : str
        Its unit.
    status : str
        What is known about it.
    source : str
        Why it has that value.
    low, high : str
        The plausible range.
    total_low_s, total_high_s : float
        The total at either end.
    """

    key: str
    value: str
    unit: str
    status: str
    source: str
    low: str
    high: str
    total_low_s: float
    total_high_s: float


@dataclass(frozen=True)
class Figures:
    """Everything that a report says of one core.

    Attributes
    ----------
    schema : str
        Name and version of this schema.
    kernel : str
        Name of the kernel.
    target : str
        Name of the hardware table.
    overrides : mapping of str to value
        Values that were set in place of the table's, by key.
    instructions : int
        Instructions of the Program, of all cores.
    executed : int
        Instructions that this core ran, every turn of a loop counted.
    total_s : float
        From the first issue to the last result.
    fixed_s : float
        Device time of starting and draining a kernel, on top.
    flops : int
        Floating-point operations of the array, two a product.
    flops_bf16 : float
        The same in BF16 equivalents.
    mfu : float
        BF16 equivalents over a core's share of the published chip peak.
    mfu_array : float
        The same over the peak of the array.
    mbu : float
        HBM bytes over the peak bandwidth of the stack that the core shares with its neighbour.
    hbm_bytes : int
        Bytes read from and written to HBM.
    throttle_s : list of float
        Time in which the array was limited after idling: while it had work, and while it had none.
    findings : list of Finding
        Deviations from the documents.
    engines : list of EngineUse
        The five engines, then the DMA engines together.
    routes : list of RouteUse
        Bytes by route.
    lines : list of LineUse
        Source lines, the longest in flight first.
    labels : list of LabelUse
        Labels of instructions (``name=``), in the order of their ends.
    transfers : Transfers
        Sizes of transfers.
    roofline : Roofline
        The point under the roofline.
    memories : list of Memory
        SBUF, then PSUM.
    spills : list of Spill
        Tensors that waited in HBM for room in SBUF, those first that cost most.
    critical_path : CriticalPath
        What decided the total.
    peer : Figures or None
        The same of the second core of a logical core.
    """

    schema: str
    kernel: str
    target: str
    overrides: Mapping[str, Any]
    instructions: int
    executed: int
    total_s: float
    fixed_s: float
    flops: int
    flops_bf16: float
    mfu: float
    mfu_array: float
    mbu: float
    hbm_bytes: int
    throttle_s: list[float]
    findings: list[Finding]
    engines: list[EngineUse]
    routes: list[RouteUse]
    lines: list[LineUse]
    labels: list[LabelUse]
    transfers: Transfers
    roofline: Roofline
    memories: list[Memory]
    spills: list[Spill]
    critical_path: CriticalPath
    peer: Figures | None
