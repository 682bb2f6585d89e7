"""Plugins: classes in a folder or in installed packages that add macros and listeners to every DAG."""
