"""The analysis of a cell's code and of the values that it names.

Which names can it reach?
    reach.py, own_modules.py (modules that may look at any name)
Which variables can plain cells have changed?
    touched.py, looking.py (cells that only show something)
Which memory does it write and read?
    writes.py, expression_values.py (what an expression is), spans.py (where the arrays of a value lie)
"""
