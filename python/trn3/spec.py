"""Hardware tables: every number of a chip with its unit, status and source.

>>> table = load("trn3")
>>> table["tensor.clock_hz"].value
2400000000
>>> table["dma.gap_ns"].status
'derived'
>>> load("trn3", overrides={"dma.gap_ns": 20})["dma.gap_ns"].status
'override'
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar, overload

from trn3 import _native

__all__ = [
    "Conflict",
    "Difference",
    "Entry",
    "Row",
    "Table",
    "Value",
    "compare",
    "conflicts",
    "load",
    "names",
    "side_by_side",
]

Value: TypeAlias = "int | float | bool | str | Fraction | tuple[int, ...] | tuple[str, ...]"
"""What an entry can hold. Rates in cycles an element are exact fractions."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Conflict:
    """What another public source says instead of a table's value.

    Attributes
    ----------
    table, key : str
        The entry it is about.
    id : str or None
        Name of the contradiction, shared by all its mentions.
    value : Value
        What the other source says, in the entry's unit.
    source : str
        Who says so.
    why : str
        Why the table does not follow it.
    """

    table: str
    key: str
    id: str | None
    value: Value
    source: str
    why: str


@dataclass(frozen=True)
class Entry:
    """One value of a table and what is known about it.

    Attributes
    ----------
    key : str
        Dotted key; its last word is the unit.
    value : Value
        The value, in `unit`.
    unit : str
        ``"count"``, ``"bool"`` and ``"name"`` stand for values without a physical unit.
    status : str
        ``doc`` (a public document states it), ``derived``, ``measured``, ``assumed`` (not published), ``claim``
        (announcement or press) or ``override`` (set by the caller).
    source : str
        The document, and how the value follows from it.
    range : tuple of float or None
        Where the value plausibly lies.
    is_outside_range : bool
        Whether an override left that range.
    note : str or None
        What else a reader should know.
    conflicts : tuple of Conflict
        What other public sources say.
    replaced : tuple of (Value, str) or None
        Value and status that an override took the place of.
    """

    key: str
    value: Value
    unit: str
    status: str
    source: str
    range: tuple[float, float] | None
    is_outside_range: bool
    note: str | None
    conflicts: tuple[Conflict, ...]
    replaced: tuple[Value, str] | None


@dataclass(frozen=True)
class Difference:
    """A key whose value differs between two tables.

    Attributes
    ----------
    key : str
        The key.
    left, right : Entry or None
        The entries; None where a table lacks the key.
    """

    key: str
    left: Entry | None
    right: Entry | None


@dataclass(frozen=True)
class Row:
    """One key in several tables.

    Attributes
    ----------
    key : str
        The key.
    unit : str
        Its unit.
    entries : tuple of (Entry or None)
        The entry of each table; None where a table lacks the key.
    differs : bool
        Whether the values are not all the same.
    """

    key: str
    unit: str
    entries: tuple[Entry | None, ...]
    differs: bool


