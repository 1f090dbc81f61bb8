"""The processes that run user code: a fork server, the main worker, cell workers.

`python -m holdfast.worker --control-fd N --session-fd M` starts the fork server (fork_server.py), which forks
the others. N and M are descriptors that it inherits. Nothing here is public: the protocol is
docs/control-protocol.md.
"""
