"""Notebooks in ipykernel and in Holdfast, side by side: what differs, and whether it is known.

`notebooks` reads them, `modes` says how Holdfast runs their cells, `kernels` runs them, `compare`
says what differs, `known` which differences are listed, `inventions` makes random ones.
"""
