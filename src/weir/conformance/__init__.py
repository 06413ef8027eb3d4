"""The stories of the KEPs, played in real time in any live cluster, and what each comes to there.

`features` asks what a cluster offers, `renaming` gives every story names of its own, `live` is the cluster as a story
sees it, `run` plays the stories, `cleaning` takes everything away again, `results` and `formats` say what was seen.
"""
