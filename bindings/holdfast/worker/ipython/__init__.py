"""IPython in a worker: its application, its shell, its memory of the session, and what it shows."""
