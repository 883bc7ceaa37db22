"""What is computed together: kernels, their order, their keys and arguments."""
