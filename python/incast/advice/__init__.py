"""`incast advise`: what a cluster suffers from, and which of the remedies that it may use helps it most.

`cluster` reads the file, with `samples`. `closed_form` computes what needs no run. `remedies` has one entry per remedy.
`simulation` makes runs of them, `judging` compares these, and `report` and `page` say what came out. `command` puts all
of it together.
"""
