"""PyTorch: generator, defaults of new tensors, threads, printing, hooks, registries, and modes that are open."""

from __future__ import annotations

import ctypes
import sys
import typing as t

from holdfast.libraries import Imported, Registry, Replay, Setting, functions
from holdfast.libraries.torch.modes import modes

torch = Imported("torch")
_tensor_str = Imported("torch._tensor_str")
_serialization = Imported("torch.serialization")
_sparse = Imported("torch.sparse")
_kl = Imported("torch.distributions.kl")


# ---- values


def _generator() -> bytes:
    """The state of the CPU's generator."""
    return _bytes_of(torch.get_rng_state())  # 5 KB, in each commit


def _set_generator(new: bytes) -> None:
    torch.set_rng_state(_tensor_of(new))


def _bytes_of(state: t.Any) -> bytes:
    return ctypes.string_at(state.data_ptr(), state.numel())  # no list of numbers


def _tensor_of(state: bytes) -> t.Any:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)


def _gpu_generators() -> list[bytes] | int | None:
    """The states of CUDA's generators. A process that hasn't started CUDA isn't made to: then it is what will be set
    when it does, by us or by `manual_seed`, and None for nothing."""
    cuda = torch.cuda
    if cuda.is_initialized():
        return [_bytes_of(cuda.get_rng_state(i)) for i in range(cuda.device_count())]
    calls = [call for call in cuda._lazy_seed_tracker.get_calls() if call is not None]
    return getattr(calls[-1][0], "states", torch.initial_seed()) if calls else None


def _set_gpu_generators(new: list[bytes] | int) -> None:
    if isinstance(new, int):
        torch.cuda.manual_seed_all(new)
        return

    def set_states() -> None:
        for generator, state in zip(torch.cuda.default_generators, new, strict=False):
            generator.set_state(_tensor_of(state))

    set_states.states = new  # type: ignore[attr-defined]
    # As a seed: the last one replaces all before, and `set_rng_state` would come before them.
    torch.cuda._lazy_call(set_states, seed_all=True)


def _name(dtype: t.Any) -> str:
    return str(dtype).removeprefix("torch.")


def _deterministic() -> list[bool]:
    return [
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    ]


def _print_options() -> dict[str, t.Any]:
    return dict(vars(_tensor_str.PRINT_OPTS))


def _anomalies() -> list[bool]:
    return [torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()]


def _device_context() -> t.Any:
    return getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)


def _device() -> str:
    """What `set_default_device` set; to ask PyTorch for the device would make a tensor."""
    context = _device_context()
    return "" if context is None else str(context.device)


def _open_device() -> str:
    """The device of a `with torch.device(...)` that a cell has entered and not left."""
    core = torch._C
    mode = core._get_function_stack_at(0) if core._len_torch_function_stack() else None
    if mode is _device_context():
        return ""
    return str(mode.device) if type(mode).__name__ == "DeviceContext" else ""


def _endianness() -> str:
    """The byte order of files that don't name it; "" for the machine's."""
    found = _serialization.get_default_load_endianness()
    return "" if found is None else found.name


def _set_endianness(new: str) -> None:
    kind = _serialization.LoadEndianness[new] if new else None
    _serialization.set_default_load_endianness(kind)


_DEVICES = ("cpu", "cuda")


def _autocast() -> dict[str, list[t.Any]]:
    """By kind of device; and, below "", whether what it has cast is kept."""
    found: dict[str, list[t.Any]] = {
        kind: [torch.is_autocast_enabled(kind), _name(torch.get_autocast_dtype(kind))]
        for kind in _DEVICES
    }
    return {**found, "": [torch.is_autocast_cache_enabled()]}


def _set_autocast(new: dict[str, list[t.Any]]) -> None:
    torch.set_autocast_cache_enabled(*new[""])
    for kind in _DEVICES:
        enabled, dtype = new[kind]
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, getattr(torch, dtype))


_SMALLEST = [sys.float_info.min]  # a list: nothing is computed before the program runs


def _flushes_denormals() -> bool:
    """The processor's mode holds for Python's floats, too."""
    return _SMALLEST[0] * 0.5 == 0.0


