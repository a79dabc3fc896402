"""Tools that judge what agents wrote by running it: tests, compilers, linters.

    tools:
      run_pytest: {run: crewlog.evaluators:run_pytest, effects: write, retry: safe, timeout: 90}

They run programs in the run's workspace, bounded in time and output, and answer with signals:
`{signals: [{agent, type, detail, severity, where}], passed, summary}`. A program that hangs, or
cannot be run, is a signal, too. For an agent that `does` them, see docs/evaluators.md.
"""

from crewlog.evaluators.compiling import compile_python, compile_with
from crewlog.evaluators.linting import lint
from crewlog.evaluators.testing import run_pytest

__all__ = ["compile_python", "compile_with", "lint", "run_pytest"]
