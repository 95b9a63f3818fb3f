"""How kernels are recorded and run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from trn3.errors import RuleError

__all__ = ["Overrides", "RunOptions", "overrides_key", "settled_overrides"]

Overrides: TypeAlias = "tuple[tuple[str, Any], ...]"
"""Values in place of a table's, by key, in the order of the keys."""


@dataclass(frozen=True)
class RunOptions:
    """How a kernel is recorded and run. Equal options give equal bits.

    Parameters
    ----------
    target : str, optional
        Hardware table: ``trn3``, ``trn2``, ``inf2``, ``trn1`` (also ``gen4``, ``gen3``, ``gen2``), or the path of a
        table file. By default what ``NEURON_PLATFORM_TARGET_OVERRIDE`` or ``NKI_NC_VERSION`` says at the time of the
        call, else ``trn3``.
    overrides : mapping of str to object
        Values in place of the table's, by dotted key and in the table's unit, such as ``{"dma.to_first_ns": 800}``;
        ``trn3 spec trn3`` lists the keys. What follows from a replaced value is recomputed. They are part of what is
        recorded. A value outside of the range that the table calls plausible is taken, with a finding.
    checks : {"lenient", "documented", "hardware"}
        What stops the run: ``lenient`` runs what AWS's simulator runs and reports the rest as findings; ``documented``
        makes every stated rule an error; ``hardware`` also refuses what only the device would.
    seed : int
        Seed of everything random.
    stochastic_rounding : bool
        Round conversions to narrower floats stochastically (as ``NEURON_RT_STOCHASTIC_ROUNDING_EN`` does).
    nki_version : str
        Version of the language whose behaviour is wanted; ``quantize_mx`` doubled its scale in 0.5.
    uninitialized : {"poison", "simulator", "stop"}
        What memory reads as that nothing has written: NaN, and 0 for integers (``poison``) or 4 as in AWS's simulator
        (``simulator``); with ``stop``, reading it raises `UninitializedReadError` on the line that does.
    spill : {"hbm", "error"}
        What becomes of tiles that do not fit into SBUF together: those that are used again last wait in HBM (``hbm``;
        the report says which, and what it costs), or `CapacityError` is raised (``error``).
    eager : bool
        Execute each instruction as it is recorded, for debugging: the same bits, a statement at a time.
    """

    target: str | None = None
    overrides: Mapping[str, object] | Overrides = ()
    checks: str = "lenient"
    seed: int = 0
    stochastic_rounding: bool = False
    nki_version: str = "0.6"
    uninitialized: str = "poison"
    spill: str = "hbm"
    eager: bool = False

    def __post_init__(self) -> None:
        _check_option("checks", self.checks, ("lenient", "documented", "hardware"))
        _check_option("uninitialized", self.uninitialized, ("poison", "simulator", "stop"))
        _check_option("spill", self.spill, ("hbm", "error"))
        if not isinstance(self.seed, int) or not 0 <= self.seed < 2**64:
            raise _wrong_option("seed", self.seed, "an int from 0 to 2**64 - 1")
        _ = self.nki_minor
        object.__setattr__(self, "overrides", settled_overrides(self.overrides))

    @property
    def settled_overrides(self) -> Overrides:
        """The overrides as they are kept: pairs of key and value, in the order of the keys."""
        assert isinstance(self.overrides, tuple), "set when the options were made"
        return self.overrides

    @property
    def nki_minor(self) -> int:
        """Minor number of ``nki_version``."""
        versions = {f"0.{minor}": minor for minor in range(1, 7)}
        if self.nki_version not in versions:
            raise _wrong_option("nki_version", self.nki_version, "a string from '0.1' to '0.6'")
        return versions[self.nki_version]


def _wrong_option(name: str, value: Any, limit: str) -> RuleError:
    return RuleError(
        instruction="RunOptions",
        operand=name,
        value=f"is {value!r}",
        limit=f"must be {limit}",
        fix="see the documentation of trn3.RunOptions",
        rule=f"options.{name}",
    )


def _check_option(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise _wrong_option(name, value, f"one of {', '.join(choices)}")


def overrides_key(overrides: Overrides) -> tuple[tuple[str, str, Any], ...]:
    """Return a key that tells 1, 1.0 and True apart."""
    return tuple((key, type(value).__name__, value) for key, value in overrides)


def settled_overrides(given: Mapping[str, object] | Overrides | None) -> Overrides:
    """Return values by key as they are kept: plain and hashable, in the order of the keys.

    Raises
    ------
    RuleError
        Keys are no texts, or a value is nothing that a table holds [options.overrides].
    """
    try:
        pairs = dict(given or ())
    except (TypeError, ValueError):
        raise _wrong_option("overrides", given, "a mapping from keys of the hardware table to values") from None
    for key in pairs:
        if not isinstance(key, str):
            raise _wrong_option("overrides", pairs, "a mapping from keys of the hardware table, which are texts")
    return tuple((key, _settled(key, pairs[key])) for key in sorted(pairs))


def _settled(key: str, value: object) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return tuple(_settled(key, item) for item in value)
    if isinstance(value, bool | int | float | str | Fraction):
        return value
    limit = "a number, a fraction, a bool, a text or a list of numbers or texts for each key"
    raise _wrong_option("overrides", {key: value}, limit)
