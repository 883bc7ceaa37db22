"""Memory, devices and launches: scalar types, buffers, the CPU engine, caches."""
