"""The stories of the KEPs, lived through in a real cluster and held against what is specified.

`stories/*.yaml` hold what is done and what must come of it; `story` reads them, `history` watches the cluster,
`play` does what a story says, `judge` compares, `words` prints, `screen` shows it while it happens.
"""
