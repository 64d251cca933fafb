"""gRPC with mutual TLS and pinned keys.

What every carrier of envelopes guarantees:

1. FIFO per pair: envelopes from one sender to one recipient are delivered in the order sent. A resend
   of an earlier envelope is allowed at any time (roles recognise it).
2. At least once: an envelope is sent again until it is acknowledged, and acknowledged only after
   the recipient has stored it together with the role's answer.
3. `sender` is compared with the authenticated identity of the peer before a role sees the envelope.
4. Bytes that do not decode go to `Role.fail`, or are refused so that the peer sends them again.
"""
