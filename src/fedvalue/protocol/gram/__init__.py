"""`gram`: three servers add up shares of one-hot columns; no server sees a row, parties see noisy sums.

- `prime_field`: numbers modulo 2^31 - 1, in arrays.
- `gram_layout`: which column is whose, and where a cell of a table lies in the matrix of all products.
- `components`: how a party's columns become three components, any two of which are random.
- `gram_upload`: a party's side.
- `gram_sums`: a server's side; `coin_toss`, `row_sums`, `gram_checks`, `gram_noise` and `sign_noise` are its
  steps.
- `gram_opening`: what the servers open, and how it is checked.

Server j holds components j and j + 1 of every party.
docs/protocol.md has the steps; decision 0321, the reasons.
"""
