# SPDX-License-Identifier: Apache-2.0
"""Arrays of any library as pointer, dtype, shape and strides in elements; new arrays of the caller's kind.

NumPy arrays and PyTorch tensors are asked directly, other arrays through DLPack or the buffer protocol. Nothing is
copied, and PyTorch is never imported: a tensor exists only if its module is in sys.modules.
"""

from __future__ import annotations

import ctypes
import sys
from typing import NamedTuple

import numpy as np

from ._errors import ArgumentError, UnsupportedError
from ._library import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8

_numpy_codes = {
    np.dtype(np.float32): F32,
    np.dtype(np.float16): F16,
    np.dtype(np.int64): I64,
    np.dtype(np.uint8): U8,
    np.dtype(np.bool_): BOOL,
    np.dtype(np.float64): F64,
    np.dtype(np.int8): I8,
    np.dtype(np.int32): I32,
}
_names = {F32: "float32", F16: "float16", BF16: "bfloat16", I64: "int64", U8: "uint8", BOOL: "bool", F64: "float64",
          I8: "int8", I32: "int32"}
_sizes = {F32: 4, F16: 2, BF16: 2, I64: 8, U8: 1, BOOL: 1, F64: 8, I8: 1, I32: 4}


_EXPECTED = dict.fromkeys(("slopes", "table", "sinks", "lse", "d_lse"), "float32")
_EXPECTED.update(mask="bool", lengths="int64", documents="int64")


class View(NamedTuple):
    """Where an array's elements are. `owner` keeps them alive."""

    pointer: int
    code: int
    shape: tuple
    strides: tuple
    owner: object
    writable: bool


def dtype_name(code: int) -> str:
    """The name of a dtype code, such as "float32"."""
    return _names[code]


def _wrong_dtype(name: str, found: str) -> ArgumentError:
    return ArgumentError(f"{name} has {found}: expected {_EXPECTED.get(name, 'float32, float16 or bfloat16')}")


def _numpy_code(dtype, name: str) -> int:
    code = _numpy_codes.get(dtype)
    if code is None:
        if dtype.name == "bfloat16":
            code = _numpy_codes[dtype] = BF16
        else:
            raise _wrong_dtype(name, f"dtype {dtype}")
    return code


