"""The standard library: calls that register something, and numbers in names."""

from . import Counter, Replay


def _call(module: str, name: str, back: str = "") -> Replay:
    return Replay(f"{module}.{name}()", ((module, name),), back)


DECLARATIONS = (
    _call("codecs", "register", "unregister"),
    _call("codecs", "register_error"),
    _call("logging", "captureWarnings"),
    _call("mimetypes", "add_type"),
    _call("shutil", "register_archive_format", "unregister_archive_format"),
    _call("shutil", "register_unpack_format", "unregister_unpack_format"),
    _call("sys", "addaudithook"),
    _call("urllib.request", "install_opener"),
    _call("webbrowser", "register"),
    _call("xml.etree.ElementTree", "register_namespace"),
    # Threads and processes are named by them.
    Counter("concurrent.futures.thread", "ThreadPoolExecutor._counter"),
    Counter("multiprocessing.process", "_process_counter"),
    Counter("threading", "_counter"),
)
