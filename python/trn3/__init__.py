"""trn3: an emulator of AWS Trainium3, in values and in time.

``trn3.nki`` is the kernel language, ``trn3.run`` runs a kernel and reports its time, ``trn3.mx`` has the microscaling
codecs, ``trn3.spec`` the hardware tables.
"""

from trn3 import dtypes, errors, mx, nki, spec
from trn3.nki import RunOptions
from trn3.report import Report
from trn3.system import Chip, Run, load_program, run

__all__ = [
    "Chip",
    "Report",
    "Run",
    "RunOptions",
    "dtypes",
    "errors",
    "load_program",
    "mx",
    "nki",
    "run",
    "spec",
]
