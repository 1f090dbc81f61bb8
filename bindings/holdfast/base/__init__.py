"""Modules that every room may use: hooks of imports and forks, texts, resource usage. They use no other room."""
