"""Runs a command to its end, and prints what became of it; see `processes.run_process`."""

import json
import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter

start = perf_counter()
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
seconds = perf_counter() - start
usage = getrusage(RUSAGE_CHILDREN)
found = {
    "wall": seconds,
    "processor": usage.ru_utime + usage.ru_stime,
    "peak_mib": usage.ru_maxrss / 1024,
}
print(json.dumps([done.returncode, done.stdout, found]))
