"""The machine below it all: processes that end together, NVIDIA's cards."""
