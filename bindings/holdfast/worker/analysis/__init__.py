"""The analysis of a cell before it runs: which names it can reach, which memory it reads or writes."""
