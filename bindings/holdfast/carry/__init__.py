"""How a value crosses to another process: the pickler, what its pickles call, what is never copied."""
