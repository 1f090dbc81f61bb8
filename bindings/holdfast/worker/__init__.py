"""The processes that run user code: a template, the home, cell workers.

`python -m holdfast.worker --control-fd N --session-fd M` starts the template (template.py), which
forks the others. Nothing here is public: the protocol is docs/control-protocol.md.
"""
