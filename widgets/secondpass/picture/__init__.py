"""A graph or a recording drawn: in a notebook, as a page, as a still."""
