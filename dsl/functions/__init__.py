"""The functions of the public interface, one module per family."""
