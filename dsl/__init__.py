"""lumijit: ordinary Python, traced into megakernels."""

from importlib import import_module as _import_module

from lumijit.runtime import beginning as _beginning  # noqa: F401

# isort: split
from lumijit.runtime import version as _version
from lumijit.runtime.collector import keep as _keep_objects
from lumijit.runtime.collector import relax as _relax_collector

# What programs use, by module (type checkers read the stub). The first are modules
# themselves.
_NOW = {
    "": ("pytree", "random"),
    "backend": ("scoped_device", "set_backend"),
    "base": ("ArrayBase",),
    "compiler.launch.evaluate": ("expand_threshold", "set_expand_threshold"),
    "constants": (
        *("Dynamic", "e", "epsilon", "four_pi", "inf", "inv_four_pi", "inv_log_two"),
        *("inv_pi", "inv_sqrt_four_pi", "inv_sqrt_pi", "inv_sqrt_two"),
        *("inv_sqrt_two_pi", "inv_two_pi", "largest", "log_two", "nan", "newaxis"),
        *("one_minus_epsilon", "pi", "recip_overflow", "smallest", "sqrt_four_pi"),
        *("sqrt_pi", "sqrt_two", "sqrt_two_pi", "two_pi"),
    ),
    "derivatives.giving": ("accum_grad", "clear_grad", "set_grad"),
    "derivatives.gradients": (
        *("detach", "disable_grad", "enable_grad", "grad", "grad_enabled"),
        *("relative_grad", "replace_grad", "set_grad_enabled"),
    ),
    "derivatives.scopes": ("isolate_grad", "resume_grad", "suspend_grad"),
    "enums": (
        *("FilterMode", "ReduceMode", "ReduceOp", "VarState", "VarType", "WrapMode"),
    ),
    "functions.bits": (
        *("brev", "log2i", "lzcnt", "popcnt", "reinterpret_array", "rotl", "rotr"),
        *("tzcnt",),
    ),
    "functions.complex_parts": ("arg", "conj", "imag", "real"),
    "functions.creation": ("arange", "empty", "full", "linspace", "ones", "zeros"),
    "functions.elementwise": (
        *("abs", "ceil", "clamp", "clip", "copysign", "floor", "fma", "fmax", "fmin"),
        *("lerp", "maximum", "minimum", "mulsign", "rcp", "round", "rsqrt", "sign"),
        *("sqr", "sqrt", "square", "trunc"),
    ),
    "functions.evaluation": (
        *("eval", "flush_kernel_cache", "has_backend", "make_opaque", "opaque"),
        *("schedule", "set_label", "sync_thread"),
    ),
    "functions.full_reductions": (
        *("max_nested", "min_nested", "prod_nested", "sum_nested"),
    ),
    "functions.gathering": ("gather",),
    "functions.grids": ("meshgrid",),
    "functions.masks": (
        *("all", "all_nested", "any", "any_nested", "count", "none", "none_nested"),
    ),
    "functions.matrices": (
        *("det", "diag", "frob", "identity", "inverse", "matmul", "polar_decomp"),
        *("trace", "transpose"),
    ),
    "functions.reductions": ("max", "min", "prod", "reduce", "sum"),
    "functions.repetition": ("concat", "copy", "repeat", "reverse", "tile"),
    "functions.scans": (
        *("block_prefix_reduce", "block_prefix_sum", "block_reduce", "block_sum"),
        *("compress", "cumsum", "prefix_reduce", "prefix_sum"),
    ),
    "functions.scattering": (
        *("scatter", "scatter_add", "scatter_add_kahan", "scatter_inc"),
        *("scatter_reduce",),
    ),
    "functions.searching": ("binary_search",),
    "functions.selection": ("allclose", "isfinite", "isinf", "isnan", "select", "step"),
    "functions.shaping": ("ravel", "reshape", "slice", "unravel"),
    "functions.sizes": ("shape", "width"),
    "functions.transcendental": (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos"),
        *("cosh", "deg2rad", "erf", "erfinv", "exp", "exp2", "hypot", "lgamma", "log"),
        *("log2", "power", "rad2deg", "safe_acos", "safe_asin", "safe_sqrt", "sin"),
        *("sincos", "sincosh", "sinh", "tan", "tanh"),
    ),
    "functions.vectors": (
        *("abs_dot", "cross", "dot", "norm", "normalize", "sphdir", "squared_norm"),
        *("unit_angle",),
    ),
    "instances": ("instance_array_t",),
    "runtime.buffers": ("flush_malloc_cache",),
    "runtime.config": ("JitFlag", "flag", "scoped_set_flag", "set_flag"),
    "runtime.history": (
        *("JitBackend", "KernelType", "kernel_history", "kernel_history_clear"),
    ),
    "runtime.log": ("LogLevel", "log_level", "set_log_level"),
    "runtime.workers": ("set_thread_count", "thread_count"),
    "syntax": ("hint", "syntax"),
    "tensors.subscripts": ("slice_index",),
    "traits": (
        *("backend_v", "depth_v", "is_arithmetic_v", "is_array_v", "is_complex_v"),
        *("is_diff_v", "is_dynamic_v", "is_float_v", "is_half_v", "is_integral_v"),
        *("is_jit_v", "is_mask_v", "is_matrix_v", "is_quaternion_v", "is_signed_v"),
        *("is_special_v", "is_struct_v", "is_tensor_v", "is_unsigned_v", "is_vector_v"),
        *("itemsize_v", "size_v", "type_v"),
    ),
    "type_traits": (
        *("array_t", "detached_t", "diff_array_t", "expr_t", "float16_array_t"),
        *("float32_array_t", "float64_array_t", "float_array_t", "int8_array_t"),
        *("int32_array_t", "int64_array_t", "int_array_t", "leaf_t", "mask_t"),
        *("matrix_t", "quaternion_t", "reinterpret_array_t", "replace_shape_t"),
        *("replace_type_t", "scalar_t", "tensor_t", "uint8_array_t", "uint32_array_t"),
        *("uint64_array_t", "uint_array_t", "value_t"),
    ),
}
# What few programs use is imported by those that do. A test holds that the modules have
# it.
_LATER = {
    "": ("auto", "cuda", "dda", "hashgrid", "llvm", "nn", "opt", "scalar"),
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


def _imported(home: str, name: str) -> object:
    """Import what programs use."""
    module = _import_module(f"{__name__}.{home or name}")
    return getattr(module, name) if home else module


def __getattr__(name: str) -> object:
    """Import a function when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = _imported(_HOMES[name], name)
    return value


__version__ = _version.VERSION
__all__ = [*_HOMES]
for _home, _names in _NOW.items():
    __all__ += _names
    globals().update({_name: _imported(_home, _name) for _name in _names})

_keep_objects()
_relax_collector()


def __dir__() -> list[str]:
    """List what programs use."""
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__version__"]
