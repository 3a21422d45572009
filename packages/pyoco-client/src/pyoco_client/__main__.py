"""Makes `python -m pyoco_client` the command `pyoco-client`."""

import sys

from pyoco_client.cli import main

if __name__ == "__main__":
    sys.exit(main())
