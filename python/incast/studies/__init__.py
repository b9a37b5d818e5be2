"""Studies: a scenario swept over axes and stacks, drawn as in a paper, and compared with the claims of the paper.

`reading` turns a study file into a `study.Study`; `plan` writes its runs out; `execution` runs those that the `store`
does not have; `measuring` makes a `table` of them; `claims` judges by it; `charts`, `pictures`, `svg` and `report` show
it.
"""
