# Compiled as it is: nothing in it has a C type.
