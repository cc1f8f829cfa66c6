"""A rank ends with the process that started it."""

import ctypes
import os
import signal
import sys
import threading
import time
from pathlib import Path

# By which a process is asked to stop, besides Ctrl-C. Windows has no terminal that ends.
STOPS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
# By which SLURM says that a job's time is nearly over, where it was asked to: --signal=USR1@300.
TIME_LIMIT = tuple(getattr(signal, name) for name in ("SIGUSR1",) if hasattr(signal, name))
SUPERVISOR = "LAUNCH_SUPERVISOR"  # variable that tells each rank the process id of its parent
PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with_supervisor() -> None:
    """Have this process killed when its supervisor ends, whatever ends that; its loader workers follow by themselves.

    On Linux the kernel does so, to a process that hangs or is stopped too; elsewhere a thread.
    """
    supervisor = int(os.environ[SUPERVISOR])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=end_after, args=[supervisor], daemon=True).start()
    if os.getppid() != supervisor:  # it has ended already
        sys.exit(1)


def end_after(supervisor: int) -> None:
    while os.getppid() == supervisor:
        time.sleep(1)
    os._exit(1)


def by_signal(number: int, kills_before: int) -> str:
    """Return which signal ended a process, and who has sent it as far as that can be known.

    Args:
        number: of the signal.
        kills_before: what `kills` said when the process was started.
    """
    name = signal.Signals(number).name
    if name != "SIGKILL":
        return name
    if kills() > kills_before:
        return f"{name}, by the system, for want of memory: the machine's, or what a container or job may have"
    return f"{name} from outside: by somebody, a scheduler's limit, or the system for want of memory"


def kills() -> int:
    """Return how many processes Linux has killed for want of memory; 0 where it does not say."""
    try:
        counts = Path("/proc/vmstat").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in counts.splitlines() if line.startswith("oom_kill ")), 0)
