"""State of libraries that a process can be asked for: rows for rows.py.

A row is added to the table here (row.py).
"""

from __future__ import annotations

import random
import sys
import typing as t

from . import calls
from .row import Row, module_of, pair

# ---- PyTorch's


def _print_options(shell: t.Any) -> dict[str, t.Any]:
    return dict(vars(module_of("torch._tensor_str").PRINT_OPTS))


def _set_print_options(new: dict[str, t.Any]) -> None:
    vars(module_of("torch._tensor_str").PRINT_OPTS).update(new)


def _anomalies(shell: t.Any) -> list[bool]:
    torch = module_of("torch")
    return [torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()]


def _set_anomalies(new: list[bool]) -> None:
    module_of("torch").autograd.set_detect_anomaly(*new)


def _device(shell: t.Any) -> str:
    """What `set_default_device` set; to ask PyTorch for the device would make a tensor."""
    context = getattr(module_of("torch")._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return "" if context is None else str(context.device)


def _set_device(new: str) -> None:
    module_of("torch").set_default_device(new or None)


def _open_device(shell: t.Any) -> str:
    """Of a `with torch.device(...)` that a cell has entered and not left."""
    core = module_of("torch")._C
    mode = core._get_function_stack_at(0) if core._len_torch_function_stack() else None
    if mode is getattr(module_of("torch")._GLOBAL_DEVICE_CONTEXT, "device_context", None):
        return ""
    return str(mode.device) if type(mode).__name__ == "DeviceContext" else ""


def _endianness(shell: t.Any) -> str:
    """Of files that don't say it; "" for the machine's."""
    found = module_of("torch.serialization").get_default_load_endianness()
    return "" if found is None else found.name


def _set_endianness(new: str) -> None:
    serialization = module_of("torch.serialization")
    kind = serialization.LoadEndianness[new] if new else None
    serialization.set_default_load_endianness(kind)


def _autocast(shell: t.Any) -> dict[str, list[t.Any]]:
    """By kind of device; and, below "", whether what it has cast is kept."""
    torch = module_of("torch")
    found: dict[str, list[t.Any]] = {
        kind: [
            torch.is_autocast_enabled(kind),
            str(torch.get_autocast_dtype(kind)).removeprefix("torch."),
        ]
        for kind in ("cpu", "cuda")
    }
    return {**found, "": [torch.is_autocast_cache_enabled()]}


def _set_autocast(new: dict[str, list[t.Any]]) -> None:
    torch = module_of("torch")
    torch.set_autocast_cache_enabled(*new.pop(""))
    for kind, (enabled, dtype) in new.items():
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, getattr(torch, dtype))


_SMALLEST = [sys.float_info.min]  # a list: nothing is computed before the program runs


def _flushes_denormals(shell: t.Any) -> bool:
    """The processor's mode holds for Python's floats, too."""
    return _SMALLEST[0] * 0.5 == 0.0


def _checks_sparse(shell: t.Any) -> bool:
    return module_of("torch.sparse").check_sparse_tensor_invariants.is_enabled()


def _set_checks_sparse(new: bool) -> None:
    checks = module_of("torch.sparse").check_sparse_tensor_invariants
    (checks.enable if new else checks.disable)()


# ---- of others


def _polars_formats(shell: t.Any) -> dict[str, t.Any]:
    """Options that Polars keeps for itself; others are in the environment."""
    return {name: get() for name, get in module_of("polars.config")._POLARS_CFG_DIRECT_VARS.items()}


def _set_polars_formats(new: dict[str, t.Any]) -> None:
    for name, value in new.items():
        getattr(module_of("polars.config").Config, name)(value)


_TF_CONTEXT = "tensorflow.python.eager.context"


def _tensorflow_seed(shell: t.Any) -> list[t.Any]:
    """The seed for all operations, and the state of the generator that gives each of them its own."""
    context = module_of(_TF_CONTEXT)._context
    if context is None or context._seed is None:
        return []
    return [int(context._seed), context._rng.getstate()]


def _set_tensorflow_seed(new: list[t.Any]) -> None:
    context = module_of(_TF_CONTEXT).context()
    seed, state = new or (None, random.Random().getstate())
    if context._seed != seed:
        context._set_global_seed(seed)
    context._rng.setstate(state)


def _sympy_generator(shell: t.Any) -> t.Any:
    """Not that which the assumptions shuffle their rules by, always: no answer depends on it."""
    return module_of("sympy.core.random").rng.getstate()


LIBRARY_ROWS: dict[str, Row] = {
    "PyTorch's print options": Row("torch._tensor_str", _print_options, _set_print_options),
    "PyTorch's precision of products": pair(
        "torch", "get_float32_matmul_precision", "set_float32_matmul_precision"
    ),
    "PyTorch's repeated warnings": pair("torch", "is_warn_always_enabled", "set_warn_always"),
    "PyTorch's detection of anomalies": Row("torch", _anomalies, _set_anomalies),
    "PyTorch's default device": Row("torch", _device, _set_device),
    "PyTorch's device in a context that is open": Row("torch", _open_device, None, ""),
    "PyTorch's autocast": Row("torch", _autocast, _set_autocast),
    "PyTorch's threads for operations": pair(
        "torch", "get_num_interop_threads", "set_num_interop_threads"
    ),
    "PyTorch's checksums of files": pair(
        "torch.serialization", "get_crc32_options", "set_crc32_options", "torch"
    ),
    "PyTorch's order of bytes": Row("torch", _endianness, _set_endianness),
    "PyTorch's directory of models": pair("torch.hub", "get_dir", "set_dir", "torch"),
    "PyTorch's way to share tensors": pair(
        "torch.multiprocessing", "get_sharing_strategy", "set_sharing_strategy", "torch"
    ),
    "PyTorch's denormal numbers": Row(
        "torch",
        _flushes_denormals,
        lambda new: module_of("torch").set_flush_denormal(new),
    ),
    "PyTorch's checks of sparse tensors": Row("torch", _checks_sparse, _set_checks_sparse),
    "how PyTorch's modules are converted": pair(
        "torch.__future__",
        "get_overwrite_module_params_on_conversion",
        "set_overwrite_module_params_on_conversion",
        "torch",
    ),
    "whether PyTorch swaps parameters": pair(
        "torch.__future__",
        "get_swap_module_params_on_conversion",
        "set_swap_module_params_on_conversion",
        "torch",
    ),
    "Polars' formats of numbers": Row("polars.config", _polars_formats, _set_polars_formats),
    "Polars' seed": Row(
        "polars",
        lambda shell: calls.count("polars", "set_random_seed"),
        None,
        0,
    ),
    "SciPy's errors of special functions": Row(
        "scipy.special",
        lambda shell: module_of("scipy.special").geterr(),
        lambda new: module_of("scipy.special").seterr(**new),
    ),
    "SymPy's generator of random numbers": Row(
        "sympy.core.random",
        _sympy_generator,
        lambda new: module_of("sympy.core.random").rng.setstate(new),
    ),
    "TensorFlow's seed": Row(_TF_CONTEXT, _tensorflow_seed, _set_tensorflow_seed),
}
