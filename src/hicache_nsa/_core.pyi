"""
C++ core of hicache_nsa: formats, host memory, pages, tokens and transfers.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, overload

import numpy
import numpy.typing
from numpy.typing import NDArray


def build_info() -> dict[str, str | bool]:
    """
    What this build holds: version, debug, cuda, nanobind ('split' or 'linked'), compiler.
    """

def cuda_device_index(device: str) -> int:
    """
    Index of 'cuda' or 'cuda:<n>'; RuntimeError with CUDA's words if it isn't there.
    """

def cuda_device_of_address(address: int) -> int:
    """Index of the GPU that owns the memory at this address."""

def cuda_device_identity(device: str) -> str:
    """Name, unique id, bus and CUDA version of 'cuda' or 'cuda:<n>'."""

def cuda_device_bus_id(device: str) -> str:
    """Where 'cuda' or 'cuda:<n>' is on the PCI bus: '0000:1b:00.0'."""

def measure_cuda_host_alloc(device: str, nbytes: int) -> tuple[float, float]:
    """Seconds that cudaHostAlloc and cudaFreeHost take for so many bytes."""

class PoolFormat:
    """Which buffers a page has and how many bytes each takes."""

    def __init__(self, page_size: int, num_layers: int, buffers: Sequence[tuple[str, int, Sequence[int]]]) -> None:
        """
        buffers: (name, bytes of one page of one layer, owning layers ascending).
        """

    @property
    def page_size(self) -> int:
        """Slots a page."""

    @property
    def num_layers(self) -> int: ...

    @property
    def page_bytes(self) -> int:
        """Bytes of a page's record."""

    def layer_bytes(self, layer: int) -> int:
        """Bytes of one page's buffers of one layer."""

    def __eq__(self, arg: object, /) -> bool: ...

class HostLayout:
    """Where a page's bytes lie in the host pool."""

    def __init__(self, format: PoolFormat, layout: str, num_pages: int) -> None:
        """layout: 'layer_first', 'page_first' or 'page_first_direct'."""

    @property
    def format(self) -> PoolFormat: ...

    @property
    def layout(self) -> str: ...

    @property
    def num_pages(self) -> int: ...

    @property
    def total_bytes(self) -> int: ...

    def offset(self, buffer: int, layer: int, page: int) -> int:
        """First byte of one (buffer index, layer, page) in the pool."""

