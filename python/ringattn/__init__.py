# SPDX-License-Identifier: Apache-2.0
"""ringattn: exact softmax attention on CPUs, planned before it runs and counted while it runs.

>>> import numpy as np, ringattn
>>> q = k = v = np.zeros((1, 5, 2, 8), np.float32)  # [batch, sequence, heads, dim]
>>> ringattn.attention(q, k, v, pattern="causal").shape
(1, 5, 2, 8)
"""

from ._attention import attention, attention_backward
from ._cached import quantize
from ._errors import (
    ArgumentError,
    BudgetError,
    CancelledError,
    DeadlineError,
    Error,
    FileError,
    FormatError,
    InternalError,
    OutOfMemoryError,
    PeerError,
    UnsupportedError,
)
from ._info import Info, info
from ._library import get_include
from ._library import version as _version
from ._plan import PlanSummary, plan, preset
from ._reference import reference, reference_backward
from ._ring import Ring, ring
from ._ring_rows import gather, rows, split
from ._show import Picture, show

__version__ = _version()

__all__ = [
    "ArgumentError",
    "BudgetError",
    "CancelledError",
    "DeadlineError",
    "Error",
    "FileError",
    "FormatError",
    "Info",
    "InternalError",
    "OutOfMemoryError",
    "PeerError",
    "Picture",
    "PlanSummary",
    "Ring",
    "UnsupportedError",
    "attention",
    "attention_backward",
    "gather",
    "get_include",
    "info",
    "plan",
    "preset",
    "quantize",
    "reference",
    "reference_backward",
    "ring",
    "rows",
    "show",
    "split",
]
