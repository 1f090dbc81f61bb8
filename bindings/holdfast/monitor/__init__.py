"""The cost of a notebook's cells: the %perfmonitor commands, under JUmPER's names.

The C sampler measures from outside the notebook's processes (`source`). This package is the part that
the user sees. It is imported when a command is first used: `registration` has the names.
"""
