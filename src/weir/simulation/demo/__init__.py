"""The KEPs' user stories, played in a simulated cluster and compared with the specification.

`stories/*.yaml` hold steps and expected outcomes; `story` reads them, `history` watches the cluster, `play` performs
the steps, `judge` compares, `words` prints, `screen` shows progress.
"""
