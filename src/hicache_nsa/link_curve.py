"""What copies of different sizes cost on the link between a GPU and host memory.

The C++ core chooses the way of each copy by this curve. It is measured once a machine, in less than
a second, and kept in ``$XDG_CACHE_HOME/hicache-nsa`` (``~/.cache/hicache-nsa``), one file a GPU,
driver and version of this package. ``hicache bench link`` shows it and measures again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from hicache_nsa import _core

FORMAT = 3  # raised when what is measured changes: kept curves are measured again
LOCK_SECONDS = 10.0
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60))


def machine_curve(device: str) -> _core.LinkCurve:
    """The curve of ``cuda`` or ``cuda:<n>``: the one that was kept, else measured now and kept.

    Falls back to that
    of a typical machine, with a ``RuntimeWarning``, if it can't be measured.

    Raises:
        RuntimeError: there is no such device.
    """
    kept = kept_curve(device)
    if kept is not None:
        return kept
    try:
        return _measure(device, again=False)
    except RuntimeError as error:
        warnings.warn(
            f"the link could not be measured ({error}); ways are chosen as on a typical machine",
            RuntimeWarning,
            stacklevel=3,
        )
        return _core.LinkCurve.typical()


def kept_curve(device: str) -> _core.LinkCurve | None:
    """The curve measured before on this machine; None if there is none that can be read."""
    identity = identity_of(device)
    try:
        kept = json.loads(_file(identity).read_text(encoding="utf-8"))
        if kept["identity"] != identity:
            return None
        return _core.LinkCurve(_pairs(kept["points"]))
    except (OSError, ArithmeticError, LookupError, ValueError, TypeError, AttributeError):
        return None  # not measured yet, or damaged: it is measured again
    except RecursionError:
        return None  # the same


def measure(device: str) -> _core.LinkCurve:
    """Measure the curve now, and keep it for later.

    Raises:
        RuntimeError: there is no such device, or no memory for 64 MiB on either side.
    """
    return _measure(device, again=True)


def _measure(device: str, again: bool) -> _core.LinkCurve:
    """again: also if another process has measured while this one waited for it."""
    identity = identity_of(device)
    path = _file(identity)
    with _alone(path.parent):
        kept = None if again else kept_curve(device)
        if kept is not None:
            return kept
        curve = _core.LinkCurve.measure(device)
        try:
            _keep(path, {"identity": identity, "points": curve.points()})
        except OSError as error:
            warnings.warn(
                f"the measured link curve could not be kept ({error}); it is measured again next "
                "time. XDG_CACHE_HOME names the folder for such files",
                RuntimeWarning,
                stacklevel=4,
            )
    return curve


def curve_file(device: str) -> Path:
    """Where the curve of that device is kept. Raises as ``measure`` does."""
    return _file(identity_of(device))


def peak_rate(curve: _core.LinkCurve, direction: str) -> float:
    """Bytes a second of the fastest operation of ``h2d`` or ``d2h``: the speed of the link."""
    operations = curve.points()[direction].values()
    return max(size / seconds for pairs in operations for size, seconds in pairs)


def ago(seconds: float) -> str:
    """``3 hours``: in the largest unit of which there are two or more."""
    for name, length in _UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} seconds"


def identity_of(device: str) -> str:
    """What a kept curve is of: device, driver and this package. Raises as ``measure`` does."""
    version = _core.build_info()["version"]
    return f"{_core.cuda_device_identity(device)}, hicache-nsa {version}, format {FORMAT}"


def _file(identity: str) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or _home_cache()
    digest = hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()
    return Path(base) / "hicache-nsa" / f"link-{digest}.json"


def _home_cache() -> Path:
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"


def _pairs(
    points: dict[str, dict[str, list[Any]]],
) -> dict[str, dict[str, list[tuple[int, float]]]]:
    return {
        direction: {
            operation: [(int(size), float(seconds)) for size, seconds in pairs]
            for operation, pairs in operations.items()
        }
        for direction, operations in points.items()
    }


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other process measures: two at once would measure each other.

    Not longer than LOCK_SECONDS, and not at all where the folder can't be written.
    """
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file = held.enter_context((folder / "measuring.lock").open("w"))
            limit = time.monotonic() + LOCK_SECONDS
            while not _locked(file):
                if time.monotonic() > limit:
                    break
                time.sleep(0.02)
            else:  # let go by name: a child that was forked meanwhile has the file open too
                held.callback(fcntl.flock, file, fcntl.LOCK_UN)
        except OSError:
            pass  # it can't be kept either, and that is said
        yield


def _locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _keep(path: Path, content: dict[str, Any]) -> None:
    """Write all or nothing: other processes may read or write the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix=path.stem, suffix=".tmp", delete=False, encoding="utf-8"
    ) as file:
        try:
            json.dump(content, file, indent=1)
            os.fchmod(file.fileno(), 0o644)  # other users of the folder read it too
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
