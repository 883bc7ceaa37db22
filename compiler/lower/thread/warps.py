"""Updates of one entry by several lanes of a warp, which combine their values first."""

from __future__ import annotations

from lumijit.compiler.emit.builder import Builder
from lumijit.compiler.emit.combine import combine_text, identity
from lumijit.compiler.lower.common.atomics import atomic
from lumijit.runtime.dtypes import DType

_ALL = "-1"


def aggregate(b: Builder, op: str, t: DType, address: str, item: str) -> None:
    """Combine what all running lanes have for one entry, and write once for them.

    Lanes with the same address go through their values in order; the first writes.
    """
    element = t.memory_llvm
    place = b.emit(f"ptrtoint ptr {address} to i64")
    running = _call(b, "i32", "activemask")
    peers = _call(b, "i32", "match.any.sync.i64", f"i32 {running}", f"i64 {place}")
    first = _call(b, "i32", "cttz.i32", f"i32 {peers}", "i1 true", stem="llvm")
    before, again, done = b.current, b.label("again"), b.label("combined")
    b.branch(again)
    b.block(again)
    rest, total, left, sum_ = (b.name() for _ in range(4))
    b.line(f"{rest} = phi i32 [ {peers}, %{before} ], [ {left}, %{again} ]")
    neutral = b.const(t, identity(op, t)) if not t.is_bool else str(int(op == "and"))
    b.line(f"{total} = phi {element} [ {neutral}, %{before} ], [ {sum_}, %{again} ]")
    lane = _call(b, "i32", "cttz.i32", f"i32 {rest}", "i1 true", stem="llvm")
    value = _shuffled(b, t, item, "idx", peers, lane)
    b.lines.append(combine_text(op, t, element, sum_[1:], total, value))
    lower = b.emit(f"sub i32 {rest}, 1")
    b.line(f"{left} = and i32 {rest}, {lower}")
    b.branch_if(b.emit(f"icmp ne i32 {left}, 0"), again, done)
    b.block(done)
    own = _call(b, "i32", "read.ptx.sreg.laneid")
    _write_if(b, op, t, address, sum_, b.emit(f"icmp eq i32 {own}, {first}"))


def aggregate_neighbours(
    b: Builder, op: str, t: DType, address: str, item: str
) -> None:
    """Combine what neighbours have if all lanes' do so, and write once for them.

    Pairs of lanes, if both of each have one address, then pairs of pairs, and so on: a
    test is all that others pay for it. Memory takes updates of one entry one after the
    other.
    """
    element = t.memory_llvm
    place = b.emit(f"ptrtoint ptr {address} to i64")
    before, start = b.current, b.label("whole")
    test, join, done = b.label("pairs"), b.label("alike"), b.label("joined")
    width, total, wider, sum_ = (b.name() for _ in range(4))
    is_whole = b.emit(f"icmp eq i32 {_call(b, 'i32', 'activemask')}, {_ALL}")
    b.branch_if(is_whole, start, done)
    b.block(start)
    b.branch(test)
    b.block(test)
    b.line(f"{width} = phi i32 [ 1, %{start} ], [ {wider}, %{join} ]")
    b.line(f"{total} = phi {element} [ {item}, %{start} ], [ {sum_}, %{join} ]")
    other = _words(b, "i64", place, "bfly", _ALL, width)
    same = b.emit(f"icmp eq i64 {other}, {place}")
    is_left = b.emit(f"icmp ult i32 {width}, 32")
    asked = b.emit(f"and i1 {same}, {is_left}")
    all_meet = _call(b, "i1", "vote.all.sync", f"i32 {_ALL}", f"i1 {asked}")
    b.branch_if(all_meet, join, done)
    b.block(join)
    value = _shuffled(b, t, total, "bfly", _ALL, width)
    b.lines.append(combine_text(op, t, element, sum_[1:], total, value))
    b.line(f"{wider} = shl i32 {width}, 1")
    b.branch(test)
    b.block(done)
    met = b.phi("i32", ("1", before), (width, test))
    found = b.phi(element, (item, before), (total, test))
    inside = b.emit(f"sub i32 {met}, 1")
    own = _call(b, "i32", "read.ptx.sreg.laneid")
    place_in = b.emit(f"and i32 {own}, {inside}")
    _write_if(b, op, t, address, found, b.emit(f"icmp eq i32 {place_in}, 0"))


def _write_if(
    b: Builder, op: str, t: DType, address: str, value: str, condition: str
) -> None:
    """Combine a value with an entry in some lanes."""
    inside, after = b.label("first"), b.label("after")
    b.branch_if(condition, inside, after)
    b.block(inside)
    atomic(b, op, t, address, value)
    b.branch(after)
    b.block(after)


def _shuffled(b: Builder, t: DType, x: str, how: str, lanes: str, where: str) -> str:
    """Return the value that another lane has, of a type as it is in memory."""
    element, size = t.memory_llvm, 8 * t.size_bytes
    word = f"i{max(32, size)}"
    bits = b.emit(f"bitcast {element} {x} to i{size}") if t.is_float else x
    if size < 32:
        bits = b.emit(f"zext i{size} {bits} to {word}")
    value = _words(b, word, bits, how, lanes, where)
    if size < 32:
        value = b.emit(f"trunc {word} {value} to i{size}")
    return b.emit(f"bitcast i{size} {value} to {element}") if t.is_float else value


def _words(b: Builder, word: str, bits: str, how: str, lanes: str, where: str) -> str:
    """Return the word of 32 or 64 bits that another of some lanes has."""

    def part(x: str) -> str:
        given = (f"i32 {lanes}", f"i32 {x}", f"i32 {where}", "i32 31")
        return _call(b, "i32", f"shfl.sync.{how}.i32", *given)

    if word == "i32":
        return part(bits)
    high = b.emit(f"trunc i64 {b.emit(f'lshr i64 {bits}, 32')} to i32")
    halves = [part(b.emit(f"trunc i64 {bits} to i32")), part(high)]
    low, top = (b.emit(f"zext i32 {half} to i64") for half in halves)
    return b.emit(f"or i64 {low}, {b.emit(f'shl i64 {top}, 32')}")


def _call(b: Builder, ty: str, name: str, *given: str, stem: str = "llvm.nvvm") -> str:
    """Call an intrinsic; operands are given with their types."""
    pairs = [(kind, value) for kind, _, value in (x.partition(" ") for x in given)]
    return b.call(ty, f"{stem}.{name}", *pairs)
