"""Studies: a scenario swept over axes and stacks, drawn as a paper draws it, and held against what the paper claims.

`reading` turns a study file into a `study.Study`; `plan` writes its runs out; `execution` runs those that the `store`
does not have; `measuring` makes a `table` of them; `claims` judges by it; `charts`, `pictures`, `svg` and `report` show
it.
"""
