"""Linux as a world of a study; `kernel_world/world.py` does the work."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # What both comparisons need stands with the one with ns-3.
    sys.path.append(str(Path(__file__).resolve().parents[1] / "ns3"))
    from kernel_world import world

    world.main()
