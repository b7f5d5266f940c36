"""The course as pages: notebooks, and a gallery of errors, that replay with no kernel.

``python -m secondpass.site notebooks --to site`` builds them.
"""
