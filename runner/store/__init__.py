"""The tracking store: MLflow, in a process of its own. No other package imports MLflow."""
