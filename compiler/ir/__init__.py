"""The trace: operations and nodes, what holds for each, what is known of them."""
