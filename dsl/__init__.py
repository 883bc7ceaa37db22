"""lumijit: ordinary Python, traced into megakernels."""

from importlib import import_module as _import_module
from types import ModuleType as _ModuleType

from lumijit.runtime import beginning as _beginning  # noqa: F401

# isort: split
from lumijit import auto as auto
from lumijit import llvm as llvm
from lumijit import pytree as pytree
from lumijit import random as random
from lumijit import scalar as scalar
from lumijit.backend import scoped_device as scoped_device
from lumijit.backend import set_backend as set_backend
from lumijit.base import ArrayBase as ArrayBase
from lumijit.compiler.launch.evaluate import expand_threshold as expand_threshold
from lumijit.compiler.launch.evaluate import (
    set_expand_threshold as set_expand_threshold,
)
from lumijit.constants import Dynamic as Dynamic
from lumijit.constants import e as e
from lumijit.constants import epsilon as epsilon
from lumijit.constants import four_pi as four_pi
from lumijit.constants import inf as inf
from lumijit.constants import inv_four_pi as inv_four_pi
from lumijit.constants import inv_log_two as inv_log_two
from lumijit.constants import inv_pi as inv_pi
from lumijit.constants import inv_sqrt_four_pi as inv_sqrt_four_pi
from lumijit.constants import inv_sqrt_pi as inv_sqrt_pi
from lumijit.constants import inv_sqrt_two as inv_sqrt_two
from lumijit.constants import inv_sqrt_two_pi as inv_sqrt_two_pi
from lumijit.constants import inv_two_pi as inv_two_pi
from lumijit.constants import largest as largest
from lumijit.constants import log_two as log_two
from lumijit.constants import nan as nan
from lumijit.constants import newaxis as newaxis
from lumijit.constants import one_minus_epsilon as one_minus_epsilon
from lumijit.constants import pi as pi
from lumijit.constants import recip_overflow as recip_overflow
from lumijit.constants import smallest as smallest
from lumijit.constants import sqrt_four_pi as sqrt_four_pi
from lumijit.constants import sqrt_pi as sqrt_pi
from lumijit.constants import sqrt_two as sqrt_two
from lumijit.constants import sqrt_two_pi as sqrt_two_pi
from lumijit.constants import two_pi as two_pi
from lumijit.derivatives.giving import accum_grad as accum_grad
from lumijit.derivatives.giving import clear_grad as clear_grad
from lumijit.derivatives.giving import install as _install_derivatives
from lumijit.derivatives.giving import set_grad as set_grad
from lumijit.derivatives.gradients import detach as detach
from lumijit.derivatives.gradients import disable_grad as disable_grad
from lumijit.derivatives.gradients import enable_grad as enable_grad
from lumijit.derivatives.gradients import grad as grad
from lumijit.derivatives.gradients import grad_enabled as grad_enabled
from lumijit.derivatives.gradients import relative_grad as relative_grad
from lumijit.derivatives.gradients import replace_grad as replace_grad
from lumijit.derivatives.gradients import set_grad_enabled as set_grad_enabled
from lumijit.derivatives.scopes import isolate_grad as isolate_grad
from lumijit.derivatives.scopes import resume_grad as resume_grad
from lumijit.derivatives.scopes import suspend_grad as suspend_grad
from lumijit.enums import FilterMode as FilterMode
from lumijit.enums import ReduceMode as ReduceMode
from lumijit.enums import ReduceOp as ReduceOp
from lumijit.enums import VarState as VarState
from lumijit.enums import VarType as VarType
from lumijit.enums import WrapMode as WrapMode
from lumijit.functions.bits import brev as brev
from lumijit.functions.bits import log2i as log2i
from lumijit.functions.bits import lzcnt as lzcnt
from lumijit.functions.bits import popcnt as popcnt
from lumijit.functions.bits import reinterpret_array as reinterpret_array
from lumijit.functions.bits import rotl as rotl
from lumijit.functions.bits import rotr as rotr
from lumijit.functions.bits import tzcnt as tzcnt
from lumijit.functions.complex_parts import arg as arg
from lumijit.functions.complex_parts import conj as conj
from lumijit.functions.complex_parts import imag as imag
from lumijit.functions.complex_parts import real as real
from lumijit.functions.creation import arange as arange
from lumijit.functions.creation import empty as empty
from lumijit.functions.creation import full as full
from lumijit.functions.creation import linspace as linspace
from lumijit.functions.creation import ones as ones
from lumijit.functions.creation import zeros as zeros
from lumijit.functions.elementwise import abs as abs
from lumijit.functions.elementwise import ceil as ceil
from lumijit.functions.elementwise import clamp as clamp
from lumijit.functions.elementwise import clip as clip
from lumijit.functions.elementwise import copysign as copysign
from lumijit.functions.elementwise import floor as floor
from lumijit.functions.elementwise import fma as fma
from lumijit.functions.elementwise import fmax as fmax
from lumijit.functions.elementwise import fmin as fmin
from lumijit.functions.elementwise import lerp as lerp
from lumijit.functions.elementwise import maximum as maximum
from lumijit.functions.elementwise import minimum as minimum
from lumijit.functions.elementwise import mulsign as mulsign
from lumijit.functions.elementwise import rcp as rcp
from lumijit.functions.elementwise import round as round
from lumijit.functions.elementwise import rsqrt as rsqrt
from lumijit.functions.elementwise import sign as sign
from lumijit.functions.elementwise import sqr as sqr
from lumijit.functions.elementwise import sqrt as sqrt
from lumijit.functions.elementwise import square as square
from lumijit.functions.elementwise import trunc as trunc
from lumijit.functions.evaluation import eval as eval
from lumijit.functions.evaluation import flush_kernel_cache as flush_kernel_cache
from lumijit.functions.evaluation import has_backend as has_backend
from lumijit.functions.evaluation import make_opaque as make_opaque
from lumijit.functions.evaluation import opaque as opaque
from lumijit.functions.evaluation import schedule as schedule
from lumijit.functions.evaluation import set_label as set_label
from lumijit.functions.evaluation import sync_thread as sync_thread
from lumijit.functions.full_reductions import max_nested as max_nested
from lumijit.functions.full_reductions import min_nested as min_nested
from lumijit.functions.full_reductions import prod_nested as prod_nested
from lumijit.functions.full_reductions import sum_nested as sum_nested
from lumijit.functions.gathering import gather as gather
from lumijit.functions.grids import meshgrid as meshgrid
from lumijit.functions.masks import all as all
from lumijit.functions.masks import all_nested as all_nested
from lumijit.functions.masks import any as any
from lumijit.functions.masks import any_nested as any_nested
from lumijit.functions.masks import count as count
from lumijit.functions.masks import none as none
from lumijit.functions.masks import none_nested as none_nested
from lumijit.functions.matrices import det as det
from lumijit.functions.matrices import diag as diag
from lumijit.functions.matrices import frob as frob
from lumijit.functions.matrices import identity as identity
from lumijit.functions.matrices import inverse as inverse
from lumijit.functions.matrices import matmul as matmul
from lumijit.functions.matrices import polar_decomp as polar_decomp
from lumijit.functions.matrices import trace as trace
from lumijit.functions.matrices import transpose as transpose
from lumijit.functions.reductions import max as max
from lumijit.functions.reductions import min as min
from lumijit.functions.reductions import prod as prod
from lumijit.functions.reductions import reduce as reduce
from lumijit.functions.reductions import sum as sum
from lumijit.functions.repetition import concat as concat
from lumijit.functions.repetition import copy as copy
from lumijit.functions.repetition import repeat as repeat
from lumijit.functions.repetition import reverse as reverse
from lumijit.functions.repetition import tile as tile
from lumijit.functions.scans import block_prefix_reduce as block_prefix_reduce
from lumijit.functions.scans import block_prefix_sum as block_prefix_sum
from lumijit.functions.scans import block_reduce as block_reduce
from lumijit.functions.scans import block_sum as block_sum
from lumijit.functions.scans import compress as compress
from lumijit.functions.scans import cumsum as cumsum
from lumijit.functions.scans import prefix_reduce as prefix_reduce
from lumijit.functions.scans import prefix_sum as prefix_sum
from lumijit.functions.scattering import scatter as scatter
from lumijit.functions.scattering import scatter_add as scatter_add
from lumijit.functions.scattering import scatter_add_kahan as scatter_add_kahan
from lumijit.functions.scattering import scatter_inc as scatter_inc
from lumijit.functions.scattering import scatter_reduce as scatter_reduce
from lumijit.functions.searching import binary_search as binary_search
from lumijit.functions.selection import allclose as allclose
from lumijit.functions.selection import isfinite as isfinite
from lumijit.functions.selection import isinf as isinf
from lumijit.functions.selection import isnan as isnan
from lumijit.functions.selection import select as select
from lumijit.functions.selection import step as step
from lumijit.functions.shaping import ravel as ravel
from lumijit.functions.shaping import reshape as reshape
from lumijit.functions.shaping import slice as slice
from lumijit.functions.shaping import unravel as unravel
from lumijit.functions.sizes import shape as shape
from lumijit.functions.sizes import width as width
from lumijit.functions.transcendental import acos as acos
from lumijit.functions.transcendental import acosh as acosh
from lumijit.functions.transcendental import asin as asin
from lumijit.functions.transcendental import asinh as asinh
from lumijit.functions.transcendental import atan as atan
from lumijit.functions.transcendental import atan2 as atan2
from lumijit.functions.transcendental import atanh as atanh
from lumijit.functions.transcendental import cbrt as cbrt
from lumijit.functions.transcendental import cos as cos
from lumijit.functions.transcendental import cosh as cosh
from lumijit.functions.transcendental import deg2rad as deg2rad
from lumijit.functions.transcendental import erf as erf
from lumijit.functions.transcendental import erfinv as erfinv
from lumijit.functions.transcendental import exp as exp
from lumijit.functions.transcendental import exp2 as exp2
from lumijit.functions.transcendental import hypot as hypot
from lumijit.functions.transcendental import lgamma as lgamma
from lumijit.functions.transcendental import log as log
from lumijit.functions.transcendental import log2 as log2
from lumijit.functions.transcendental import power as power
from lumijit.functions.transcendental import rad2deg as rad2deg
from lumijit.functions.transcendental import safe_acos as safe_acos
from lumijit.functions.transcendental import safe_asin as safe_asin
from lumijit.functions.transcendental import safe_sqrt as safe_sqrt
from lumijit.functions.transcendental import sin as sin
from lumijit.functions.transcendental import sincos as sincos
from lumijit.functions.transcendental import sincosh as sincosh
from lumijit.functions.transcendental import sinh as sinh
from lumijit.functions.transcendental import tan as tan
from lumijit.functions.transcendental import tanh as tanh
from lumijit.functions.vectors import abs_dot as abs_dot
from lumijit.functions.vectors import cross as cross
from lumijit.functions.vectors import dot as dot
from lumijit.functions.vectors import norm as norm
from lumijit.functions.vectors import normalize as normalize
from lumijit.functions.vectors import sphdir as sphdir
from lumijit.functions.vectors import squared_norm as squared_norm
from lumijit.functions.vectors import unit_angle as unit_angle
from lumijit.instances import instance_array_t as instance_array_t
from lumijit.runtime import version as _version
from lumijit.runtime.buffers import flush_malloc_cache as flush_malloc_cache
from lumijit.runtime.config import JitFlag as JitFlag
from lumijit.runtime.config import flag as flag
from lumijit.runtime.config import scoped_set_flag as scoped_set_flag
from lumijit.runtime.config import set_flag as set_flag
from lumijit.runtime.history import JitBackend as JitBackend
from lumijit.runtime.history import KernelType as KernelType
from lumijit.runtime.history import kernel_history as kernel_history
from lumijit.runtime.history import kernel_history_clear as kernel_history_clear
from lumijit.runtime.log import LogLevel as LogLevel
from lumijit.runtime.log import log_level as log_level
from lumijit.runtime.log import set_log_level as set_log_level
from lumijit.runtime.workers import set_thread_count as set_thread_count
from lumijit.runtime.workers import thread_count as thread_count
from lumijit.syntax import hint as hint
from lumijit.syntax import syntax as syntax
from lumijit.syntax.decorator import import_by as _import_by
from lumijit.tensors.subscripts import slice_index as slice_index
from lumijit.traits import backend_v as backend_v
from lumijit.traits import depth_v as depth_v
from lumijit.traits import is_arithmetic_v as is_arithmetic_v
from lumijit.traits import is_array_v as is_array_v
from lumijit.traits import is_complex_v as is_complex_v
from lumijit.traits import is_diff_v as is_diff_v
from lumijit.traits import is_dynamic_v as is_dynamic_v
from lumijit.traits import is_float_v as is_float_v
from lumijit.traits import is_half_v as is_half_v
from lumijit.traits import is_integral_v as is_integral_v
from lumijit.traits import is_jit_v as is_jit_v
from lumijit.traits import is_mask_v as is_mask_v
from lumijit.traits import is_matrix_v as is_matrix_v
from lumijit.traits import is_quaternion_v as is_quaternion_v
from lumijit.traits import is_signed_v as is_signed_v
from lumijit.traits import is_special_v as is_special_v
from lumijit.traits import is_struct_v as is_struct_v
from lumijit.traits import is_tensor_v as is_tensor_v
from lumijit.traits import is_unsigned_v as is_unsigned_v
from lumijit.traits import is_vector_v as is_vector_v
from lumijit.traits import itemsize_v as itemsize_v
from lumijit.traits import size_v as size_v
from lumijit.traits import type_v as type_v
from lumijit.type_traits import array_t as array_t
from lumijit.type_traits import detached_t as detached_t
from lumijit.type_traits import diff_array_t as diff_array_t
from lumijit.type_traits import expr_t as expr_t
from lumijit.type_traits import float16_array_t as float16_array_t
from lumijit.type_traits import float32_array_t as float32_array_t
from lumijit.type_traits import float64_array_t as float64_array_t
from lumijit.type_traits import float_array_t as float_array_t
from lumijit.type_traits import int8_array_t as int8_array_t
from lumijit.type_traits import int32_array_t as int32_array_t
from lumijit.type_traits import int64_array_t as int64_array_t
from lumijit.type_traits import int_array_t as int_array_t
from lumijit.type_traits import leaf_t as leaf_t
from lumijit.type_traits import mask_t as mask_t
from lumijit.type_traits import matrix_t as matrix_t
from lumijit.type_traits import quaternion_t as quaternion_t
from lumijit.type_traits import reinterpret_array_t as reinterpret_array_t
from lumijit.type_traits import replace_shape_t as replace_shape_t
from lumijit.type_traits import replace_type_t as replace_type_t
from lumijit.type_traits import scalar_t as scalar_t
from lumijit.type_traits import tensor_t as tensor_t
from lumijit.type_traits import uint8_array_t as uint8_array_t
from lumijit.type_traits import uint32_array_t as uint32_array_t
from lumijit.type_traits import uint64_array_t as uint64_array_t
from lumijit.type_traits import uint_array_t as uint_array_t
from lumijit.type_traits import value_t as value_t

