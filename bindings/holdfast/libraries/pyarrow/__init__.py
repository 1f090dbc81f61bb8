"""Arrow: threads, types and functions of the notebook's own."""

from holdfast.libraries import Replay, functions

DECLARATIONS = (
    functions("threads", "pyarrow", "cpu_count", "set_cpu_count"),
    functions("threads for files", "pyarrow", "io_thread_count", "set_io_thread_count"),
    Replay(
        "types",
        (("pyarrow", "register_extension_type"),),
        "unregister_extension_type",
        lambda kind: kind.extension_name,
    ),
    *(
        Replay(f"{kind} functions", (("pyarrow.compute", f"register_{kind}_function"),))
        for kind in ("aggregate", "scalar", "tabular", "vector")
    ),
)
