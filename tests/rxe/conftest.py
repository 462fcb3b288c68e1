# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: The GraceKV authors
"""The fixtures of the integration tests."""
import importlib.util
import pathlib

PATH = pathlib.Path(__file__).resolve().parents[1] / "integration" / "conftest.py"
spec = importlib.util.spec_from_file_location("integration_conftest", PATH)
theirs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(theirs)
world = theirs.world
pytest_configure = theirs.pytest_configure
