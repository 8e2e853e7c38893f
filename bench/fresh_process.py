"""Times an import and a first read in a new Python process."""

import json
import subprocess
import sys
from typing import Any

SCRIPT = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
path = sys.argv[1]
start, cpu = time.perf_counter(), time.process_time()
{imports}
{read}
seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({{"seconds": seconds, "cpu": cpu, "memory": memory}}))
"""


def first_open(imports: str, read: str, job: Any) -> dict:
    """The interpreter's own start does not count."""
    script = SCRIPT.format(imports=imports, read=read)
    done = subprocess.run([sys.executable, "-c", script, job.paths[0]], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])
