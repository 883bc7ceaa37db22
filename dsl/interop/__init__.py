"""Other array frameworks: exchange of arrays with them, functions of theirs in ours."""
