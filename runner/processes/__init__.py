"""Processes: every trial in a fresh child of a zygote that has TensorFlow loaded. See README.md."""
