"""Makes an interpreter on POSIX behave like one on Windows, as far as that goes: `nox -s windows`.

With this folder on PYTHONPATH, every interpreter imports this module first. What it changes:

- modules of this repository see `sys.platform == "win32"`, `os.name == "nt"`, and none of the modules, functions and
  signals that Windows lacks; others see their own platform;
- event loops have no `add_signal_handler` and no `add_reader`; new processes are spawned; there is no `fork`;
- a file that is open can't be removed, replaced or renamed, and a rename never replaces a file;
- names that Windows refuses, and names that differ from another one in the same folder by case alone, are errors;
- text is written with `\\r\\n` where `newline` is not given; `time.monotonic` has steps of 1/64 second.

It doesn't change the separator of paths, modes of files, the encoding of the console, or how processes are ended.
"""

from __future__ import annotations

import asyncio
import builtins
import errno
import io
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = str(Path(__file__).resolve().parents[3]) + os.sep
_SIGNALS = {name for name in dir(signal) if name.startswith("SIG") and not name.startswith("SIG_")}
_SIGNALS -= {"SIGABRT", "SIGFPE", "SIGILL", "SIGINT", "SIGSEGV", "SIGTERM"}
_OF_POSIX = """
    O_CLOEXEC O_DIRECTORY O_NOFOLLOW chown fchmod fork forkpty getegid geteuid getgid getloadavg getpgid getuid killpg
    mkfifo openpty sched_getaffinity setsid sysconf uname
"""
ABSENT = {
    "os": set(_OF_POSIX.split()),
    "signal": _SIGNALS | {"alarm", "setitimer", "pthread_kill", "pthread_sigmask", "sigwait", "siginterrupt"},
    "socket": {"AF_UNIX", "SO_REUSEPORT"},
    "select": {"poll", "epoll"},
    "sys": set[str](),
}
DIFFERENT: dict[str, dict[str, Any]] = {"sys": {"platform": "win32"}, "os": {"name": "nt"}}
NO_MODULES = {"fcntl", "termios", "tty", "pty", "pwd", "grp", "resource", "uvloop", "syslog", "crypt", "readline"}


class Different(ModuleType):
    """A module of the standard library as it is on Windows; what is set there is set in the module itself."""

    def __init__(self, real: ModuleType) -> None:
        super().__init__(real.__name__)
        _held(self).update(_real=real, _own=dict(DIFFERENT.get(real.__name__, {})))

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return super().__getattribute__(name)
        real, own = _held(self)["_real"], _held(self)["_own"]
        if name == "__dict__":  # of the module itself: what patches it looks there
            return {**real.__dict__, **own}
        if name in own:
            return own[name]
        if name in ABSENT[real.__name__]:
            raise AttributeError(f"module {real.__name__!r} has no attribute {name!r} on Windows")
        return getattr(real, name)

    def __setattr__(self, name: str, value: object) -> None:
        own = _held(self)["_own"]
        if name in own:
            own[name] = value
        else:
            setattr(_held(self)["_real"], name, value)

    def __delattr__(self, name: str) -> None:
        real, own = _held(self)["_real"], _held(self)["_own"]
        if name in own:
            own[name] = DIFFERENT[real.__name__][name]
        else:
            delattr(real, name)

    def __dir__(self) -> list[str]:
        real = _held(self)["_real"]
        return [name for name in dir(real) if name not in ABSENT[real.__name__]]


def _held(module: Different) -> dict[str, Any]:
    return ModuleType.__getattribute__(module, "__dict__")  # type: ignore[no-any-return]


def msvcrt() -> ModuleType:
    """Locks of files by the functions of Windows."""
    import fcntl

    made = ModuleType("msvcrt")

    def locking(file: int, mode: int, size: int) -> None:
        try:
            fcntl.flock(file, {0: fcntl.LOCK_UN, 1: fcntl.LOCK_EX, 2: fcntl.LOCK_EX | fcntl.LOCK_NB}[mode])
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    made.__dict__.update(LK_UNLCK=0, LK_LOCK=1, LK_NBLCK=2, locking=locking)
    return made


def is_ours(values: Any) -> bool:
    """Whether a module is of this repository: its sources, tests, examples or tools."""
    file = (values or {}).get("__file__") or ""
    return file.startswith(ROOT) and f"{os.sep}site-packages{os.sep}" not in file and file != __file__


