"""lumijit: ordinary Python, traced into megakernels."""

from lumijit import auto, llvm, pytree, scalar
from lumijit.backend import set_backend
from lumijit.base import ArrayBase
from lumijit.compiler.evaluate import expand_threshold, set_expand_threshold
from lumijit.constants import (
    Dynamic,
    e,
    epsilon,
    four_pi,
    inf,
    inv_four_pi,
    inv_log_two,
    inv_pi,
    inv_sqrt_four_pi,
    inv_sqrt_pi,
    inv_sqrt_two,
    inv_sqrt_two_pi,
    inv_two_pi,
    largest,
    log_two,
    nan,
    newaxis,
    one_minus_epsilon,
    pi,
    recip_overflow,
    smallest,
    sqrt_four_pi,
    sqrt_pi,
    sqrt_two,
    sqrt_two_pi,
    two_pi,
)
from lumijit.control import if_stmt, while_loop
from lumijit.control.install import install as _install_control
from lumijit.enums import ReduceMode, ReduceOp, VarState, VarType
from lumijit.functions.bits import (
    brev,
    log2i,
    lzcnt,
    popcnt,
    reinterpret_array,
    tzcnt,
)
from lumijit.functions.creation import (
    arange,
    empty,
    full,
    linspace,
    ones,
    opaque,
    zeros,
)
from lumijit.functions.elementwise import (
    abs,
    ceil,
    clip,
    copysign,
    floor,
    fma,
    lerp,
    maximum,
    minimum,
    mulsign,
    rcp,
    round,
    rsqrt,
    sign,
    sqrt,
    trunc,
)
from lumijit.functions.evaluation import (
    eval,
    flush_kernel_cache,
    has_backend,
    make_opaque,
    schedule,
    set_label,
    sync_thread,
)
from lumijit.functions.grids import meshgrid
from lumijit.functions.linear import (
    abs_dot,
    cross,
    dot,
    norm,
    normalize,
    squared_norm,
)
from lumijit.functions.masks import (
    all,
    all_nested,
    any,
    any_nested,
    count,
    none,
    none_nested,
)
from lumijit.functions.memory import (
    gather,
    scatter,
    scatter_add,
    scatter_inc,
    scatter_reduce,
)
from lumijit.functions.queries import shape, width
from lumijit.functions.reductions import max, mean, min, prod, reduce, sum
from lumijit.functions.scans import (
    block_reduce,
    block_sum,
    compress,
    cumsum,
    prefix_sum,
)
from lumijit.functions.selection import allclose, isfinite, isinf, isnan, select
from lumijit.functions.shaping import (
    concat,
    copy,
    ravel,
    repeat,
    reshape,
    reverse,
    slice,
    tile,
    unravel,
)
from lumijit.functions.transcendental import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cbrt,
    cos,
    cosh,
    deg2rad,
    erf,
    erfinv,
    exp,
    exp2,
    hypot,
    lgamma,
    log,
    log2,
    power,
    rad2deg,
    safe_acos,
    safe_asin,
    safe_sqrt,
    sin,
    sincos,
    sincosh,
    sinh,
    tan,
    tanh,
)
from lumijit.llvm import ad as _ad  # so that lumijit.llvm.ad needs no import
from lumijit.rewriting import hint, syntax
from lumijit.runtime.buffers import flush_malloc_cache
from lumijit.runtime.config import JitFlag, flag, scoped_set_flag, set_flag
from lumijit.runtime.history import (
    JitBackend,
    KernelType,
    kernel_history,
    kernel_history_clear,
)
from lumijit.runtime.log import LogLevel, log_level, set_log_level
from lumijit.runtime.workers import set_thread_count, thread_count
from lumijit.traits import (
    backend_v,
    depth_v,
    is_arithmetic_v,
    is_array_v,
    is_complex_v,
    is_diff_v,
    is_dynamic_v,
    is_float_v,
    is_half_v,
    is_integral_v,
    is_jit_v,
    is_mask_v,
    is_signed_v,
    is_struct_v,
    is_unsigned_v,
    is_vector_v,
    itemsize_v,
    size_v,
    type_v,
)
from lumijit.type_traits import (
    array_t,
    detached_t,
    diff_array_t,
    expr_t,
    float16_array_t,
    float32_array_t,
    float64_array_t,
    float_array_t,
    int32_array_t,
    int64_array_t,
    int_array_t,
    leaf_t,
    mask_t,
    reinterpret_array_t,
    replace_shape_t,
    replace_type_t,
    scalar_t,
    uint32_array_t,
    uint64_array_t,
    uint_array_t,
    value_t,
)

_install_control()
