"""IPython in a worker: its application, its shell, what it remembers and what it shows."""
