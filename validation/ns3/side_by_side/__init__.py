"""The comparison with ns-3: protocol, both sides, statistics, tables, pictures."""
