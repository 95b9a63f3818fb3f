"""Every exception of trn3.

The type says whose fault it is: the program's (`RuleError`, `HazardError`), the emulator's choice
(`UnsupportedError`, `UnimplementedError`), the documents' (`UnspecifiedError`) or a hardware table's (`SpecError`).
A Rust panic (`PanicException`) is a bug of trn3.
"""

from __future__ import annotations

__all__ = [
    "CapacityError",
    "DeadlockError",
    "FileFormatError",
    "HazardError",
    "RaceError",
    "RuleError",
    "SpecError",
    "Trn3Error",
    "UnimplementedError",
    "UninitializedReadError",
    "UnspecifiedError",
    "UnsupportedError",
]


class Trn3Error(Exception):
    """Base of all errors that trn3 raises on purpose.

    Parameters
    ----------
    message : str, optional
        The whole message. Without it, the message is made from the parts, in the order instruction, operand, value,
        limit, fix, rule.
    instruction, operand, value, limit, rule, fix, where : str, optional
        The parts: the instruction's name, the operand's name, what it was given, what the rule allows, the rule's id,
        what to do about it, and the user's own ``file:line``.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        instruction: str | None = None,
        operand: str | None = None,
        value: str | None = None,
        limit: str | None = None,
        rule: str | None = None,
        fix: str | None = None,
        where: str | None = None,
    ) -> None:
        self.instruction = instruction
        self.operand = operand
        self.value = value
        self.limit = limit
        self.rule = rule
        self.fix = fix
        self.where = where
        if message is None:
            subject = ": ".join(part for part in (instruction, operand) if part)
            what = ", ".join(part for part in (value, limit) if part)
            message = ": ".join(part for part in (subject, what) if part)
            if fix:
                message += f"; {fix}"
            if rule:
                message += f" [{rule}]"
        super().__init__(message)
        if where:
            self.locate(where)

    def locate(self, where: str) -> None:
        """Say where in the user's own code it happened."""
        self.where = where
        self.args = (f"{self.args[0]}\n  at {where}",)


class RuleError(Trn3Error, ValueError):
    """The program breaks a documented rule."""


class CapacityError(RuleError):
    """The program needs more SBUF, PSUM or HBM than there is."""


class HazardError(Trn3Error, RuntimeError):
    """The program is wrong in time; found while running."""


class RaceError(HazardError):
    """Two accesses to the same bytes have no order."""


class DeadlockError(HazardError):
    """No engine can go on."""


class UninitializedReadError(HazardError):
    """Bytes that nothing wrote reached an output."""


class UnsupportedError(Trn3Error, NotImplementedError):
    """The hardware has it; trn3 chose not to."""


class UnimplementedError(Trn3Error, NotImplementedError):
    """The hardware has it; trn3 does not have it yet."""


class UnspecifiedError(Trn3Error, NotImplementedError):
    """The public documents do not say what happens."""


class SpecError(Trn3Error, ValueError):
    """A hardware table is wrong, or does not have what was asked for."""


class FileFormatError(Trn3Error, ValueError):
    """A file of programs or weights is truncated, damaged or not one of ours."""
