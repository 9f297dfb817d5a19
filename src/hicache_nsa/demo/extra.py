"""How to get what the demo needs beyond the package itself."""

INSTALL_EXTRA = "run pip install '.[demo]' in the project's folder"