def _checks_sparse() -> bool:
    return _sparse.check_sparse_tensor_invariants.is_enabled()


def _set_checks_sparse(new: bool) -> None:
    checks = _sparse.check_sparse_tensor_invariants
    (checks.enable if new else checks.disable)()


_CONVERSION = "get_{}_module_params_on_conversion", "set_{}_module_params_on_conversion"


def _conversion(name: str, what: str) -> Setting:
    getter, setter = (one.format(what) for one in _CONVERSION)
    return functions(name, "torch.__future__", getter, setter, "torch")


# ---- hooks and registries


def _forget_divergences() -> None:
    """Which function PyTorch has found for two distributions."""
    _kl._KL_MEMOIZE.clear()


_GLOBAL_HOOKS = tuple(
    f"_global_{name}"
    for name in (
        "buffer_registration_hooks module_registration_hooks parameter_registration_hooks"
        " backward_pre_hooks backward_hooks is_full_backward_hook forward_pre_hooks forward_hooks"
        " forward_hooks_always_called forward_hooks_with_kwargs"
    ).split()
)


ASIDE = modes.aside

DECLARATIONS = (
    Setting("state of the generator", _generator, _set_generator, is_drawn=True),
    Setting(
        "states of the generators on GPUs",
        _gpu_generators,
        _set_gpu_generators,
        is_drawn=True,
    ),
    Setting(
        "default type",
        lambda: _name(torch.get_default_dtype()),
        lambda new: torch.set_default_dtype(getattr(torch, new)),
    ),
    functions("recording of gradients", "torch", "is_grad_enabled", "set_grad_enabled"),
    functions("threads", "torch", "get_num_threads", "set_num_threads"),
    functions(
        "threads for operations",
        "torch",
        "get_num_interop_threads",
        "set_num_interop_threads",
    ),
    Setting(
        "deterministic algorithms",
        _deterministic,
        lambda new: torch.use_deterministic_algorithms(new[0], warn_only=new[1]),
    ),
    Setting(
        "print options",
        _print_options,
        lambda new: vars(_tensor_str.PRINT_OPTS).update(new),
        "torch._tensor_str",
    ),
    functions(
        "precision of products",
        "torch",
        "get_float32_matmul_precision",
        "set_float32_matmul_precision",
    ),
    functions("repeated warnings", "torch", "is_warn_always_enabled", "set_warn_always"),
    Setting(
        "detection of anomalies",
        _anomalies,
        lambda new: torch.autograd.set_detect_anomaly(*new),
    ),
    Setting("default device", _device, lambda new: torch.set_default_device(new or None)),
    Setting("device in a context that is open", _open_device, fresh=""),
    Setting("autocast", _autocast, _set_autocast),
    functions(
        "checksums of files",
        "torch.serialization",
        "get_crc32_options",
        "set_crc32_options",
        "torch",
    ),
    Setting("order of bytes in files", _endianness, _set_endianness),
    functions("directory of models", "torch.hub", "get_dir", "set_dir", "torch"),
    functions(
        "way to share tensors",
        "torch.multiprocessing",
        "get_sharing_strategy",
        "set_sharing_strategy",
        "torch",
    ),
    Setting(
        "denormal numbers",
        _flushes_denormals,
        lambda new: torch.set_flush_denormal(new),
    ),
    Setting("checks of sparse tensors", _checks_sparse, _set_checks_sparse),
    _conversion("conversion of modules", "overwrite"),
    _conversion("exchange of parameters", "swap"),
    Setting("modes", modes.get, modes.set, has_values=True),
    Registry("hooks for all modules", "torch.nn.modules.module", "", _GLOBAL_HOOKS),
    Registry(
        "hooks for all optimizers",
        "torch.optim.optimizer",
        "",
        ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"),
    ),
    Registry(
        "classes in files",
        "torch._weights_only_unpickler",
        "",
        ("_marked_safe_globals_set",),
        fixed=True,
    ),
    Registry(
        "divergences",
        "torch.distributions.kl",
        "",
        ("_KL_REGISTRY",),
        fixed=True,
        then=_forget_divergences,
    ),
    Replay("trees", (("torch.utils._pytree", "register_pytree_node"),)),
)
