"""What a run took and why: time, engines, bytes, memory, the critical path, and what each source line had of it.

`Report` has every figure; it prints as text and on a terminal, and is written as JSON, as a Perfetto trace and as one
self-contained HTML page.
"""

from . import figures
from .document import VERSION, schema
from .figures import *  # noqa: F403
from .report import Report

__all__ = ["Report", "VERSION", "schema", *figures.__all__]
