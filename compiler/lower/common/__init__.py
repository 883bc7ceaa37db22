"""What is found out about a program before it is lowered."""
