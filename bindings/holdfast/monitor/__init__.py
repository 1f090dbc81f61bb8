"""The cost of a notebook's cells: the %perfmonitor commands, under JUmPER's names.

The sampler, written in C, measures from outside of the notebook's processes (`source`). This package is the part that
the user sees. It is imported when a command is first used. `registration` has the names of the commands.
"""
