from lumijit.compiler.ir.effects cimport Holder, new_holder
from lumijit.compiler.ir.trace cimport emit2
