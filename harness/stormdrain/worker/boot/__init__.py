"""What is put into the interpreter of a Python service; see `sitecustomize.py` here."""