def numpy_view(array: np.ndarray, name: str) -> View:
    """The view of a NumPy array."""
    code = _numpy_codes.get(array.dtype)
    if code is None:
        code = _numpy_code(array.dtype, name)
    size = array.itemsize
    strides = array.strides
    if not array.flags.c_contiguous and any([stride % size for stride in strides]):
        raise ArgumentError(
            f"{name} has strides of {list(strides)} bytes: expected multiples of its {size}-byte elements; use {name}.copy()"
        )
    return View(
        array.ctypes.data if array.size else 0,
        code,
        array.shape,
        tuple([stride // size for stride in strides]),
        array,
        array.flags.writeable,
    )


_torch_codes: dict = {}


def _torch_code(torch, dtype, name: str) -> int:
    if not _torch_codes:
        _torch_codes.update(
            {
                torch.float32: F32,
                torch.float16: F16,
                torch.bfloat16: BF16,
                torch.int64: I64,
                torch.uint8: U8,
                torch.bool: BOOL,
                torch.float64: F64,
                torch.int8: I8,
                torch.int32: I32,
            }
        )
    code = _torch_codes.get(dtype)
    if code is None:
        raise _wrong_dtype(name, f"dtype {dtype}")
    return code


def is_torch(array) -> bool:
    """Whether an array is a PyTorch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def wants_gradient(tensor) -> bool:
    """Whether PyTorch would record a call with a tensor for its backward pass."""
    return tensor.requires_grad and sys.modules["torch"].is_grad_enabled()


def refuse_gradient(array, name: str) -> None:
    """Refuse a tensor whose gradient would be lost silently."""
    if is_torch(array) and wants_gradient(array):
        raise UnsupportedError(
            f"{name} requires a gradient, and ringattn.attention records none: use ringattn.torch.attention, or {name}.detach()"
        )


def _torch_view(array, name: str) -> View:
    torch = sys.modules["torch"]
    if not array.is_cpu:
        raise UnsupportedError(f"{name} is on device {array.device}: ringattn computes on the CPU; use {name}.cpu()")
    if array.layout is not torch.strided:
        raise UnsupportedError(f"{name} has layout {array.layout}: expected a dense tensor")
    if array.is_neg():
        raise UnsupportedError(f"{name} is a negated view: use {name}.resolve_neg()")
    code = _torch_codes.get(array.dtype)
    if code is None:
        code = _torch_code(torch, array.dtype, name)
    return View(array.data_ptr(), code, array.shape, array.stride(), array, True)


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype_kind", ctypes.c_uint8),
        ("dtype_bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

# DLDataTypeCode and bits: signed integers 0, unsigned 1, floats 2, bfloat 4, bool 6.
_dlpack_codes = {(2, 32): F32, (2, 16): F16, (4, 16): BF16, (0, 64): I64, (1, 8): U8, (6, 8): BOOL, (2, 64): F64,
                 (0, 8): I8, (0, 32): I32}


def _dlpack_view(array, name: str) -> View:
    kind, number = array.__dlpack_device__()
    if int(kind) != 1:
        raise UnsupportedError(f"{name} is on DLPack device {int(kind)}:{number}: ringattn computes on the CPU (1:0)")
    # The capsule stays unconsumed: it owns the memory until the view is dropped.
    capsule = array.__dlpack__()
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    code = _dlpack_codes.get((tensor.dtype_kind, tensor.dtype_bits)) if tensor.lanes == 1 else None
    if code is None:
        raise _wrong_dtype(name, f"DLPack type {tensor.dtype_kind} of {tensor.dtype_bits} bits")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else dense_strides(shape)
    # Whether such an array may be written is not known: many of these libraries have immutable ones.
    return View((tensor.data or 0) + tensor.byte_offset, code, shape, strides, (array, capsule), False)


def view_of(array, name: str) -> View:
    """The view of an array of any library; `name` is for messages."""
    if isinstance(array, np.ndarray):
        if isinstance(array, np.ma.MaskedArray):
            raise UnsupportedError(f"{name} is a masked array, whose mask would be ignored: use {name}.data, and mask=")
        return numpy_view(array, name)
    if is_torch(array):
        return _torch_view(array, name)
    if hasattr(array, "__dlpack__"):
        return _dlpack_view(array, name)
    try:
        buffer = np.asarray(memoryview(array))
    except TypeError:
        raise ArgumentError(
            f"{name} is a {type(array).__name__}: expected an array with DLPack or the buffer protocol"
        ) from None
    return numpy_view(buffer, name)


def whole_numbers(value, name: str):
    """A small array or list of integers as int64; only int64 arrays are not copied."""
    if is_torch(value):
        torch = sys.modules["torch"]
        return value.to(torch.int64) if value.dtype in (torch.int32, torch.int16, torch.uint8) else value
    if isinstance(value, (list, tuple)):
        value = np.asarray(value)
        if not value.size:
            value = value.astype(np.int64)
    elif not isinstance(value, np.ndarray) and hasattr(value, "__array__"):
        value = np.asarray(value)  # JAX has no int64
    if isinstance(value, np.ndarray) and value.dtype != np.int64:
        if value.dtype.kind not in "iu":
            raise _wrong_dtype(name, f"dtype {value.dtype}")
        value = value.astype(np.int64)
    return value


def dense_strides(shape) -> tuple:
    """The strides of a contiguous array, in elements."""
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def _numpy_dtype(code: int):
    if code == BF16:
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(_names[code])


def empty(shape, code: int, like):
    """A new array of a dtype, of the kind of `like`, and its NumPy or PyTorch form that is written."""
    if isinstance(like, np.ndarray):
        dtype = like.dtype if _numpy_codes.get(like.dtype) == code else _numpy_dtype(code)
        return np.empty(shape, dtype)
    if is_torch(like):
        torch = sys.modules["torch"]
        return torch.empty(tuple(shape), dtype=getattr(torch, _names[code]))
    return np.empty(shape, _numpy_dtype(code))


def finish(array, like):
    """Give a result that `empty` made the kind of `like`."""
    if isinstance(like, np.ndarray) or not isinstance(array, np.ndarray) or not hasattr(like, "__dlpack__"):
        return array
    space = getattr(like, "__array_namespace__", None)
    module = space() if space else sys.modules.get(type(like).__module__.split(".")[0])
    convert = getattr(module, "from_dlpack", None)
    if convert is None:
        return array
    try:
        return convert(array)
    except (BufferError, TypeError, RuntimeError):
        return module.asarray(array) if hasattr(module, "asarray") else array


def from_numpy(array: np.ndarray, like):
    """A NumPy array as an array of the kind of `like`, on the same memory where that is possible."""
    return sys.modules["torch"].from_numpy(array) if is_torch(like) else finish(array, like)
