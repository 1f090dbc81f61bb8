"""What a notebook sets of boards, beside its variables. It doesn't import the library."""

from holdfast.libraries import Imported, Setting

boards = Imported("boards")

DECLARATIONS = (Setting("edge", lambda: boards.edge, lambda kind: boards.set_edge(kind)),)
