"""A search: Optuna is asked for cells, and told what came of them."""
