"""Code for single threads, an element each: on the CPU one after the other, and PTX."""
