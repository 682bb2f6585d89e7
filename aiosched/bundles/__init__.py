"""Bundles: where DAG files come from, and the code of their versions in a cache on this machine.

names.py      names of files in bundles          git.py        a branch of a git repository
cache.py      one folder for each version        archive.py    a zip archive at an address
places.py     where the code of a run is         unpacking.py  what a zip archive may contain
snapshots.py  a folder as a version              kinds.py      the bundles of the settings
packing.py    a version as a zip archive
"""
