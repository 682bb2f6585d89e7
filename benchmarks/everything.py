"""All benchmarks, each in a process of its own, so that none inherits another's memory; then the budgets together."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from benchmarks.catalogue import EVERYTHING, SCENARIOS
from benchmarks.figures import MARKDOWN_HEAD, Finding, as_json, as_markdown, as_table, budgeted, from_json

_BOUND = 600.0  # seconds, of a shape


def main(output: str = "table") -> int:
    """Run and print; exit code 1 when one failed its checks, took too long or could not be run."""
    findings: list[Finding] = []
    failed: list[str] = []
    if output == "markdown":
        print(MARKDOWN_HEAD)
    for arguments in EVERYTHING:
        finding = measure(arguments)
        if isinstance(finding, str):
            failed.append(finding)
            print(finding, file=sys.stderr, flush=True)
            continue
        findings.append(finding)
        if output == "markdown" and not finding.problems:
            print(as_markdown(finding), flush=True)
        elif output in ("json", "finding"):
            print(as_json(finding), flush=True)
        else:
            print(f"{as_table(finding)}\n", flush=True)
    if output == "table":
        print(summary(findings))
    return 1 if failed or any(finding.problems for finding in findings) else 0


def measure(arguments: tuple[str, ...]) -> Finding | str:
    """One benchmark in a process of its own; what went wrong, in words, when it did not say anything."""
    name = " ".join(arguments)
    bound = SCENARIOS[arguments[0]].bound if arguments[0] in SCENARIOS else _BOUND
    command = [sys.executable, "-m", "benchmarks", *arguments, "-o", "finding"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            found, errors = process.communicate(timeout=bound)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # so that it ends its database and removes its folder
            process.communicate()
            return f"{name}: not over after {bound:g} s"
    try:
        return from_json(found)
    except json.JSONDecodeError:
        return f"{name}: exit code {process.returncode}: {errors[-2000:].strip()}"


def summary(findings: list[Finding]) -> str:
    """Every figure that has a budget, in one table."""
    lines = [f"{name:<20}{figure.what:<48}{figure.shown:>20}  {figure.told}" for name, figure in budgeted(findings)]
    return "\n".join(["budgets", *lines])
