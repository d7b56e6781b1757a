"""The four papers' instruments together: no paper has these experiments."""
