"""The state of a process that is no variable, carried between the main worker and its cells.

Begin with state.py, which has the order. Then by the question:

How was it before the notebook's code ran?
    baseline.py
What the process, the interpreter or the system has: a value that one function reads and another one sets
    process_settings.py (the table), plain_settings.py (carries it)
Settings that may be objects of the notebook: filters of warnings, handlers of signals, finders
    slots.py
What a library has, as its file in holdfast/libraries declares it
    library_state.py; by the kind of the declaration registry_contents.py, registry_additions.py, replays.py,
    counters.py; memo.py says when nothing is read again
What modules hold
    attributes.py (reads and sets it), differences.py (finds what the notebook has changed), dispatchers.py and
    function_results.py (what their functions remember), thread_locals.py
Which modules there are, and from which files
    module_entries.py (`sys.modules`), module_files.py (found by their files), own_code.py (their text, and
    loading anew)
What isn't carried, and is named
    census.py, exit_handlers.py
"""
