"""The operations of the trace, one record each."""
