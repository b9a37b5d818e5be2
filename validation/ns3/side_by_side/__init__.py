"""The comparison with ns-3: the world ns3, statistics, tables, pictures."""
