"""Sees to it that Java and Maven are there for the broker: `python -m tests.kafka.needed`.

As root on Debian it installs what is missing; otherwise it says what to install and fails.
"""

import os
import shutil
import subprocess
import sys

PACKAGES = {"java": "default-jre-headless", "keytool": "default-jre-headless", "mvn": "maven"}
"""Debian package by program."""


def missing() -> list[str]:
    """Programs that are not on the PATH."""
    return [program for program in PACKAGES if shutil.which(program) is None]


def main() -> int:
    """Install what is missing, or say what is; the exit code."""
    packages = sorted({PACKAGES[program] for program in missing()})
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (["update", "-qq"], ["install", "-qq", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", "-y", *arguments], check=False, env=environment)
    for program in missing():
        sys.stderr.write(
            f"{program} is not there, and a Kafka broker needs it: apt-get install {PACKAGES[program]} "
            "(Java 17 or later)\n"
        )
    return 1 if missing() else 0


if __name__ == "__main__":
    sys.exit(main())