class HostMemory:
    """The memory of a host pool."""

    def __init__(self, nbytes: int, *, threads: int = 0, prefault: bool = True, huge_pages: str = 'transparent', node: int = -1, first_bytes: int = 4611686018427387904, step_bytes: int = 67108864, held: bool = False, most: int | None = None) -> None:
        """
        Maps nbytes; several threads (0: one a core) touch them, the first first_bytes before it returns. MemoryError with the numbers if the mapping fails or is larger than most, which whoever asked the memory budget gives; without it a mapping that is touched must fit into available memory.
        """

    @property
    def nbytes(self) -> int: ...

    @property
    def address(self) -> int:
        """Address of the first byte; 0 for an empty mapping."""

    @property
    def huge_pages(self) -> str:
        """off, transparent or explicit: what the mapping got."""

    @property
    def node(self) -> int:
        """
        NUMA node that pages are taken from where it has room, -1: none in particular.
        """

    @property
    def warning(self) -> str:
        """What works less well than was asked for; empty if nothing does."""

    @property
    def guarded(self) -> bool:
        """Whether guard zones surround the bytes (debug builds)."""

    def view(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C')]:
        """The bytes as a uint8 array [nbytes] that keeps the mapping alive."""

    def check(self) -> None:
        """RuntimeError naming the offset if a guard zone was overwritten."""

    @property
    def ready_bytes(self) -> int:
        """
        The first so many bytes are touched, and registered with every engine there is.
        """

    @property
    def registered_bytes(self) -> tuple[int, int]:
        """Bytes that are registered with a GPU, and bytes that it refused."""

    def take_ready(self) -> tuple[int, bool, list[tuple[bool, str]]]:
        """
        (ready bytes, whether nothing more will be ready, notes since the last call as (is an error, text)). The bytes may be in use from now on: an engine that is made later registers those before it returns.
        """

    def wait_ready(self, timeout: float | None = None) -> bool:
        """
        Waits until all bytes are ready; seconds, False at the limit. RuntimeError if they never will be.
        """

    def step(self) -> None:
        """
        Of memory that is held: makes step_bytes more ready, and waits for them.
        """

    def unhold(self) -> None:
        """Makes the rest of memory that is held ready."""

    def stop(self) -> None:
        """Ends the preparation; what is ready stays so. Idempotent."""

class PageDigests:
    """Digests of what was saved into a host pool."""

    def __init__(self, num_pages: int, num_layers: int, *, memory: HostMemory | None = None, offset: int = 0) -> None:
        """
        8 bytes a page and layer, [page][layer], 0 for what is not known: in memory of its own, made at the first use, or in `memory` from byte `offset` on, which keeps what is there already.
        """

    @staticmethod
    def nbytes(num_pages: int, num_layers: int) -> int:
        """Bytes of such a table."""

    @property
    def in_use(self) -> bool:
        """Whether an engine verifies, or the table lies in given memory."""

    def get(self, page: int, layer: int) -> int:
        """The digest of one page of one layer; 0: not known."""

    def forget(self, page: int) -> None:
        """Whatever lies in that page is not checked any more."""

def page_digest(bytes: numpy.typing.NDArray[numpy.uint8]) -> int:
    """
    The 64-bit digest of a uint8 array, as taken of a page's bytes of one layer. Never 0.
    """

def host_file_block(path: str) -> int:
    """
    Bytes of a block of the memory file system that the path is on. ValueError: the folder isn't there, or on another kind of file system.
    """

def host_file_bytes(layout: HostLayout, block: int) -> int:
    """Bytes of a host file with that pool on such a file system."""

def host_file_missing(path: str, layout: HostLayout, fingerprint: str, block: int) -> int:
    """
    Bytes that such a file at that path still takes: none if there is one that can be used.
    """

class HostFile:
    """A host pool in a file, with a page table that outlives the process."""

    def __init__(self, path: str, layout: HostLayout, fingerprint: str, block: int, touched: bool = False, wait_seconds: float = 30.0) -> None:
        """
        Opens the file or makes one, and owns it. touched: its bytes are touched before they are used, a large file is not reserved at once. A file that does not fit is set aside. RuntimeError with the next step: owned by somebody, no permission, no room.
        """

    @property
    def warnings(self) -> list[str]:
        """What was set aside, and why."""

    @property
    def created(self) -> bool:
        """Whether it was made now."""

    @property
    def file_bytes(self) -> int:
        """Bytes of the file: pool, page table and what lies between."""

    def memory(self, *, threads: int = 0, prefault: bool = True, huge_pages: str = 'transparent', node: int = -1, first_bytes: int = 4611686018427387904, step_bytes: int = 67108864, held: bool = False) -> HostMemory:
        """The pool's bytes, as HostMemory() makes its; what is in them stays."""

    def digests(self) -> HostMemory:
        """
        Memory for the digests of all pages and layers (PageDigests); zeros in a new file.
        """

    @property
    def backed(self) -> bool:
        """
        Whether the file system has every byte of it: none is still to be taken.
        """

    def note_backed(self) -> None:
        """All of the pool's bytes have been touched. After close(): nothing."""

    def restore(self) -> tuple[list[bytes], list[tuple[int, int, bytes, int, bytes, int, int, int]], Annotated[numpy.typing.NDArray[numpy.int64], dict(shape=(None,))], int]:
        """
        Called once, before anything is published. The namespaces; the nodes, parents first: (parent's index or -1, index of the namespace, packed tokens, how many, packed page ids, priority, when created, when used last); all their pages; how many entries were damaged. What isn't returned is withdrawn.
        """

    def publish(self, pages: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], before: int | None, namespace: bytes, tokens: TokenSpan, priority: int) -> None:
        """
        The pages' bytes are whole. before: the page in front of them, None: they are the first of the namespace. ValueError, nothing published: what doesn't fit.
        """

    def withdraw(self, pages: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """The pages' bytes may change from now on."""

    def set_priority(self, pages: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], priority: int) -> None:
        """Another priority for pages that are published."""

    def next_generation(self) -> None:
        """Nothing that was published counts any more: one store."""

    def published(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Every page that is published, ascending."""

    def close(self) -> None:
        """Ends ownership; the file stays. Idempotent."""

class PageAllocator:
    """Hands out the pages of one pool."""

    def __init__(self, num_pages: int, reserved: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], ready: int | None = None, allocated: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None:
        """
        reserved: page ids that are never handed out. ready: only the first so many pages are there at the beginning; None: all. allocated: those that are from the start; then all are there.
        """

    @property
    def num_pages(self) -> int:
        """Pages, those that are reserved or not there yet included."""

    @property
    def total_pages(self) -> int:
        """Pages that can be handed out."""

    @property
    def ready_pages(self) -> int:
        """The first so many pages are there."""

    def grow(self, ready: int) -> None:
        """Makes the first so many pages be there; fewer than there are: nothing."""

    @property
    def free_pages(self) -> int: ...

    @property
    def num_extents(self) -> int:
        """Free extents: maximal runs of neighbouring free pages."""

    @property
    def largest_extent(self) -> int:
        """Pages of the longest free extent."""

    def allocate(self, n: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))] | None:
        """
        n page ids, ascending and in as few runs of neighbours as possible, from the upper end of the smallest run that has them; None if fewer are free.
        """

    def free(self, pages: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Gives pages back, in any order. ValueError, nothing freed: a page that is out of range, reserved, free already or twice in the list.
        """

    def is_allocated(self, pages: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> bool:
        """Whether every page is allocated."""

    def check(self) -> None:
        """RuntimeError with both sides of an equation that does not hold."""

class PageHistory:
    """
    What became of pages, by page key: bounded. Keys are packed, 8 bytes each.
    """

    def __init__(self, capacity: int) -> None: ...

    @property
    def capacity(self) -> int:
        """Pages that it can know."""

    @property
    def cached(self) -> int:
        """Pages that are in a tier, as far as noted."""

    def __len__(self) -> int:
        """Pages that it knows."""

    def enter(self, keys: bytes) -> None:
        """The pages are in a tier from now on."""

    def evict(self, keys: bytes) -> None:
        """Eviction took them from their last tier."""

    def lose(self, keys: bytes) -> None:
        """A flush took them."""

    def fail(self, keys: bytes) -> None:
        """They were found wrong and taken out."""

    def never_came(self, keys: bytes) -> None:
        """
        They would have come, but a copy failed; what is in a tier stays as it is.
        """

    def save_failed(self, keys: bytes) -> None:
        """If pages of these go that are in a tier now, a failed save is why."""

    def saved(self, keys: bytes) -> None:
        """A later save of them went well."""

    def flush(self) -> None:
        """No page is in a tier any more; O(1)."""

    def losses(self, tokens: TokenSpan, begin: int, page_size: int, above: bytes) -> tuple[int, int, int]:
        """
        Whole pages from token `begin` on that are gone, up to the first of which nothing is known: evicted, flushed, failed. above: page keys, the last one that of the page before.
        """

    def what(self, key: bytes) -> str:
        """'cached', 'evicted', 'flushed', 'failed' or 'unknown'."""

    def check(self) -> None:
        """RuntimeError with both sides of an equation that does not hold."""

def eviction_policies() -> str:
    """The names that PageIndex knows, comma-separated."""

class PageIndex:
    """Keys to pages; hicache_nsa.PageIndex documents it."""

    def __init__(self, pages: int, policy: str) -> None: ...

    def lookup(self, keys: object | None) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """uint8 a key: 0 miss, 1 pending, 2 hit."""

    def prefix(self, keys: object | None) -> int:
        """How many of the first keys are hits."""

    def pin(self, keys: object | None) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """The pages; KeyError that names a key which is no hit."""

    def unpin(self, keys: object | None) -> None:
        """ValueError, nothing unpinned: a key with too few pins."""

    def touch(self, keys: object | None) -> None: ...

    def begin_store(self, keys: object, parent: bytes | str | None, priority: int) -> tuple[list[bytes | str], Annotated[NDArray[numpy.int64], dict(shape=(None,))], list[bytes | str]] | None:
        """Keys to be stored, their pages, keys evicted for them; None: no room."""

    def finish_store(self, keys: object, success: bool) -> list[bytes | str]:
        """The keys that are misses by it."""

    def reset(self) -> int:
        """Drops everything; how many keys that were."""

    def counts(self) -> dict[str, int]: ...

    def __len__(self) -> int: ...

    def check(self) -> None:
        """RuntimeError with both sides of an equation that does not hold."""

class TokenSpan:
    """An immutable run of int64 token ids."""

    def __init__(self, tokens: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        A view of the array, which must not be changed afterwards; copy() detaches.
        """

    def copy(self) -> TokenSpan:
        """The same tokens in a buffer of their own."""

    def slice(self, begin: int, end: int) -> TokenSpan:
        """Tokens [begin, end), sharing the buffer."""

    def __len__(self) -> int: ...

    def numpy(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """The tokens as a fresh int64 array."""

    def common_prefix(self, other: TokenSpan, offset: int = 0) -> int:
        """How many leading tokens of self[offset:] and other are equal."""

    def __hash__(self) -> int: ...

    def __eq__(self, arg: object, /) -> bool: ...

    @property
    def buffer_tokens(self) -> int:
        """Tokens in the buffer that this run keeps alive."""

    @property
    def shares_buffer_bytes(self) -> int:
        """Bytes of that buffer."""

def namespace_seed(format_name: bytes, extra_key: bytes) -> bytes:
    """Start of the hash chain of one namespace: BLAKE2b-128, 16 bytes."""

@overload
def page_hashes(tokens: TokenSpan, page_size: int, seed: bytes) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None))]: ...

@overload
def page_hashes(tokens: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], page_size: int, seed: bytes) -> Annotated[NDArray[numpy.uint8], dict(shape=(None, None))]:
    """
    Chained BLAKE2b-128 digest of each whole page: uint8 array [pages, 16].
    """

class Fence:
    """Everything queued on a stream so far."""

    def done(self) -> bool:
        """Whether all of it is complete."""

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for done(); seconds, False at the limit."""

class StreamClock:
    """A stream's clock on the CPU backend."""

    def __init__(self) -> None: ...

    def submit(self) -> int:
        """Announces work; returns the value to complete later."""

    def complete(self, value: int) -> None:
        """
        All work up to value is complete. ValueError: never submitted, or complete already.
        """

    def fence(self) -> Fence:
        """A fence behind everything submitted so far."""

class LinkCurve:
    """What copies of different sizes cost on one machine."""

    def __init__(self, points: Mapping[str, Mapping[str, Sequence[tuple[int, float]]]]) -> None:
        """
        points: {'h2d' | 'd2h': {'piece' | 'rectangle' | 'kernel': [(bytes, seconds), ...]}}, sizes rising. piece: one of a batch; rectangle: one 2-D copy; kernel: one layer.
        """

    def points(self) -> dict[str, dict[str, list[tuple[int, float]]]]:
        """The points it was made of."""

    @staticmethod
    def typical() -> LinkCurve:
        """One H200 on PCIe 5 x16, for whoever has not measured."""

    @staticmethod
    def measure(device: str) -> LinkCurve:
        """Measures 'cuda' or 'cuda:<n>', in less than a second."""

def measure_timeline(times: int) -> dict[str, float]:
    """Nanoseconds of the parts of a record, the mean of so many calls."""

def nvtx_attached() -> bool:
    """Whether a profiler asked for NVTX ranges."""

class TimelineSpan:
    """
    A named piece of time on a track. Times are nanoseconds of the monotonic clock; numbers are -1 where they say nothing.
    """

    @property
    def track(self) -> str: ...

    @property
    def kind(self) -> str:
        """call, queued, copy, layers or wait."""

    @property
    def seen_by_host(self) -> bool:
        """
        The times are those at which a thread of the host saw what a device had done.
        """

    @property
    def begin(self) -> int: ...

    @property
    def end(self) -> int: ...

    @property
    def thread(self) -> int:
        """The system's number of the thread."""

    @property
    def stream(self) -> int | None:
        """Handle of the stream, of a stream's wait."""

    @property
    def copy(self) -> int:
        """Number of the copy in its direction, from 1."""

    @property
    def first_layer(self) -> int: ...

    @property
    def last_layer(self) -> int: ...

    @property
    def pages(self) -> int: ...

    @property
    def bytes(self) -> int: ...

    @property
    def way(self) -> str:
        """direct, kernel or staged; empty on a CPU."""

    @property
    def text(self) -> str:
        """Name of a call; why a copy failed, else empty."""

class Timeline:
    """A bounded ring of spans; off until it is started."""

    def __init__(self) -> None: ...

    @property
    def on(self) -> bool:
        """Whether spans are recorded."""

    def start(self, capacity: int) -> None:
        """
        Forgets what was recorded and records from now on, the last `capacity` spans.
        """

    def stop(self) -> None:
        """Records no more; what was recorded stays."""

    def begin_call(self, name: str) -> int:
        """
        Opens an NVTX range, and returns now in nanoseconds; 0 while nothing is recorded.
        """

    def end_call(self, track: str, name: str, begin: int) -> None:
        """
        Records what began there, and closes the range. In the thread that began it.
        """

    def add(self, track: str, name: str, begin: int, end: int) -> None:
        """
        Records a span that was measured elsewhere, in nanoseconds of the monotonic clock.
        """

    def spans(self) -> list[TimelineSpan]:
        """What is there, in the order it was recorded."""

    @property
    def dropped(self) -> int:
        """Spans that newer ones took the place of."""

class DeviceBuffer:
    """One (buffer, layer) of a device pool."""

    def __init__(self, address: int, page_stride: int, rows: int, row_bytes: int, row_stride: int) -> None:
        """
        Row r of page p lies at address + p * page_stride + r * row_stride; all in bytes.
        """

    @property
    def address(self) -> int: ...

    @property
    def page_stride(self) -> int: ...

    @property
    def rows(self) -> int: ...

    @property
    def row_bytes(self) -> int: ...

    @property
    def row_stride(self) -> int: ...

class Ticket:
    """The handle of a submitted copy."""

    def done(self) -> bool:
        """Whether the copy has ended, well or not."""

    @property
    def error(self) -> str | None:
        """Why it failed; None while in flight or if it did not."""

    def wait(self, timeout: float | None = None) -> bool:
        """
        Waits for the end; seconds, False at the limit. Does not raise for a failed copy.
        """

    def wait_layer(self, layer: int, timeout: float | None = None) -> bool:
        """
        Waits until that layer has landed or the copy has failed; False at the limit.
        """

    def wait_layer_on_stream(self, layer: int, stream: int) -> None:
        """
        Makes that stream of the device wait for the layer; the caller does not wait.
        """

    def layer_done(self, layer: int) -> bool:
        """
        Whether that layer's bytes are in place; False for a layer of a failed copy.
        """

    @property
    def pages(self) -> int:
        """Pages asked for."""

    @property
    def nbytes(self) -> int:
        """Bytes asked for."""

    @property
    def pages_copied(self) -> int:
        """The first so many pairs were copied whole; 0 until done."""

    @property
    def corrupt(self) -> numpy.typing.NDArray[numpy.int64]:
        """
        Indices of the pages that are not what was saved, ascending; empty until done.
        """

    @property
    def seconds(self) -> float:
        """Time spent copying; 0 until done."""

class TransferEngine:
    """Moves pages between a device and a host pool."""

    def __init__(self, format: PoolFormat, device: str, device_pages: int, device_buffers: Sequence[DeviceBuffer], host: HostMemory, layout: HostLayout, workers: int = 0, io_backend: str = 'auto', kernel_blocks: int = 0, pinning: str = 'auto', pin_chunk_bytes: int = 0, staging_bytes: int = 0, link_curve: LinkCurve | None = None, verify: str = 'off', digests: PageDigests | None = None, time_waits: bool = True) -> None:
        """
        device_buffers: for each buffer of the format, for each of its layers; whoever owns that memory keeps it alive until close(). 0 = chosen: workers (host threads a direction, cpu), kernel_blocks, pin_chunk_bytes and staging_bytes a direction (cuda). pinning: auto, always or never. verify: off, sample or all; digests: of the host pool. time_waits: count exposed waits.
        """

    def submit(self, direction: str, host_pages: numpy.typing.NDArray[numpy.int64], device_pages: numpy.typing.NDArray[numpy.int64], layers: Sequence[int] | None = None, after: Sequence[Fence] = (), layerwise: bool | None = None, beside_compute: bool | None = None) -> Ticket:
        """
        Queues copies host_pages[i] <-> device_pages[i]; never waits for bytes. ValueError before any byte moves.
        """

    def record(self, stream: int) -> Fence | None:
        """
        A fence behind what is queued on that stream of the device; None if it is complete.
        """

    @property
    def timeline(self) -> Timeline:
        """
        Its copies and the waits for them, once started. Lives on after close().
        """

    @property
    def warning(self) -> str:
        """What works less well than it could; empty if nothing does."""

    def hold(self, direction: str) -> None:
        """While held, copies that have not started stay in flight. Counted."""

    def release(self, direction: str) -> None: ...

    def fail_next(self, direction: str, after_pages: int = 0) -> None:
        """
        The next copy in that direction copies its first after_pages pairs, then fails.
        """

    def in_flight(self, direction: str) -> int:
        """Copies submitted and not ended."""

    def totals(self) -> dict[str, tuple[dict[str, int], list[int], float]]:
        """
        By direction, of one moment. Counters: submitted, copies, failed, pages, bytes, verified, corrupt, runs, copies by way of a GPU (direct, kernel, staged), exposed_waits and exposed_wait_ns. Copies that ended by their seconds, in the ranges of copy_seconds_bounds(); the sum of these seconds. They never fall.
        """

    def check(self) -> None:
        """RuntimeError with both sides of an equation that does not hold."""

    def close(self, fence_timeout: float = 5.0) -> None:
        """
        Opens the gates, finishes the copies, ends the threads. Copies whose fences do not complete within fence_timeout seconds fail. Idempotent.
        """

def copy_seconds_bounds() -> tuple[float, ...]:
    """
    Upper bounds of the ranges of TransferEngine.totals(), in seconds; one more is above all.
    """

class ChildTable:
    """The children of a node, by their key's first page."""

    def __init__(self) -> None: ...

    def add(self, child: object, page_size: int) -> None:
        """Takes in a node that is not there yet."""

    def replace(self, child: object, by: object, page_size: int) -> None:
        """
        Puts another node with the same first page in the place of a child. KeyError: it is not there.
        """

    def remove(self, child: object, page_size: int) -> None:
        """KeyError: it is not there."""

    def has(self, child: object, page_size: int) -> bool:
        """Whether this very node is there under its first page."""

    def values(self) -> list[Any]:
        """A list of the children, as they were added."""

    def pop(self) -> Any:
        """Takes out the child that came last. IndexError: there is none."""

    def clear(self) -> None: ...

    def __len__(self) -> int: ...

def walk(root: object, tokens: TokenSpan, page_size: int) -> tuple[list[Any], int]:
    """
    The nodes below root that share whole pages with the tokens, the last one perhaps in part, and how many tokens they share.
    """

def pack_tokens(tokens: TokenSpan) -> bytes:
    """The tokens as bytes: 4 a token where all fit into int32, else 8."""

def unpack_tokens(packed: bytes, tokens: int) -> TokenSpan:
    """The run of so many tokens that pack_tokens packed."""

def namespace_key(namespace: bytes) -> bytes:
    """Where the chain of page keys of a namespace starts: 8 bytes."""

def page_keys(tokens: TokenSpan, page_size: int, above: bytes) -> bytes:
    """
    Page keys of the whole pages, 8 bytes each; above: page keys, the last one of which is that of the page before, or a namespace_key.
    """

def packed_page_keys(packed: bytes, tokens: int, page_size: int, above: bytes) -> bytes:
    """The same of so many tokens that pack_tokens packed."""

def untrack(object: object) -> None:
    """
    Hides an object from the cyclic garbage collector, which then neither walks it nor frees a cycle that it is part of.
    """
