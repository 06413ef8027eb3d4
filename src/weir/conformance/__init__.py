"""The KEPs' stories, played in real time in any live cluster.

`features` detects what a cluster offers, `renaming` isolates stories by name, `live` is a story's view of the
cluster, `run` plays, `cleaning` removes everything, `results` and `formats` report.
"""
