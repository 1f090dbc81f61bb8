"""What a notebook may use, in words."""

from __future__ import annotations

from .sampled import Resources


def text(resources: Resources) -> str:
    """The lines of %perfmonitor_resources."""
    lines = ["Resources:"]
    if resources.get("host"):
        lines.append(f"  Host: {resources['host']}")
    cpus = f"  CPUs: {resources.get('cores'):g}"
    if resources.get("machine_cores"):
        cpus += f" of the machine's {resources['machine_cores']}"
    lines += [cpus, *_memory(resources)]
    gpus = resources.get("gpus") or []
    trouble = resources.get("gpu_trouble")
    lines.append(f"  GPUs: {len(gpus)}" + (f" ({trouble})" if trouble and not gpus else ""))
    lines += [f"    {gpu['name']}, {gpu['memory']:.2f} GB" for gpu in gpus]
    if resources.get("levels"):
        lines.append(f"  Levels: {', '.join(resources['levels'])}")
    return "\n".join(lines)


def _memory(resources: Resources) -> list[str]:
    lines = []
    if resources.get("memory_limit"):
        source = resources.get("memory_limit_source")
        lines.append(
            f"  Memory: {resources['memory_limit']:.2f} GB" + (f" ({source})" if source else "")
        )
    if resources.get("memory"):
        lines.append(f"    of the machine: {resources['memory']:.2f} GB")
    if resources.get("slurm_limit"):
        source = resources.get("slurm_limit_source")
        lines.append(
            f"    of the Slurm job {resources.get('slurm_job')}: {resources['slurm_limit']:.2f} GB"
            + (f" ({source})" if source else "")
        )
    return lines
