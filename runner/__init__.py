"""A declarative experiment runner that measures what TensorFlow does with memory."""
