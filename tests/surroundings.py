"""Makes this process, and those that tests start, independent of what a shell, a job or a container hands on.

Signals that are ignored, a umask, a language, a time zone, a terminal, and settings of Python and of libraries, which
read some of them when they are imported.
"""

import locale
import os
import re
import signal

SETTINGS = re.compile(
    "(LANG|LC_|TERM$|COLUMNS$|LINES$|NO_COLOR|FORCE_COLOR|CLICOLOR|TZ$|XDG_|OMP_|OPENBLAS_|MKL_|HF_|AWS_|.*_PROXY$"
    "|PYTHON(?!PATH|HOME|FAULT)|NUMBA_(?!CACHE_DIR)|PBOS_(?!DATA|REQUIRE_DATA|AXE|PYTHONS))",
    re.IGNORECASE,
)
for name in filter(SETTINGS.match, list(os.environ)):
    del os.environ[name]
os.umask(0o022)
if hasattr(signal, "pthread_sigmask"):
    os.environ["LC_ALL"] = "C.UTF-8"
    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
