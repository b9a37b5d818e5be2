"""Linux as a world of a study: real TCP between network namespaces, and the comparison with this simulator."""