# What few programs use is imported by those that do: by module. A test holds that these
# have it (type checkers read the stub). The first are modules themselves.
_LATER = {
    "": ("cuda", "dda", "hashgrid", "nn", "opt"),
    "compiler.derive.checkpoints": ("checkpoint_memory", "set_checkpoint_memory"),
    "control": ("Local", "alloc_local", "dispatch", "if_stmt", "switch", "while_loop"),
    "debug.assertions": ("assert_equal", "assert_false", "assert_true"),
    "debug.diagram": ("graphviz",),
    "debug.output": ("format", "print"),
    "debug.profile": ("profile_enable", "profile_mark", "profile_range"),
    "debug.ptx": ("ptx",),
    "debug.run_lane": ("run_lane",),
    "debug.tracked": ("graphviz_ad", "whos_ad"),
    "debug.whos": ("whos",),
    "derivatives.custom": ("CustomOp", "custom"),
    "derivatives.functional": ("hvp", "jvp", "value_and_grad", "vjp"),
    "derivatives.gradcheck": ("gradcheck",),
    "derivatives.propagation": (
        *("ADFlag", "ADMode", "backward", "backward_from", "backward_to", "enqueue"),
        *("forward", "forward_from", "forward_to", "traverse"),
    ),
    "functions.colors": (
        *("linear_srgb_to_oklab", "linear_to_srgb", "oklab_to_linear_srgb"),
        *("srgb_to_linear",),
    ),
    "functions.comparison": ("assert_allclose",),
    "functions.elliptic": (
        *("comp_ellint_1", "comp_ellint_2", "comp_ellint_3", "ellint_1", "ellint_2"),
        *("ellint_3",),
    ),
    "functions.exchanges": ("scatter_cas", "scatter_exch"),
    "functions.harmonics": ("sh_eval",),
    "functions.likeness": ("empty_like", "ones_like", "opaque_width", "zeros_like"),
    "functions.products": ("mul_hi", "mul_wide"),
    "functions.rotations": (
        *("euler_to_quat", "matrix_to_quat", "quat_apply", "quat_to_euler"),
        *("quat_to_matrix", "rotate", "slerp", "transform_compose"),
        *("transform_decompose",),
    ),
    "functions.sorting": ("argmax", "argmin", "argsort", "median", "sort"),
    "functions.statistics": ("mean", "std", "var"),
    "functions.tuning": ("flush_thread", "func", "reorder_threads"),
    "interop.bridge": ("wrap",),
    "random.generator": ("rng",),
    "replay.decorator": ("freeze", "kernel"),
    "tensors.filters": ("convolve", "resample", "upsample"),
    "tensors.joining": (
        *("array_split", "column_stack", "dstack", "hstack", "row_stack", "split"),
        *("stack", "vstack"),
    ),
    "tensors.shapes": ("expand_dims", "moveaxis", "squeeze", "swapaxes"),
    "tensors.taking": ("take", "take_interp"),
}
_HOMES = {_name: _home for _home, _names in _LATER.items() for _name in _names}


def __getattr__(name: str) -> object:
    """Import a function when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]
    value = _import_module(f"{__name__}.{home or name}")
    if home:
        value = getattr(value, name)
    globals()[name] = value
    return value


__version__ = _version.VERSION

_import_by(lambda: _import_module("lumijit.control.install"))
_install_derivatives()

_MODULES = ("auto", "llvm", "pytree", "random", "scalar")
# Where lumijit is used, nobody wants to see which modules it consists of.
__all__ = [
    _name
    for _name, _value in globals().items()
    if not _name.startswith("_")
    and (not isinstance(_value, _ModuleType) or _name in _MODULES)
]
__all__ += list(_HOMES)


def __dir__() -> list[str]:
    """List what programs use."""
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__version__"]
