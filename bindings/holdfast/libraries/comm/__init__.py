"""comm: the targets that the notebook has registered."""

from holdfast.libraries import Imported, Registry

_comm = Imported("comm")

DECLARATIONS = (
    Registry(
        "targets",
        "comm",
        holders=lambda names: {"targets": _comm.get_comm_manager().targets},
    ),
)