_import = builtins.__import__
_modules: dict[str, ModuleType] = {}


def import_as_on_windows(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> ModuleType:
    """`__import__`, whose parameters have these names."""
    if level == 0 and is_ours(globals):
        if name.partition(".")[0] in NO_MODULES:
            raise ModuleNotFoundError(f"No module named {name!r} on Windows", name=name)
        if name == "msvcrt":
            return _modules.setdefault(name, msvcrt())
        if name in ABSENT:
            return _modules.setdefault(name, Different(_import(name)))
    return _import(name, globals, locals, fromlist, level)


def not_implemented(*arguments: object, **options: object) -> None:
    raise NotImplementedError


# Files.

_open, _replace, _rename, _unlink = io.open, os.replace, os.rename, os.unlink
_RESERVED = {"con", "prn", "aux", "nul", *(f"{name}{number}" for name in ("com", "lpt") for number in range(1, 10))}


def check_name(path: object) -> None:
    """Raises OSError for a name that Windows refuses, and for one that is there in other letters."""
    if not isinstance(path, str | bytes | os.PathLike):
        return  # the number of an open file
    text = os.fsdecode(path)
    if text.startswith(("/dev/", "/proc/")):
        return
    parts = [part for part in text.split("/") if part not in ("", ".", "..")]
    for part in parts:
        if set(part) & set('<>:"|?*\\') or part[-1] in ". " or part.partition(".")[0].lower() in _RESERVED:
            raise OSError(errno.EINVAL, "a name that Windows refuses", text)
    folder, name = os.path.split(text)
    try:
        others = os.listdir(folder or ".")
    except OSError:
        return
    if name not in others and any(other.lower() == name.lower() for other in others):
        raise OSError(errno.EEXIST, "the same name in other letters", text)


def check_closed(path: object) -> None:
    """Raises PermissionError for a file that this process has open."""
    try:
        wanted = os.stat(path)  # type: ignore[arg-type]
    except OSError:
        return
    for number in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            found = os.fstat(int(number))
        except OSError:
            continue
        if (found.st_ino, found.st_dev) == (wanted.st_ino, wanted.st_dev):
            raise PermissionError(errno.EACCES, "the process cannot access the file: it is open", os.fsdecode(path))  # type: ignore[arg-type]


def is_temporary(path: object) -> bool:
    """Whether a path belongs to what tests write; others are those of tools (caches, bytecode)."""
    return isinstance(path, str | bytes | os.PathLike) and "pytest-of-" in os.path.abspath(os.fsdecode(path))


def open_as_on_windows(file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
    if is_temporary(file) and set(mode) & set("wax+"):
        check_name(file)
        newline = rest[3] if len(rest) > 3 else options.get("newline")
        if "b" not in mode and newline is None and len(rest) <= 3:
            options["newline"] = "\r\n" if "+" not in mode else None
    return _open(file, mode, *rest, **options)


def replace_as_on_windows(source: Any, target: Any, **options: Any) -> None:
    if not options and is_temporary(source):
        check_name(target)
        check_closed(source)
        check_closed(target)
    _replace(source, target, **options)


def rename_as_on_windows(source: Any, target: Any, **options: Any) -> None:
    if not options and is_temporary(source):
        check_name(target)
        check_closed(source)
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "File exists", os.fsdecode(source), None, os.fsdecode(target))
    _rename(source, target, **options)


def unlink_as_on_windows(path: Any, *, dir_fd: int | None = None) -> None:
    if dir_fd is None and is_temporary(path):
        check_closed(path)
    _unlink(path, dir_fd=dir_fd)


_monotonic = time.monotonic


def coarse_monotonic() -> float:
    return int(_monotonic() * 64) / 64


if sys.platform != "win32":
    builtins.__import__ = import_as_on_windows
    for kind in (asyncio.SelectorEventLoop,):
        kind.add_signal_handler = kind.remove_signal_handler = not_implemented  # type: ignore[assignment,method-assign]
        kind.add_reader = kind.add_writer = not_implemented  # type: ignore[assignment,method-assign]
    multiprocessing.set_start_method("spawn", force=True)
    builtins.open = io.open = open_as_on_windows  # type: ignore[assignment]
    os.replace, os.rename = replace_as_on_windows, rename_as_on_windows  # type: ignore[assignment]
    os.unlink = os.remove = unlink_as_on_windows  # type: ignore[assignment]
    time.monotonic = coarse_monotonic
