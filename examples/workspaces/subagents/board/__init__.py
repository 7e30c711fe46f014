"""The board at the quay: wide letters, one line for each boat."""
