"""See what a notebook's cells cost: the %perfmonitor commands, under the names that the JUmPER
extension gave them.

The C sampler measures from outside the notebook's processes (`source`). This package is what a
person sees of it, and is imported when a command is first used: `registration` has the names.
"""
