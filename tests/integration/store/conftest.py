"""The fixtures of a test that has a store."""

from tests.stores import empty_store, free_port, location, mlflow_imported, runs  # noqa: F401
