"""Outputs of cells without what differs between two runs of one kernel."""

import re


def normal(text):
    """Without addresses, process numbers in file names, times, and threads' numbers."""
    text = re.sub(r"0x[0-9a-f]{6,}", "0xADDRESS", text)
    text = re.sub(r"x[0-9a-f]{12}&gt;", "xADDRESS&gt;", text)  # shortened, in a table of HTML
    text = re.sub(r"ipykernel_\d+[/\\]\d+\.py", "ipykernel_PID/CELL.py", text)
    text = re.sub(r"\b\d+\.py\b", "CELL.py", text)
    text = re.sub(r"[\d.]+(?:e[+-]\d+)? (?:ns|us|µs|μs|ms|s)\b", "TIME", text)
    text = re.sub(r"TIME ± TIME|± TIME", "± TIME", text)
    text = re.sub(r"The slowest run took .* being cached\.\n", "", text)  # on a busy machine
    text = re.sub(r"(?<=\()Thread-\d+|Thread \d+", "THREAD", text)
    return text.replace("\r\n", "\n")


def normal_tree(value):
    """The same for every text in a JSON value."""
    if isinstance(value, str):
        return normal(value)
    if isinstance(value, dict):
        return {key: normal_tree(item) for key, item in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [normal_tree(item) for item in value]
    return value
