"""A package, so that fixtures can last as long as its tests: see conftest.py."""