class Table(Mapping[str, Entry]):
    """All numbers of one hardware generation, by dotted key.

    Made by `load`; complete, checked and immutable. A missing key raises `SpecError` with the keys spelt alike.
    """

    def __init__(self, native: _native.Table, recipe: tuple[str, dict[str, Any]]) -> None:
        self._native = native
        self._recipe = recipe
        self._entries = {entry["key"]: _entry(native.name, entry) for entry in native.entries()}

    @property
    def name(self) -> str:
        """The table's name."""
        return self._native.name

    @property
    def title(self) -> str:
        """What the table describes."""
        return self._native.title

    @property
    def file(self) -> str:
        """The file it was read from."""
        return self._native.file

    @property
    def documents(self) -> dict[str, str]:
        """The documents that sources name, and where they are."""
        return self._native.documents()

    def __getitem__(self, key: str) -> Entry:
        """Return the entry of that key.

        Parameters
        ----------
        key : str
            Dotted key.

        Returns
        -------
        Entry
            The entry.

        Raises
        ------
        SpecError
            If there is none (``spec.unknown_key``).
        """
        found = self._entries.get(key)
        return _entry(self.name, self._native.entry(key)) if found is None else found

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys, grouped by part of the hardware."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        """Tell whether there is such a key."""
        return key in self._entries

    @overload
    def get(self, key: str, /) -> Entry | None: ...
    @overload
    def get(self, key: str, /, default: Entry) -> Entry: ...
    @overload
    def get(self, key: str, /, default: _T) -> Entry | _T: ...
    def get(self, key: str, /, default: object = None) -> object:
        """Return the entry of that key, or `default`."""
        return self._entries.get(key, default)

    def value(self, key: str) -> Value:
        """Return the value at that key, in the table's unit."""
        return self[key].value

    def with_overrides(self, overrides: Mapping[str, object]) -> Table:
        """Return a table with some values replaced; see `load`."""
        name_or_path, earlier = self._recipe
        return Table(self._native.with_overrides(dict(overrides)), (name_or_path, {**earlier, **overrides}))

    def tile_sizes(self) -> dict[str, int]:
        """Return the constants of ``nki.language.tile_size``."""
        return self._native.tile_sizes()

    def peaks(self) -> dict[str, float | None]:
        """Return peak rates of one NeuronCore's array in FLOP/s, from its size and clock."""
        return self._native.peaks()

    def __eq__(self, other: object) -> bool:
        """Tell whether two tables hold the same entries."""
        return isinstance(other, Table) and self._entries == other._entries

    def __hash__(self) -> int:
        """Hash the entries, as equality compares them."""
        return hash(tuple(self._entries.values()))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as what it was loaded from."""
        return load, self._recipe

    def __repr__(self) -> str:
        """Name the table and what was changed."""
        changed = [key for key, entry in self._entries.items() if entry.status == "override"]
        what = f", overridden: {', '.join(changed)}" if changed else ""
        return f"<Table {self.name!r}: {len(self)} entries{what}>"


def names() -> list[str]:
    """Return the names of the tables that come with the package."""
    return _native.Table.builtin_names()


def load(name_or_path: str | os.PathLike[str], overrides: Mapping[str, object] | None = None) -> Table:
    """Load a hardware table.

    Parameters
    ----------
    name_or_path : str or os.PathLike
        ``"trn3"``, ``"trn2"``, ``"inf2"``, ``"trn1"``, or the path of a TOML file, which may name a table to start from
        with ``extends = "trn3"``.
    overrides : mapping of str to object, optional
        Values to replace, by dotted key, in the table's unit: int, float, bool, str, a list, or for rates a
        `fractions.Fraction` or text such as ``"1/4"``. A number may be text with its unit, such as ``"800 ns"``. They
        change together and are checked together. What follows from a replaced value (a stack's bandwidth from the
        chip's) is recomputed, unless it is replaced too. A value outside the range that the table calls plausible is
        taken and marked (`Entry.is_outside_range`).

    Returns
    -------
    Table
        The table.

    Raises
    ------
    SpecError
        If there is no such table (``spec.name``), the file cannot be read or is not a table (``spec.file``,
        ``spec.toml``, ``spec.entry``, ``spec.missing_key``, ``spec.extends``), or a key or value cannot be
        (``spec.unknown_key``, ``spec.unit``, ``spec.kind``, ``spec.limit``, ``spec.consistent``).

    Examples
    --------
    >>> load("trn3", {"vector.stream.reciprocal_cycles_per_element": "15/2"}).value("tensor.rows")
    128
    """
    place = os.fspath(name_or_path)
    table = Table(_native.Table.load(place), (place, {}))
    return table.with_overrides(overrides) if overrides else table


def compare(left: Table | str | os.PathLike[str], right: Table | str | os.PathLike[str]) -> list[Difference]:
    """Return the keys whose values differ between two tables.

    Parameters
    ----------
    left, right : Table, str or os.PathLike
        Tables, or what `load` takes.

    Returns
    -------
    list of Difference
        In the order of `left`, then the keys that only `right` has.
    """
    one, two = _table(left), _table(right)
    differences = []
    for here, there in one._native.diff(two._native):
        a = None if here is None else _entry(one.name, here)
        b = None if there is None else _entry(two.name, there)
        either = a or b
        assert either is not None, "a difference has at least one side"
        differences.append(Difference(either.key, a, b))
    return differences


def side_by_side(*tables: Table | str | os.PathLike[str]) -> list[Row]:
    """Return every key of several tables with the entry of each.

    Parameters
    ----------
    *tables : Table, str or os.PathLike
        Tables, or what `load` takes; without any, those that come with the package.

    Returns
    -------
    list of Row
        In the order of the table that has most of them; keys that it lacks stand where other tables have them.

    Examples
    --------
    >>> row = next(row for row in side_by_side("trn2", "trn3") if row.key == "vector.clock_hz")
    >>> [entry.value for entry in row.entries], row.differs
    ([960000000, 1200000000], True)
    """
    chosen = [_table(table) for table in tables or names()]
    rows = []
    for key in _merged(chosen):
        entries = tuple(table.get(key) for table in chosen)
        unit = next(entry.unit for entry in entries if entry is not None)
        values = [None if entry is None else entry.value for entry in entries]
        rows.append(Row(key, unit, entries, any(value != values[0] for value in values)))
    return rows


def _merged(tables: list[Table]) -> list[str]:
    """Return all keys, each behind the one that it follows in its own table."""
    keys: list[str] = []
    for table in sorted(tables, key=len, reverse=True):
        before = -1
        for key in table:
            if key in keys:
                before = keys.index(key)
            else:
                before += 1
                keys.insert(before, key)
    return keys


def conflicts(*tables: Table | str | os.PathLike[str]) -> list[Conflict]:
    """Return where public sources disagree.

    Parameters
    ----------
    *tables : Table, str or os.PathLike
        Tables, or what `load` takes; without any, those that come with the package.

    Returns
    -------
    list of Conflict
        In the order of the tables.
    """
    chosen = [_table(table) for table in tables or names()]
    return [conflict for table in chosen for entry in table.values() for conflict in entry.conflicts]


def _table(table: Table | str | os.PathLike[str]) -> Table:
    return table if isinstance(table, Table) else load(table)


def _entry(table: str, raw: dict[str, Any]) -> Entry:
    fields = dict(raw)
    fields["value"] = _frozen(raw["value"])
    fields["conflicts"] = tuple(
        Conflict(table, raw["key"], other["id"], _frozen(other["value"]), other["source"], other["why"])
        for other in raw["conflicts"]
    )
    if raw["replaced"] is not None:
        value, status = raw["replaced"]
        fields["replaced"] = (_frozen(value), status)
    return Entry(**fields)


def _frozen(value: Any) -> Value:
    frozen: Value = tuple(value) if isinstance(value, list) else value
    return frozen
