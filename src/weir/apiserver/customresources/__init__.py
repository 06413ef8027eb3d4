"""Custom resources as a server has them: which are served now, and what becomes of their definitions.

`definitions` follows the stored definitions and lets their kinds join and leave the server's registry; `keeper` writes
what their conditions say and cleans up after those that are deleted.
"""
