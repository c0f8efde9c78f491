# SPDX-License-Identifier: Apache-2.0
"""The C library: found, loaded and declared for ctypes. Structs here mirror include/ringattn/ringattn.h."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint8, c_void_p
from pathlib import Path

from ._errors import error_of

F32, F16, BF16, I64, U8, BOOL, F64, I8, I32 = range(9)
SAME = -1
SCALE_DEFAULT = 1.7976931348623157e308
KERNELS = {None: 0, "auto": 0, "generic": 1, "avx2": 2, "avx512": 3, "avx512bf16": 4}
# In place of a kernel: the best one with these products.
PRECISIONS = {"exact": 1, "fast": 2}
KERNEL_NAMES = {0: "auto", 1: "generic", 2: "avx2", 3: "avx512", 4: "avx512bf16"}

folder = Path(__file__).resolve().parent


class Tensor(Structure):
    """ra_tensor"""

    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int),
        ("batch", c_int64),
        ("seq", c_int64),
        ("heads", c_int64),
        ("dim", c_int64),
        ("batch_stride", c_int64),
        ("seq_stride", c_int64),
        ("head_stride", c_int64),
        ("dim_stride", c_int64),
    ]


_view = POINTER(Tensor)


class ScoreArrays(Structure):
    """ra_score_arrays"""

    _fields_ = [("size", c_size_t)] + [
        (name, _view)
        for name in (
            "slopes",
            "table",
            "bias",
            "sinks",
            "mask",
            "lengths",
            "documents",
            "d_slopes",
            "d_table",
            "d_bias",
            "d_sinks",
        )
    ]


class Cache(Structure):
    """ra_cache"""

    _fields_ = [
        ("size", c_size_t),
        ("k", _view),
        ("v", _view),
        ("k_scale", _view),
        ("v_scale", _view),
        ("page_table", _view),
        ("keys", c_int64),
    ]


class Problem(Structure):
    """ra_problem"""

    _fields_ = [
        ("size", c_size_t),
        ("batch", c_int64),
        ("q_len", c_int64),
        ("kv_len", c_int64),
        ("heads", c_int64),
        ("kv_heads", c_int64),
        ("head_dim", c_int64),
        ("value_dim", c_int64),
        ("scale", c_double),
        ("pattern", c_char_p),
        ("scores", c_char_p),
        ("score_arrays", POINTER(ScoreArrays)),
        ("query_position", c_int64),
        ("key_position", c_int64),
    ]


Progress = ctypes.CFUNCTYPE(c_int, c_void_p, c_double, c_double)


class Options(Structure):
    """ra_options"""

    _fields_ = [
        ("size", c_size_t),
        ("threads", c_int),
        ("kernel", c_int),
        ("progress", Progress),
        ("progress_user", c_void_p),
        ("tiles", c_int),
        ("reserved", c_int),
        ("precision", c_int),
    ]


class PlanInfo(Structure):
    """ra_plan_info"""

    _fields_ = [
        ("size", c_size_t),
        ("kernel", c_int),
        ("variant", c_int),
        ("threads", c_int),
        ("query_tile", c_int64),
        ("key_block", c_int64),
        ("key_spans", c_int64),
        ("tiles", c_double),
        ("pairs_visible", c_double),
        ("pairs_worked", c_double),
        ("flops", c_double),
        ("peak_bytes", c_int64),
        ("density", c_double),
    ]


class SystemInfo(Structure):
    """ra_system_info"""

    _fields_ = [
        ("size", c_size_t),
        ("processor", c_char * 64),
        ("instruction_sets", c_char * 128),
        ("cores", c_int),
        ("l1_bytes", c_int64),
        ("l2_bytes", c_int64),
        ("l3_bytes", c_int64),
        ("memory_bytes", c_int64),
        ("compiler", c_char * 64),
        ("openmp", c_char * 32),
        ("kernel", c_int),
    ]


def _candidates():
    named = os.environ.get("RINGATTN_LIBRARY")
    if named:
        return [named]
    return [str(path) for path in sorted((folder / "lib").glob("libringattn.so*"))]


def _load() -> ctypes.CDLL:
    candidates = _candidates()
    if not candidates:
        raise ImportError(
            f"libringattn.so is not in {folder / 'lib'}: install the package with `pip install .` in a clone, "
            "or set RINGATTN_LIBRARY to the path of a built libringattn.so"
        )
    try:
        return ctypes.CDLL(candidates[0])
    except OSError as problem:
        raise ImportError(f"cannot load {candidates[0]}: {problem}") from problem


lib = _load()


def _declare(name: str, result, *arguments):
    function = getattr(lib, name)
    function.restype = result
    function.argtypes = arguments
    return function


_declare("ra_version", c_char_p)
_declare("ra_last_message", c_char_p)
BytesText = c_char * 32  # RA_BYTES_TEXT
_declare("ra_bytes_text", c_char_p, c_int64, BytesText)
_declare("ra_problem_init", c_int, POINTER(Problem), c_size_t)
_declare("ra_options_init", c_int, POINTER(Options), c_size_t)
_declare("ra_score_arrays_init", c_int, POINTER(ScoreArrays), c_size_t)
_declare("ra_plan_info_init", c_int, POINTER(PlanInfo), c_size_t)
_declare("ra_system_info_init", c_int, POINTER(SystemInfo), c_size_t)
_declare("ra_system_describe", c_int, POINTER(SystemInfo))
_declare("ra_kernel_available", c_int, c_int)
_declare("ra_plan_create", c_int, POINTER(Problem), POINTER(Options), POINTER(c_void_p))
_declare("ra_plan_free", None, c_void_p)
_declare("ra_plan_describe", c_int, c_void_p, POINTER(PlanInfo))
_declare("ra_plan_describe_backward", c_int, c_void_p, POINTER(PlanInfo))
_declare("ra_plan_visible", c_int, c_void_p, c_int64, c_int64, c_int64, c_int64, POINTER(c_uint8))
_declare("ra_cache_init", c_int, POINTER(Cache), c_size_t)
_declare("ra_forward_cached", c_int, c_void_p, _view, POINTER(Cache), _view, _view, c_void_p)
_declare("ra_quantize_rows", c_int, _view, _view, _view)
_declare("ra_preset", c_char_p, c_char_p)
_declare("ra_preset_scores", c_char_p, c_char_p)
_declare(
    "ra_reference_row", c_int, c_void_p, _view, _view, _view, c_int64, c_int64, c_int64, c_void_p, c_void_p
)
_declare("ra_reference_backward", c_int, c_void_p, *[_view] * 5, c_void_p, c_void_p, c_void_p)
# These two are called often: arguments are made beforehand, and ctypes has nothing to convert.
forward = lib.ra_forward
forward.restype = c_int
backward = lib.ra_backward
backward.restype = c_int


def check(status: int) -> None:
    """Raise the exception of a status that is not RA_OK."""
    if status:
        raise error_of(status, lib.ra_last_message().decode("utf-8", "replace"))


def version() -> str:
    """The version of the library that is running."""
    return lib.ra_version().decode()


def get_include() -> str:
    """The folder of the C headers that the package carries: for `cc -I`. The library is in ../lib beside it.

    >>> import os, ringattn
    >>> os.path.exists(os.path.join(ringattn.get_include(), "ringattn", "ringattn.h"))
    True
    """
    return str(folder / "include")
