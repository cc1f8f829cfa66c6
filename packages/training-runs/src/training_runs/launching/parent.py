"""A rank ends with the process that started it."""

import ctypes
import os
import signal
import sys
import threading
import time

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
