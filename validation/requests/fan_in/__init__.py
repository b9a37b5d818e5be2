"""Real clients and servers around one port that overflows: `make validate-requests`."""
