"""A catalog whose server is reconfigured, and gets SIGHUP, while it starts."""

import os
import signal
from pathlib import Path

from lakeport import CatalogBuilder

with Path(os.environ["CONFIGURATION"]).open("a") as file:
    file.write(os.environ["ADDED"])
os.kill(os.getpid(), signal.SIGHUP)

catalog = CatalogBuilder().schema("s").build()
