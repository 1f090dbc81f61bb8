"""tqdm: progress bars for pandas."""

from . import Replay

DECLARATIONS = (Replay("bars for pandas", (("tqdm.std", "tqdm.pandas"),), through=True),)
