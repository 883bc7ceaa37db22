"""Kernels for what isn't elementwise: reductions, scans, compaction, copies.

Each function returns the IR of one kernel with the signature of `packet`'s. They
are independent of any trace: the operation and the type are all that varies.
"""

from lumijit.compiler.lower.collectives.columns import columns_by as columns_by
from lumijit.compiler.lower.collectives.columns import columns_ir as columns_ir
from lumijit.compiler.lower.collectives.compress import compress_ir as compress_ir
from lumijit.compiler.lower.collectives.extremes import EXTREME_BLOCK as EXTREME_BLOCK
from lumijit.compiler.lower.collectives.extremes import best_ir as best_ir
from lumijit.compiler.lower.collectives.extremes import extreme_ir as extreme_ir
from lumijit.compiler.lower.collectives.merge import merge_ir as merge_ir
from lumijit.compiler.lower.collectives.product import product_ir as product_ir
from lumijit.compiler.lower.collectives.product import tile_shape as tile_shape
from lumijit.compiler.lower.collectives.reduce import REDUCE_BLOCK as REDUCE_BLOCK
from lumijit.compiler.lower.collectives.reduce import blocks_by as blocks_by
from lumijit.compiler.lower.collectives.reduce import reduce_ir as reduce_ir
from lumijit.compiler.lower.collectives.rows import rows_ir as rows_ir
from lumijit.compiler.lower.collectives.scan import runs_by as runs_by
from lumijit.compiler.lower.collectives.scan import scan_block as scan_block
from lumijit.compiler.lower.collectives.scan import scan_ir as scan_ir
from lumijit.compiler.lower.collectives.select import SELECT_BLOCK as SELECT_BLOCK
from lumijit.compiler.lower.collectives.select import select_ir as select_ir
from lumijit.compiler.lower.collectives.sort import DIGIT_BITS as DIGIT_BITS
from lumijit.compiler.lower.collectives.sort import DIGITS as DIGITS
from lumijit.compiler.lower.collectives.sort import SORT_BLOCK as SORT_BLOCK
from lumijit.compiler.lower.collectives.sort import SORT_BLOCKS as SORT_BLOCKS
from lumijit.compiler.lower.collectives.sort import apart_ir as apart_ir
from lumijit.compiler.lower.collectives.sort import count_ir as count_ir
from lumijit.compiler.lower.collectives.sort import move_ir as move_ir
from lumijit.compiler.lower.collectives.transfer import FEW_LINES as FEW_LINES
from lumijit.compiler.lower.collectives.transfer import LINES as LINES
from lumijit.compiler.lower.collectives.transfer import collect_ir as collect_ir
from lumijit.compiler.lower.collectives.transfer import copy_ir as copy_ir
from lumijit.compiler.lower.collectives.transfer import fill_ir as fill_ir

THREADS = 0
