"""Bundles: where DAG files come from, and the code of their versions in a cache on this machine.

types.py      what a bundle is                   kinds.py      the bundles of the settings
names.py      names of files in bundles          git.py        a branch of a git repository
cache.py      one folder for each version        archive.py    a zip archive at an address
places.py     where the code of a run is         zip_files.py  versions as zip archives
snapshots.py  a folder as a version              tree.py       a folder, read without following links
"""
