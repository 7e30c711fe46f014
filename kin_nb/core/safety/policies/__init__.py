"""One policy, one small file. Each has `decide(call, context) -> Decision | None`; None passes the question on."""
