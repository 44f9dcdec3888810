"""Compilation: of everything by ``skfdp compile``, of a first run by two processes."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from skfdp.cli.output import CommandError, complain, say
from skfdp.cli.progress import stage

#: What every fit needs, and one process can compile while another is at its sums.
_COMMON = ("rows", "noise", "tiles")
#: What a first run waits for at most, in seconds; it then compiles by itself.
_PATIENCE = 120.0
_CANNOT_BE_KEPT = (
    "there is no folder in which compiled code could be kept, so that every run "
    "compiles it again: set NUMBA_CACHE_DIR to a folder that can be written."
)


def run(arguments: argparse.Namespace) -> None:
    """Compile what most fits need, in as many processes as there are cores."""
    from skfdp.kernels import ahead

    if not ahead.can_be_kept():
        raise CommandError(_CANNOT_BE_KEPT)
    groups, context = list(ahead.GROUPS), get_context("spawn")
    n_processes = min(os.cpu_count() or 1, len(groups))
    with ProcessPoolExecutor(n_processes, context) as pool:
        jobs = [pool.submit(ahead.compile_groups, [group]) for group in groups]
        for number, job in enumerate(as_completed(jobs)):
            job.result()
            stage(f"compiling, {number + 1} of {len(groups)} parts are done", slow=True)
    say(f"{len(groups)} parts are compiled: first fits start at once.")


class _Helper:
    """A process that compiles a part of what a first run needs."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        """Start it if nothing is compiled yet, and there is a core for it."""
        from skfdp.kernels import ahead

        if not ahead.can_be_kept():
            complain(f"note: {_CANNOT_BE_KEPT}")
        elif ahead.cold() and (os.cpu_count() or 1) > 1:
            stage("compiling, which a first run after an installation does", slow=True)
            quiet = subprocess.DEVNULL
            with contextlib.suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "skfdp.kernels.ahead", *_COMMON],
                    stdin=quiet,
                    stdout=quiet,
                    stderr=quiet,
                )

    def join(self, groups: Sequence[str] = ()) -> None:
        """Compile the groups here, and wait for the helper, if there is one."""
        if self._process is None:
            return
        from skfdp.kernels import ahead

        ahead.compile_groups(groups)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        self.stop()

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def remark() -> str:
    """Return what to say of a fit that compiles its loop, and nothing of others."""
    from skfdp.kernels import ahead

    if ahead.can_be_kept() and not ahead.cold():
        return ""
    return " (its code is compiled, which a first run does)"


_helper = _Helper()
start, join, stop = _helper.start, _helper.join, _helper.stop
