"""Imports modules of packages whose __init__ files need what is not installed."""
import importlib
import pathlib
import sys
import types


def register_packages(names, package, version):
    """Lets modules of the packages be imported without the __init__ files of these packages, which must be in PYTHONPATH.

    Ends the program when `package` has another version than `version`.
    """
    for name in names:
        parts = name.split(".")
        folder = next((place for place in map(pathlib.Path, sys.path) if (place / parts[0] / "__init__.py").exists()), None)
        if folder is None:
            raise SystemExit(f"{parts[0]} is not in PYTHONPATH")
        module = types.ModuleType(name)
        module.__path__ = [str(folder.joinpath(*parts))]
        sys.modules[name] = module
    found = importlib.import_module(f"{package}.version").__version__
    if found != version:
        raise SystemExit(f"{package} {found} is in PYTHONPATH, not {version}")
